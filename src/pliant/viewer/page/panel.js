// The panel: targets to type, actuators to set, plots, and what is told of the robot.

import { fixed, number, plot } from "./plots.js";

export const SERIES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6a3d9a", "#4d4d4d"];
const SHOWN = { N: [1, "N"], Pa: [1e-3, "kPa"], share: [100, "%"], rad: [180 / Math.PI, "°"], m: [1e3, "mm"] }; // of SI, as people read it

export const PATIENCE = 2000; // [ms] that a wish is shown before the robot has heard of it

export const byId = (id) => document.getElementById(id);

function element(tag, more = {}, ...children) {
  const made = Object.assign(document.createElement(tag), more);
  made.append(...children);
  return made;
}

export class Panel {
  // wants: what the page asks of the robot { axis(effector, axis, value), active(effectors), controls(values) }
  constructor(scene, wants) {
    Object.assign(this, { scene, wants, dim: scene.dim });
    this.wished = scene.controls.map(({ neutral }) => neutral); // by hand: shown at once, and until the robot knows of it
    this.until = 0; // [ms] or this time
    byId("name").textContent = scene.name.replaceAll("_", " ");
    document.title = `${scene.name}: drive`;
    this.targets = Object.fromEntries(scene.effectors.map((name) => [name, this.target(name)]));
    byId("targets").replaceChildren(...Object.values(this.targets).map(({ box }) => box));
    this.actuators = scene.controls.map((control, k) => this.actuator(control, k));
    byId("actuators").replaceChildren(...this.actuators.map(({ box }) => box));
    const units = new Set(scene.controls.map(({ unit }) => unit));
    this.alike = units.size === 1 ? [...units][0] : null;
    const unit = this.alike === null ? "% of the range" : shownUnit(this.alike);
    byId("actuation-title").textContent = unit ? `Actuation [${unit}]` : "Actuation";
  }

  target(name) {
    const tick = element("input", { type: "checkbox", onchange: () => this.wants.active(this.ticked(name)) });
    const away = element("span");
    const inputs = "xyz".slice(0, this.dim).split("").map((axis) => {
      const typed = ({ target: input }) => input.value !== "" && input.validity.valid && this.wants.axis(name, "xyz".indexOf(axis), input.value / 1e3);
      return element("input", { type: "number", step: "any", ariaLabel: `${name} ${axis} in millimetres`, onchange: typed });
    });
    const axes = inputs.map((input, k) => element("label", {}, element("b", { textContent: "xyz"[k] }), input));
    const head = element("header", {}, element("label", {}, tick, name), away);
    const box = element("div", { className: "target" }, head, element("div", { className: `axes ${this.dim === 2 ? "two" : ""}` }, ...axes));
    return { box, tick, inputs, away };
  }

  // The effectors that follow after a tick was set; one always does.
  ticked(changed) {
    const names = Object.keys(this.targets).filter((name) => this.targets[name].tick.checked);
    if (!names.length) this.targets[changed].tick.checked = true;
    return names.length ? names : [changed];
  }

  actuator(control, k) {
    const [low, high] = ends(control);
    const slider = element("input", { type: "range", min: low, max: high, step: "any", ariaLabel: control.name, oninput: () => this.moved(k) });
    const value = element("b");
    const dot = element("i");
    dot.style.background = SERIES[k % SERIES.length];
    const box = element("div", { className: "actuator" }, element("span", { title: control.name }, dot, control.name), slider, value);
    return { box, slider, value, control };
  }

  // What is wished of the other controls stays.
  moved(k) {
    this.wished = this.wished.map((value, other) => (other === k ? this.actuators[k].slider.valueAsNumber : value));
    this.until = performance.now() + PATIENCE;
    this.wants.controls(this.wished);
  }

  // What a frame tells; aimed(effector) is its target as the page knows it.
  tell(frame, aimed) {
    const follow = frame.mode === "follow";
    for (const [name, { tick, inputs, away, box }] of Object.entries(this.targets)) {
      const active = frame.active.includes(name), place = frame.places[name], at = aimed(name);
      tick.checked = active;
      inputs.forEach((input, k) => {
        input.disabled = !active || !follow;
        if (document.activeElement !== input) input.value = fixed(1e3 * (active && follow ? at : place)[k], 2);
      });
      away.textContent = active && follow ? `${number(1e3 * Math.hypot(...at.map((x, k) => x - place[k])))} mm off` : "";
      box.dataset.place = place.slice(0, this.dim).join(" ");
    }
    const heard = frame.mode !== "manual" || frame.wanted.every((x, k) => x === this.wished[k]);
    if (heard || performance.now() > this.until) [this.wished, this.until] = [frame.wanted, 0];
    this.actuators.forEach(({ slider, value, control }, k) => {
      const u = frame.u[k], [low, high] = ends(control);
      slider.disabled = frame.mode !== "manual";
      if (!slider.matches(":active")) slider.value = frame.mode === "manual" ? this.wished[k] : u;
      const [from, to] = [control.neutral, u].map((x) => Math.min(Math.max((100 * (x - low)) / (high - low), 0), 100)).sort((a, b) => a - b);
      slider.style.setProperty("--from", `${from}%`);
      slider.style.setProperty("--to", `${to}%`);
      value.textContent = shown(u, control.unit);
      value.classList.toggle("at-limit", [control.lower, control.upper].some((end) => end !== null && end !== control.neutral && Math.abs(u - end) < 1e-3 * (high - low)));
    });
    for (const button of byId("mode").children) button.classList.toggle("on", button.dataset.mode === frame.mode);
    for (const button of byId("colour").children) button.classList.toggle("on", button.dataset.by === frame.colour);
    this.tellState(frame);
  }

  tellState(frame) {
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
    if (frame.recording !== null) byId("recorded").textContent = `Recording: ${frame.recording} ticks`;
    else if (frame.recorded) byId("recorded").textContent = `${frame.recorded.ticks} ticks over ${number(frame.recorded.seconds)} s`;
  }

  plots(rows) {
    plot(byId("error-plot"), rows, [{ colour: "#00946c", at: (row) => row.error }], { least: 0.2 * this.scene.size });
    const series = this.actuators.map(({ control }, k) => ({ colour: SERIES[k % SERIES.length], at: (row) => this.alike === null ? share(control, row.u[k]) : row.u[k] * factor(control.unit) }));
    plot(byId("actuation-plot"), rows, series, { least: this.alike === null ? 10 : 0.05 * factor(this.alike) * Math.max(...this.scene.controls.map((c) => ends(c)[1] - ends(c)[0])) });
  }
}

function stateOf(frame) {
  if (frame.said) return ["bad", frame.said];
  if (frame.paused) return ["", "paused"];
  if (frame.mode === "replay") return ["busy", "replaying"];
  if (!frame.ok) return ["warm", frame.text];
  return [frame.state === "moving" ? "busy" : "good", frame.text];
}

const factor = (unit) => SHOWN[unit]?.[0] ?? 1;
const shownUnit = (unit) => SHOWN[unit]?.[1] ?? "";

export function shown(value, unit) {
  const text = number(value * factor(unit));
  return unit === "rad" ? `${text}°` : `${text} ${shownUnit(unit)}`.trim();
}

// Of a slider; a control without a limit reaches its span.
function ends({ lower, upper, span, neutral }) {
  return [lower ?? Math.min(neutral, (upper ?? neutral) - span), upper ?? Math.max(neutral, (lower ?? neutral) + span)];
}

function share(control, value) {
  const [low, high] = ends(control);
  return (100 * (value - low)) / (high - low || 1);
}
