// The page: what comes from the robot is drawn and told, what the person does is said to it. A frame is answered when it was drawn.

import { Camera } from "./camera.js";
import { Drawing } from "./draw.js";
import { Link } from "./link.js";
import { PATIENCE, Panel, byId, shown } from "./panel.js";
import { listen } from "./pointer.js";
import { number } from "./plots.js";
import { add, scale } from "./vectors.js";

const TRAIL = 240; // places of an effector that are remembered
const ROWS = 1200; // rows of the plots that are remembered
const PLOTS = 100; // [ms] from one drawing of the plots to the next, at least
const SLOW = 40, QUICK = 20; // [ms] that a picture waits for its turn where it has too many pixels, and where it could have more
const OFTEN = 8, LONG = 600; // pictures in a row after which it gets fewer, and more again
const COARSEST = 0.5; // pixels of the picture for one of the page, at least
const CALM = { strain: 0.05 }; // values below these do not look alarming
const LABELS = { strain: "Strain", weight: "Weight", none: "Plain" };

const canvas = byId("view");
const drawing = started(() => new Drawing(canvas));
let panel = null, scene = null, frame = null, camera = null;
let fresh = false, asked = 0, most = 0, rows = [], trails = {}, plotted = 0;
let sharp = 1, late = 0, early = 0; // pixels of the picture for one of the page, and pictures in a row that waited long, and did not
let held = null; // the target that the person moves, { name, at, until }: shown at once, and until the robot knows of it
const wanted = {}; // what is said with the next picture

const link = new Link({ scene: begin, frame: arrived, error: refused, state: connected });

function begin(message) {
  scene = message;
  scene.middle = scale(add(scene.low, scene.high), 0.5);
  if (!camera) { // a page that comes back is of the same robot
    started(() => drawing.begin(scene));
    camera = new Camera(scene.low, scene.high, scene.dim === 2);
    camera.fit(canvas.clientWidth / canvas.clientHeight);
    page.camera = camera;
    listen(page);
    seeThrough(Object.keys(scene.arrays).some((name) => name.startsWith("cavity ")) ? 0.55 : 0);
  }
  panel = new Panel(scene, { axis: known(typed), active: known((effectors) => link.say("active", { effectors })), controls: known((values) => (wanted.controls = { values })) });
  byId("colour").replaceChildren(...scene.colours.map((by) => Object.assign(document.createElement("button"), { textContent: LABELS[by], onclick: () => link.say("colour", { by }) })));
  [...byId("colour").children].forEach((button, k) => (button.dataset.by = scene.colours[k]));
  [frame, rows, trails, most] = [null, [], {}, 0];
}

function arrived(message) {
  if (!scene) return;
  if (frame && message.time < frame.time) [rows, trails] = [[], {}];
  frame = message;
  fresh = true;
  if (held && (performance.now() > held.until || frame.targets[held.name].every((x, k) => x === held.at[k]))) held = null;
  remember();
  changed();
}

// The way of the effectors, the rows of the plots, and the deepest colour, which follows the values slowly.
function remember() {
  for (const name of frame.active) {
    const trail = (trails[name] ??= []), place = deep(frame.places[name]), last = trail[trail.length - 1];
    if (!last || Math.hypot(...place.map((x, k) => x - last[k])) > 1e-3 * scene.size) trail.push(place);
    if (trail.length > TRAIL) trail.shift();
  }
  if (!frame.paused) rows.push({ time: frame.time, error: frame.mode !== "manual" && frame.error !== null ? 1e3 * frame.error : null, u: frame.u });
  if (rows.length > ROWS) rows.shift();
  const { values } = frame.arrays;
  if (!values) return void (most = 0);
  const high = Math.max(quantile(values, 0.99), CALM[frame.colour] ?? 0);
  most = !most || high > most ? high : most + 0.01 * (high - most);
}

function quantile(values, share) {
  const sorted = Float32Array.from(values).sort();
  return sorted[Math.floor(share * (sorted.length - 1))] || 1e-9;
}

// Something that was said makes no sense: a target goes back to where the robot has it.
function refused({ text }) {
  held = null;
  toast(text);
}

// What is said of the robot as it is needs a frame: there is none between a scene and its first one.
function known(action) {
  return (...more) => frame && action(...more);
}

const aimed = (name) => (held?.name === name ? held.at : frame.targets[name]);

// One coordinate of a target, from the panel.
function typed(name, axis, value) {
  page.aim(name, aimed(name).map((x, k) => (k === axis ? value : x)));
}

const deep = (place) => [...place, 0].slice(0, 3);

// One picture for whatever has changed, at the browser's own rate.
function changed() {
  if (asked) return;
  asked = performance.now();
  requestAnimationFrame(picture);
}

// A browser that does not keep up lets the next picture wait: it gets fewer pixels then.
function sharpness(wait) {
  [late, early] = [wait > SLOW ? late + 1 : 0, wait < QUICK ? early + 1 : 0];
  if (late >= OFTEN) [sharp, late] = [Math.max(COARSEST, 0.8 * sharp), 0];
  if (early >= LONG) [sharp, early] = [Math.min(1, 1.25 * sharp), 0];
  return sharp * Math.min(devicePixelRatio || 1, drawing.carded ? 2 : 1);
}

