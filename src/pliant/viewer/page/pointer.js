// Mouse, touch and keys: drag a target, or rotate, move and zoom the view.

import { onPlane } from "./camera.js";
import { add, cross, scale, sub } from "./vectors.js";

const GRAB_RADIUS = 24; // [pixels] distance to a target within which it can be grabbed

// page: { camera, canvas, targets(): [{ name, at }], setTarget(name, at), requestPicture(), keys: { key: action } }
export function listen(page) {
  const { canvas } = page, pointers = new Map();
  let grabbed = null;

  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top, box.width, box.height];
  };

  canvas.addEventListener("pointerdown", (event) => {
    canvas.focus();
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, at(event));
    grabbed = pointers.size === 1 && event.button === 0 ? nearest(page, at(event)) : null;
    canvas.classList.toggle("rotating", !grabbed);
  });

  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId), now = at(event);
    if (!before) return canvas.classList.toggle("over-target", nearest(page, now) !== null);
    pointers.set(event.pointerId, now);
    if (grabbed) drag(page, grabbed, now, event.shiftKey);
    else if (pointers.size === 2) pinch(page, [...pointers.values()], before, now);
    else if (event.buttons & 6 || event.ctrlKey) page.camera.move(now[0] - before[0], now[1] - before[1], now[3]);
    else page.camera.rotate(now[0] - before[0], now[1] - before[1]);
    page.requestPicture();
  });

  const release = (event) => {
    pointers.delete(event.pointerId);
    grabbed = null;
    canvas.classList.remove("rotating");
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    page.camera.zoom(Math.exp(0.0012 * event.deltaY * (event.deltaMode ? 20 : 1)));
    page.requestPicture();
  }, { passive: false });
  addEventListener("keydown", (event) => keyPressed(page, event));
}

// The target under the mouse, with the offset of the mouse.
function nearest(page, [x, y, width, height]) {
  let best = null;
  for (const { name, at } of page.targets()) {
    const [px, py] = page.camera.project(at, width, height);
    const distance = Math.hypot(px - x, py - y);
    if (distance < (best?.distance ?? GRAB_RADIUS)) best = { name, at, distance, offset: [px - x, py - y] };
  }
  return best;
}

// Drag parallel to the view plane; with Shift only along the vertical.
function drag(page, grabbed, [x, y, width, height], straight) {
  const { camera } = page, ray = camera.ray(x + grabbed.offset[0], y + grabbed.offset[1], width, height);
  const upright = camera.flat ? [0, 1, 0] : [0, 0, 1];
  if (!straight || camera.flat) {
    const there = onPlane(camera, ray, grabbed.at, camera.basis.toward);
    if (there) page.setTarget(grabbed.name, there);
    return;
  }
  const there = onPlane(camera, ray, grabbed.at, cross(camera.basis.right, upright));
  if (there) page.setTarget(grabbed.name, [grabbed.at[0], grabbed.at[1], there[2]]);
}

function pinch(page, [one, two], before, now) {
  const other = one === now ? two : one;
  const apart = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);
  page.camera.zoom(apart(before, other) / Math.max(apart(now, other), 1));
  page.camera.move((now[0] - before[0]) / 2, (now[1] - before[1]) / 2, now[3]);
}

function keyPressed(page, event) {
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
  const directions = { ArrowLeft: scale(right, -1), ArrowRight: right, ArrowUp: up, ArrowDown: sub([0, 0, 0], up) };
  page.setTarget(first.name, add(first.at, scale(directions[key], step)));
}
