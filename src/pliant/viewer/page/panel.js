// The panel: target inputs, actuator sliders, plots and the state of the robot.

import { fixed, number, plot } from "./plots.js";

export const SERIES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6a3d9a", "#4d4d4d"];
const SHOWN = { N: [1, "N"], Pa: [1e-3, "kPa"], "-": [100, "%"], rad: [180 / Math.PI, "°"], m: [1e3, "mm"] }; // factor and name of the displayed unit for each SI unit

export const CONFIRM_TIMEOUT = 2000; // [ms] that a command is shown before the robot confirms it

export const byId = (id) => document.getElementById(id);

function element(tag, more = {}, ...children) {
  const made = Object.assign(document.createElement(tag), more);
  made.append(...children);
  return made;
}

export class Panel {
  // commands: { axis(effector, axis, value), active(effectors), controls(values) }
  constructor(scene, commands) {
    Object.assign(this, { scene, commands, dim: scene.dim });
    this.commanded = scene.controls.map(({ neutral }) => neutral); // manual controls, shown until the robot confirms them
    this.until = 0; // [ms] or until this time
    byId("name").textContent = scene.name.replaceAll("_", " ");
    document.title = `${scene.name}: drive`;
    this.targets = Object.fromEntries(scene.effectors.map((name) => [name, this.target(name)]));
    byId("targets").replaceChildren(...Object.values(this.targets).map(({ box }) => box));
    this.actuators = scene.controls.map((control, k) => this.actuator(control, k));
    byId("actuators").replaceChildren(...this.actuators.map(({ box }) => box));
    const units = new Set(scene.controls.map(({ unit }) => unit));
    this.commonUnit = units.size === 1 ? [...units][0] : null;
    const unit = this.commonUnit === null ? "% of the range" : shownUnit(this.commonUnit);
    byId("actuation-title").textContent = unit ? `Actuation [${unit}]` : "Actuation";
  }

  target(name) {
    const checkbox = element("input", { type: "checkbox", onchange: () => this.commands.active(this.checkedEffectors(name)) });
    const distance = element("span");
    const inputs = "xyz".slice(0, this.dim).split("").map((axis) => {
      const typed = ({ target: input }) => input.value !== "" && input.validity.valid && this.commands.axis(name, "xyz".indexOf(axis), input.value / 1e3);
      return element("input", { type: "number", step: "any", ariaLabel: `${name} ${axis} in millimetres`, onchange: typed });
    });
    const axes = inputs.map((input, k) => element("label", {}, element("b", { textContent: "xyz"[k] }), input));
    const head = element("header", {}, element("label", {}, checkbox, name), distance);
    const box = element("div", { className: "target" }, head, element("div", { className: `axes ${this.dim === 2 ? "two" : ""}` }, ...axes));
    return { box, checkbox, inputs, distance };
  }

  // The checked effectors. At least one stays checked.
  checkedEffectors(changed) {
    const names = Object.keys(this.targets).filter((name) => this.targets[name].checkbox.checked);
    if (!names.length) this.targets[changed].checkbox.checked = true;
    return names.length ? names : [changed];
  }

  actuator(control, k) {
    const [low, high] = ends(control);
    const slider = element("input", { type: "range", min: low, max: high, step: "any", ariaLabel: control.name, oninput: () => this.sliderMoved(k) });
    const value = element("b");
    const dot = element("i");
    dot.style.background = SERIES[k % SERIES.length];
    const box = element("div", { className: "actuator" }, element("span", { title: control.name }, dot, control.name), slider, value);
    return { box, slider, value, control };
  }

  // Update one manual control; the others keep their values.
  sliderMoved(k) {
    this.commanded = this.commanded.map((value, other) => (other === k ? this.actuators[k].slider.valueAsNumber : value));
    this.until = performance.now() + CONFIRM_TIMEOUT;
    this.commands.controls(this.commanded);
  }