function picture() {
  const dense = sharpness(performance.now() - asked);
  asked = 0;
  if (!frame || !camera) return;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((side) => Math.max(1, Math.round(side * dense)));
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const pixel = (place) => camera.pixel(place, canvas.clientHeight);
  drawing.weighty = frame.colour === "weight";
  drawing.move(frame, most, marks(), pixel);
  drawing.draw(camera, most, { through: Number(byId("through").value), showLines: byId("show-lines").checked, showGround: byId("show-ground").checked });
  for (const [say, more] of Object.entries(wanted)) link.say(say, more);
  for (const say of Object.keys(wanted)) delete wanted[say];
  if (fresh) answer();
}

function answer() {
  fresh = false;
  link.say("seen", { k: frame.k });
  panel.tell(frame, aimed);
  if (performance.now() - plotted > PLOTS) {
    plotted = performance.now();
    panel.plots(rows);
  }
  legend();
  const [first] = page.targets();
  canvas.dataset.target = first ? camera.project(first.at, canvas.clientWidth, canvas.clientHeight).map((x) => x.toFixed(1)).join(" ") : "";
  canvas.dataset.frames = Number(canvas.dataset.frames ?? 0) + 1;
}

function marks() {
  return Object.keys(frame.places).map((name) => ({
    place: deep(frame.places[name]), trail: (byId("show-trail").checked && trails[name]) || [], active: frame.active.includes(name) && frame.mode === "follow",
    target: deep(aimed(name)),
  }));
}

function legend() {
  byId("legend").hidden = !frame.arrays.values;
  if (!frame.arrays.values) return;
  byId("legend-title").textContent = frame.colour === "strain" ? scene.strain : "weight on a node";
  const [low, high] = byId("legend-ends").children;
  low.textContent = "0";
  high.textContent = frame.colour === "strain" ? shown(most, "share") : `${number(1e3 * most, 1)} mN`;
}

const page = {
  canvas,
  camera: null,
  targets: () => (frame?.mode === "follow" ? frame.active.map((name) => ({ name, at: deep(aimed(name)) })) : []),
  aim(name, at) {
    held = { name, at: at.slice(0, scene.dim), until: performance.now() + PATIENCE };
    wanted.target = { effector: name, at: held.at };
    changed();
  },
  changed,
  keys: {
    " ": known(() => link.say("pause", { on: !frame.paused })),
    r: known(() => link.say("record", { on: frame.recording === null })),
    p: known(() => link.say("replay")),
    m: known(() => link.say("mode", { mode: frame.mode === "follow" ? "manual" : "follow" })),
    c: known(() => link.say("colour", { by: scene.colours[(scene.colours.indexOf(frame.colour) + 1) % scene.colours.length] })),
    x: () => {
      seeThrough(Number(byId("through").value) > 0 ? 0 : 0.6);
      changed();
    },
    f: () => {
      camera?.fit(canvas.clientWidth / canvas.clientHeight);
      changed();
    },
    0: known(() => link.say("reset")),
    "?": () => byId("help").showModal(),
    h: () => byId("help").showModal(),
  },
};

for (const [id, key] of Object.entries({ pause: " ", reset: "0", record: "r", replay: "p", fit: "f", ask: "?" })) byId(id).onclick = () => page.keys[key]();
for (const button of byId("mode").children) button.onclick = () => link.say("mode", { mode: button.dataset.mode });
for (const id of ["show-trail", "show-lines", "show-ground"]) byId(id).oninput = changed;
byId("through").oninput = () => seeThrough(Number(byId("through").value));
byId("csv").href = "commands.csv";
byId("plan").href = "plan.json";
byId("veil-button").onclick = () => link.open(true);
addEventListener("resize", changed);
canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
canvas.addEventListener("webglcontextrestored", () => scene && drawing.begin(scene));

function connected(state, reason) {
  const veil = { open: null, lost: ["The robot is gone", "Waiting for pliant drive to come back."], taken: ["Someone else is driving", `${reason} Only one can at a time.`] }[state];
  byId("veil").hidden = veil === null;
  byId("veil-button").hidden = state !== "taken";
  if (veil) [byId("veil-title").textContent, byId("veil-text").textContent] = veil;
}

function seeThrough(share) {
  byId("through").value = share;
  byId("through").style.setProperty("--to", `${(100 * share) / 0.9}%`);
  changed();
}

let fading = 0;
function toast(text) {
  byId("toast").textContent = text;
  byId("toast").hidden = false;
  clearTimeout(fading);
  fading = setTimeout(() => (byId("toast").hidden = true), 6000);
}

// What cannot be drawn is told instead of a blank page.
function started(work) {
  try {
    return work();
  } catch (error) {
    byId("veil").hidden = false;
    byId("veil-title").textContent = "Nothing can be drawn";
    byId("veil-text").textContent = error.message;
    throw error;
  }
}
