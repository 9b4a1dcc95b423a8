// The page: draws the frames of the robot and sends the commands of the user. It answers each frame after drawing it.

import { Camera } from "./camera.js";
import { Drawing } from "./draw.js";
import { Link } from "./link.js";
import { CONFIRM_TIMEOUT, Panel, byId, shown } from "./panel.js";
import { listen } from "./pointer.js";
import { number } from "./plots.js";
import { add, scale } from "./vectors.js";

const TRAIL_LENGTH = 240; // stored positions of an effector
const PLOT_ROWS = 1200; // stored rows of the plots
const PLOT_PERIOD = 100; // [ms] minimum time between two updates of the plots
const SLOW_WAIT = 40, FAST_WAIT = 20; // [ms] delay of a picture above which the browser is too slow, and below which it is fast enough
const SLOW_PICTURES = 8, FAST_PICTURES = 600; // consecutive slow (fast) pictures before the resolution decreases (increases)
const MIN_RESOLUTION = 0.5; // minimum number of picture pixels per page pixel
const MIN_COLOUR_MAX = { strain: 0.05 }; // lower limits of the colour range, so that small values look harmless
const LABELS = { strain: "Strain", weight: "Weight", none: "Plain" };

const canvas = byId("view");
const drawing = showFailure(() => new Drawing(canvas));
let panel = null, scene = null, frame = null, camera = null;
let fresh = false, asked = 0, colourMax = 0, rows = [], trails = {}, plotted = 0;
let resolution = 1, late = 0, early = 0; // picture pixels per page pixel; consecutive slow and fast pictures
let draggedTarget = null; // { name, at, until }: the target that the user moves, shown until the robot confirms it
const pending = {}; // messages to send with the next picture

const link = new Link({ scene: begin, frame: showFrame, error: showError, state: showConnection });

function begin(message) {
  scene = message;
  scene.middle = scale(add(scene.low, scene.high), 0.5);
  if (!camera) { // a page that reconnects shows the same robot
    showFailure(() => drawing.begin(scene));
    camera = new Camera(scene.low, scene.high, scene.dim === 2);
    camera.fit(canvas.clientWidth / canvas.clientHeight);
    page.camera = camera;
    listen(page);
    seeThrough(Object.keys(scene.arrays).some((name) => name.startsWith("cavity ")) ? 0.55 : 0);
  }
  panel = new Panel(scene, { axis: ifReady(setCoordinate), active: ifReady((effectors) => link.send("active", { effectors })), controls: ifReady((values) => (pending.controls = { values })) });
  byId("colour").replaceChildren(...scene.colours.map((by) => Object.assign(document.createElement("button"), { textContent: LABELS[by], onclick: () => link.send("colour", { by }) })));
  [...byId("colour").children].forEach((button, k) => (button.dataset.by = scene.colours[k]));
  [frame, rows, trails, colourMax] = [null, [], {}, 0];
}

function showFrame(message) {
  if (!scene) return;
  if (frame && message.time < frame.time) [rows, trails] = [[], {}];
  frame = message;
  fresh = true;
  if (draggedTarget && (performance.now() > draggedTarget.until || frame.targets[draggedTarget.name].every((x, k) => x === draggedTarget.at[k]))) draggedTarget = null;
  updateHistory();
  requestPicture();
}

// Update the trails, the rows of the plots and the colour range, which follows the values slowly.
function updateHistory() {
  for (const name of frame.active) {
    const trail = (trails[name] ??= []), place = as3d(frame.positions[name]), last = trail[trail.length - 1];
    if (!last || Math.hypot(...place.map((x, k) => x - last[k])) > 1e-3 * scene.size) trail.push(place);
    if (trail.length > TRAIL_LENGTH) trail.shift();
  }
  if (!frame.paused) rows.push({ time: frame.time, error: frame.mode !== "manual" && frame.error !== null ? 1e3 * frame.error : null, u: frame.u });
  if (rows.length > PLOT_ROWS) rows.shift();
  const { values } = frame.arrays;
  if (!values) return void (colourMax = 0);
  const high = Math.max(quantile(values, 0.99), MIN_COLOUR_MAX[frame.colour] ?? 0);
  colourMax = !colourMax || high > colourMax ? high : colourMax + 0.01 * (high - colourMax);
}

function quantile(values, share) {
  const sorted = Float32Array.from(values).sort();
  return sorted[Math.floor(share * (sorted.length - 1))] || 1e-9;
}

// Show an error message. A dragged target returns to the target of the robot.
function showError({ text }) {
  draggedTarget = null;
  toast(text);
}

// Run an action only after the first frame, since actions depend on the state of the robot.
function ifReady(action) {
  return (...more) => frame && action(...more);
}

const targetOf = (name) => (draggedTarget?.name === name ? draggedTarget.at : frame.targets[name]);

// Set one coordinate of a target, from the panel.
function setCoordinate(name, axis, value) {
  page.setTarget(name, targetOf(name).map((x, k) => (k === axis ? value : x)));
}

const as3d = (place) => [...place, 0].slice(0, 3);

// Schedule one picture for all changes, at the rate of the browser.
function requestPicture() {
  if (asked) return;
  asked = performance.now();
  requestAnimationFrame(picture);
}