  // Show a frame. targetOf(effector) is the target as the page knows it.
  show(frame, targetOf) {
    const follow = frame.mode === "follow";
    for (const [name, { checkbox, inputs, distance, box }] of Object.entries(this.targets)) {
      const active = frame.active.includes(name), position = frame.positions[name], target = targetOf(name);
      checkbox.checked = active;
      inputs.forEach((input, k) => {
        input.disabled = !active || !follow;
        if (document.activeElement !== input) input.value = fixed(1e3 * (active && follow ? target : position)[k], 2);
      });
      distance.textContent = active && follow ? `${number(1e3 * Math.hypot(...target.map((x, k) => x - position[k])))} mm off` : "";
      box.dataset.position = position.slice(0, this.dim).join(" ");
    }
    const confirmed = frame.mode !== "manual" || frame.commanded.every((x, k) => x === this.commanded[k]);
    if (confirmed || performance.now() > this.until) [this.commanded, this.until] = [frame.commanded, 0];
    this.actuators.forEach(({ slider, value, control }, k) => {
      const u = frame.u[k], [low, high] = ends(control);
      slider.disabled = frame.mode !== "manual";
      if (!slider.matches(":active")) slider.value = frame.mode === "manual" ? this.commanded[k] : u;
      const [from, to] = [control.neutral, u].map((x) => Math.min(Math.max((100 * (x - low)) / (high - low), 0), 100)).sort((a, b) => a - b);
      slider.style.setProperty("--from", `${from}%`);
      slider.style.setProperty("--to", `${to}%`);
      value.textContent = shown(u, control.unit);
      value.classList.toggle("at-limit", [control.lower, control.upper].some((end) => end !== null && end !== control.neutral && Math.abs(u - end) < 1e-3 * (high - low)));
    });
    for (const button of byId("mode").children) button.classList.toggle("on", button.dataset.mode === frame.mode);
    for (const button of byId("colour").children) button.classList.toggle("on", button.dataset.by === frame.colour);
    this.showState(frame);
  }

  showState(frame) {
    const [kind, text] = stateOf(frame);
    byId("status").className = kind;
    byId("status").lastElementChild.textContent = text;
    byId("rate").textContent = `${number(frame.rate, 1)} Hz`;
    byId("solve").textContent = `${number(frame.solve, 1)} ms`;
    byId("error").textContent = frame.mode !== "manual" && frame.error !== null ? `${number(1e3 * frame.error)} mm` : "–";
    byId("time").textContent = this.scene.dt && frame.rate ? `${number(frame.time, 1)} s · ${number(Math.min(1, this.scene.dt * frame.rate), 2)}×` : `${number(frame.time, 1)} s`;
    byId("pause").classList.toggle("on", frame.paused);
    byId("record").classList.toggle("on", frame.recording !== null);
    byId("replay").disabled = !frame.recorded || frame.recording !== null;
    for (const id of ["csv", "plan"]) byId(id).setAttribute("aria-disabled", String(!frame.recorded || frame.recording !== null));
    if (frame.recording !== null) byId("recorded").textContent = `Recording: ${steps(frame.recording)}`;
    else if (frame.recorded) byId("recorded").textContent = `${steps(frame.recorded.steps)} over ${number(frame.recorded.seconds)} s`;
  }

  plots(rows) {
    plot(byId("error-plot"), rows, [{ colour: "#00946c", at: (row) => row.error }], { least: 0.2 * this.scene.size });
    const series = this.actuators.map(({ control }, k) => ({ colour: SERIES[k % SERIES.length], at: (row) => this.commonUnit === null ? share(control, row.u[k]) : row.u[k] * factor(control.unit) }));
    plot(byId("actuation-plot"), rows, series, { least: this.commonUnit === null ? 10 : 0.05 * factor(this.commonUnit) * Math.max(...this.scene.controls.map((c) => ends(c)[1] - ends(c)[0])) });
  }
}

function stateOf(frame) {
  if (frame.warning) return ["bad", frame.warning];
  if (frame.paused) return ["", "paused"];
  if (frame.mode === "replay") return ["busy", "replaying"];
  if (!frame.ok) return ["warm", frame.text];
  return [frame.state === "moving" ? "busy" : "good", frame.text];
}

const steps = (count) => `${count} step${count === 1 ? "" : "s"}`;
const factor = (unit) => SHOWN[unit]?.[0] ?? 1;
const shownUnit = (unit) => SHOWN[unit]?.[1] ?? "";

export function shown(value, unit) {
  const text = number(value * factor(unit));
  return unit === "rad" ? `${text}°` : `${text} ${shownUnit(unit)}`.trim();
}

// The ends of a slider; a control without a limit uses its span.
function ends({ lower, upper, span, neutral }) {
  return [lower ?? Math.min(neutral, (upper ?? neutral) - span), upper ?? Math.max(neutral, (lower ?? neutral) + span)];
}

function share(control, value) {
  const [low, high] = ends(control);
  return (100 * (value - low)) / (high - low || 1);
}
