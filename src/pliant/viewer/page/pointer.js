// Mouse, touch and keys: drag a target, or turn, move and near the view.

import { onPlane } from "./camera.js";
import { add, cross, scale, sub } from "./vectors.js";

const REACH = 24; // [pixels] about a target where it can be caught

// page: { camera, canvas, targets(): [{ name, at }], aim(name, at), changed(), keys: { key: action } }
export function listen(page) {
  const { canvas } = page, fingers = new Map();
  let caught = null;

  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top, box.width, box.height];
  };

  canvas.addEventListener("pointerdown", (event) => {
    canvas.focus();
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, at(event));
    caught = fingers.size === 1 && event.button === 0 ? nearest(page, at(event)) : null;
    canvas.classList.toggle("turning", !caught);
  });

  canvas.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId), now = at(event);
    if (!before) return canvas.classList.toggle("over-target", nearest(page, now) !== null);
    fingers.set(event.pointerId, now);
    if (caught) drag(page, caught, now, event.shiftKey);
    else if (fingers.size === 2) pinch(page, [...fingers.values()], before, now);
    else if (event.buttons & 6 || event.ctrlKey) page.camera.move(now[0] - before[0], now[1] - before[1], now[3]);
    else page.camera.turn(now[0] - before[0], now[1] - before[1]);
    page.changed();
  });

  const release = (event) => {
    fingers.delete(event.pointerId);
    caught = null;
    canvas.classList.remove("turning");
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    page.camera.near(Math.exp(0.0012 * event.deltaY * (event.deltaMode ? 20 : 1)));
    page.changed();
  }, { passive: false });
  addEventListener("keydown", (event) => pressed(page, event));
}

// The target under the mouse, with where it was caught.
function nearest(page, [x, y, width, height]) {
  let best = null;
  for (const { name, at } of page.targets()) {
    const [px, py] = page.camera.project(at, width, height);
    const away = Math.hypot(px - x, py - y);
    if (away < (best?.away ?? REACH)) best = { name, at, away, slip: [px - x, py - y] };
  }
  return best;
}

// Across the view through where the target was caught; with Shift along the upright alone.
function drag(page, caught, [x, y, width, height], straight) {
  const { camera } = page, ray = camera.ray(x + caught.slip[0], y + caught.slip[1], width, height);
  const upright = camera.flat ? [0, 1, 0] : [0, 0, 1];
  if (!straight || camera.flat) {
    const there = onPlane(camera, ray, caught.at, camera.basis.toward);
    if (there) page.aim(caught.name, there);
    return;
  }
  const there = onPlane(camera, ray, caught.at, cross(camera.basis.right, upright));
  if (there) page.aim(caught.name, [caught.at[0], caught.at[1], there[2]]);
}

function pinch(page, [one, two], before, now) {
  const other = one === now ? two : one;
  const apart = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);
  page.camera.near(apart(before, other) / Math.max(apart(now, other), 1));
  page.camera.move((now[0] - before[0]) / 2, (now[1] - before[1]) / 2, now[3]);
}

function pressed(page, event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches?.("input[type=number], dialog *")) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (key.startsWith("Arrow")) {
    if (!event.target.matches?.("input")) nudge(page, key, event);
    return;
  }
  if (event.repeat || (key === " " && event.target.matches?.("button, input, a"))) return;
  if (page.keys[key]) {
    event.preventDefault();
    page.keys[key]();
  }
}

function nudge(page, key, event) {
  const [first] = page.targets();
  if (!first) return;
  event.preventDefault();
  const { right, up } = page.camera.basis, step = page.camera.size * (event.shiftKey ? 0.02 : 0.002);
  const ways = { ArrowLeft: scale(right, -1), ArrowRight: right, ArrowUp: up, ArrowDown: sub([0, 0, 0], up) };
  page.aim(first.name, add(first.at, scale(ways[key], step)));
}