// Reduce the resolution if the browser is too slow. Return the pixel ratio of the picture.
function pixelRatio(wait) {
  [late, early] = [wait > SLOW_WAIT ? late + 1 : 0, wait < FAST_WAIT ? early + 1 : 0];
  if (late >= SLOW_PICTURES) [resolution, late] = [Math.max(MIN_RESOLUTION, 0.8 * resolution), 0];
  if (early >= FAST_PICTURES) [resolution, early] = [Math.min(1, 1.25 * resolution), 0];
  return resolution * Math.min(devicePixelRatio || 1, drawing.hasCard ? 2 : 1);
}

function picture() {
  const ratio = pixelRatio(performance.now() - asked);
  asked = 0;
  if (!frame || !camera) return;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((side) => Math.max(1, Math.round(side * ratio)));
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const pixel = (place) => camera.pixel(place, canvas.clientHeight);
  drawing.colourByWeight = frame.colour === "weight";
  drawing.move(frame, colourMax, marks(), pixel);
  drawing.draw(camera, colourMax, { through: Number(byId("through").value), showLines: byId("show-lines").checked, showGround: byId("show-ground").checked });
  for (const [type, fields] of Object.entries(pending)) link.send(type, fields);
  for (const type of Object.keys(pending)) delete pending[type];
  if (fresh) answer();
}

function answer() {
  fresh = false;
  link.send("seen", { k: frame.k });
  panel.show(frame, targetOf);
  if (performance.now() - plotted > PLOT_PERIOD) {
    plotted = performance.now();
    panel.plots(rows);
  }
  legend();
  const [first] = page.targets();
  canvas.dataset.target = first ? camera.project(first.at, canvas.clientWidth, canvas.clientHeight).map((x) => x.toFixed(1)).join(" ") : "";
  canvas.dataset.frames = Number(canvas.dataset.frames ?? 0) + 1;
}

function marks() {
  return Object.keys(frame.positions).map((name) => ({
    place: as3d(frame.positions[name]), trail: (byId("show-trail").checked && trails[name]) || [], active: frame.active.includes(name) && frame.mode === "follow",
    target: as3d(targetOf(name)),
  }));
}

function legend() {
  byId("legend").hidden = !frame.arrays.values;
  if (!frame.arrays.values) return;
  byId("legend-title").textContent = frame.colour === "strain" ? scene.strain : "weight on a node";
  const [low, high] = byId("legend-ends").children;
  low.textContent = "0";
  high.textContent = frame.colour === "strain" ? shown(colourMax, "-") : `${number(1e3 * colourMax, 1)} mN`;
}

const page = {
  canvas,
  camera: null,
  targets: () => (frame?.mode === "follow" ? frame.active.map((name) => ({ name, at: as3d(targetOf(name)) })) : []),
  setTarget(name, at) {
    draggedTarget = { name, at: at.slice(0, scene.dim), until: performance.now() + CONFIRM_TIMEOUT };
    pending.target = { effector: name, at: draggedTarget.at };
    requestPicture();
  },
  requestPicture,
  keys: {
    " ": ifReady(() => link.send("pause", { on: !frame.paused })),
    r: ifReady(() => link.send("record", { on: frame.recording === null })),
    p: ifReady(() => link.send("replay")),
    m: ifReady(() => link.send("mode", { mode: frame.mode === "follow" ? "manual" : "follow" })),
    c: ifReady(() => link.send("colour", { by: scene.colours[(scene.colours.indexOf(frame.colour) + 1) % scene.colours.length] })),
    x: () => {
      seeThrough(Number(byId("through").value) > 0 ? 0 : 0.6);
      requestPicture();
    },
    f: () => {
      camera?.fit(canvas.clientWidth / canvas.clientHeight);
      requestPicture();
    },
    0: ifReady(() => link.send("reset")),
    "?": () => byId("help").showModal(),
    h: () => byId("help").showModal(),
  },
};

for (const [id, key] of Object.entries({ pause: " ", reset: "0", record: "r", replay: "p", fit: "f", ask: "?" })) byId(id).onclick = () => page.keys[key]();
for (const button of byId("mode").children) button.onclick = () => link.send("mode", { mode: button.dataset.mode });
for (const id of ["show-trail", "show-lines", "show-ground"]) byId(id).oninput = requestPicture;
byId("through").oninput = () => seeThrough(Number(byId("through").value));
byId("csv").href = "commands.csv";
byId("plan").href = "plan.json";
byId("veil-button").onclick = () => link.open(true);
addEventListener("resize", requestPicture);
canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
canvas.addEventListener("webglcontextrestored", () => scene && drawing.begin(scene));

function showConnection(state, reason) {
  const veil = { open: null, lost: ["Connection lost", "Waiting for pliant drive to restart."], taken: ["Another page is driving", `${reason} Only one page can drive at a time.`] }[state];
  byId("veil").hidden = veil === null;
  byId("veil-button").hidden = state !== "taken";
  if (veil) [byId("veil-title").textContent, byId("veil-text").textContent] = veil;
}

function seeThrough(share) {
  byId("through").value = share;
  byId("through").style.setProperty("--to", `${(100 * share) / 0.9}%`);
  requestPicture();
}

let fading = 0;
function toast(text) {
  byId("toast").textContent = text;
  byId("toast").hidden = false;
  clearTimeout(fading);
  fading = setTimeout(() => (byId("toast").hidden = true), 6000);
}

// Show an error message instead of a blank page if WebGL fails.
function showFailure(work) {
  try {
    return work();
  } catch (error) {
    byId("veil").hidden = false;
    byId("veil-title").textContent = "The robot cannot be drawn";
    byId("veil-text").textContent = error.message;
    throw error;
  }
}
