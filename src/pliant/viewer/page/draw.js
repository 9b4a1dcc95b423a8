// The picture: the robot, its cables, targets and obstacles.

import { Skin } from "./skin.js";
import { CAPSULE, GROUND, SURFACE, program } from "./shaders.js";
import { Capsules, Surface, plate } from "./shapes.js";
import { add, mix, rgb, scale } from "./vectors.js";

const BODY = rgb("#8db8da"), CABLE = rgb("#14306b"), SLACK = rgb("#7f95bd"), FRAME = rgb("#9aa3ad"), STONE = rgb("#b9c0c8");
const MARKER = rgb("#d55e00"), TARGET = rgb("#00946c"), FLUID = rgb("#5aa9d6"), GRID = rgb("#8b97a5"), SHADOW = rgb("#39424e");
const STOPS = ["#dce6ec", "#f6d9a2", "#f0985c", "#c63f4c", "#6d1a55"].map(rgb);
const SOFTWARE_RENDERERS = /swiftshader|llvmpipe|softpipe|software|basic render/i; // names of renderers without a graphics card

export class Drawing {
  constructor(canvas) {
    this.canvas = canvas;
    this.hasCard = hasGraphicsCard();
    this.gl = canvas.getContext("webgl2", { antialias: this.hasCard, alpha: true, stencil: true, premultipliedAlpha: true });
    if (!this.gl) throw new Error("This browser has no WebGL2, which the picture needs.");
  }

  // Create everything that does not move, from the first message.
  begin(scene) {
    const { gl } = this, { arrays } = scene;
    this.scene = scene;
    this.programs = { surface: program(gl, SURFACE), capsule: program(gl, CAPSULE), ground: program(gl, GROUND) };
    this.plate = plate(gl);
    const skinned = (name) => new Surface(gl, new Skin(arrays[name], arrays.rest));
    this.skin = arrays.skin ? skinned("skin") : null;
    this.cavities = Object.keys(arrays).filter((name) => name.startsWith("cavity ")).map(skinned);
    this.obstacles = Object.keys(arrays).filter((name) => /^obstacle .* triangles$/.test(name)).map((name) => {
      const points = arrays[name.replace("triangles", "points")];
      const made = new Surface(gl, new Skin(arrays[name], points));
      made.move(points, null);
      return made;
    });
    this.pieces = Object.fromEntries(["body", "lines", "marks", "haze", "curves"].map((name) => [name, new Capsules(gl)]));
    const thin = 0.003 * scene.size;
    this.pieces.curves.set(Object.keys(arrays).filter((name) => name.startsWith("curve ")).flatMap((name) => polyline(arrays[name], thin, FRAME)));
  }

  // Update the positions: points, values and lines of a frame, and the marks of the page.
  move(frame, most, marks, pixel) { // marks: [{ place, target, active, trail }]
    const { points, values, lines } = frame.arrays, { scene } = this;
    for (const surface of [this.skin, ...this.cavities]) surface?.move(points, values ?? null);
    const coloured = (node) => (values && most > 0 ? shade(values[node] / most) : BODY);
    const at = (node) => [points[3 * node], points[3 * node + 1], points[3 * node + 2]];
    const { rods, dots } = scene.arrays;
    const body = [];
    for (let k = 0; rods && k < rods.length; k += 2) {
      const [a, b] = [rods[k], rods[k + 1]];
      body.push(...at(a), ...at(b), scene.radius[k / 2], ...mix(coloured(a), coloured(b), 0.5), 1);
    }
    if (dots) for (const node of dots) body.push(...at(node), ...at(node), scene.radius[0], ...coloured(node), 1);
    this.pieces.body.set(body);
    this.pieces.lines.set(this.linePieces(lines, frame.u, pixel));
    this.pieces.marks.set(marks.flatMap(({ place, target, active }) => markPieces(place, target, active, pixel)));
    this.pieces.haze.set(marks.flatMap(({ target, active, trail }) => hazePieces(target, active, trail, pixel)));
  }

  linePieces(lines, u, pixel) {
    const out = [];
    let first = 0;
    for (const { kind, control, count } of this.scene.lines) {
      const points = lines.subarray(3 * first, 3 * (first + count));
      const tension = kind === "cable" ? this.share(control, u[control]) : 0;
      const colour = kind === "cable" ? mix(SLACK, CABLE, Math.sqrt(tension)) : FRAME;
      out.push(...polyline(points, pixel(this.scene.middle) * (kind === "cable" ? 1.3 + 1.4 * tension : 2.2), colour));
      first += count;
    }
    return out;
  }

  // The used fraction of the range of a control, from 0 to 1.
  share(control, value) {
    const { lower, upper, span, neutral } = this.scene.controls[control];
    const reach = Math.max((upper ?? neutral + span) - neutral, neutral - (lower ?? neutral - span), 1e-12);
    return Math.min(1, Math.abs(value - neutral) / reach);
  }

  draw(camera, most, { through, showLines, showGround }) {
    const { gl, canvas } = this;
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT | gl.STENCIL_BUFFER_BIT);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    this.setCamera(camera);
    if (showGround && !camera.flat) this.drawGround();
    gl.enable(gl.DEPTH_TEST);
    gl.depthFunc(gl.LEQUAL);
    for (const obstacle of this.obstacles) this.surface(obstacle, [...STONE, 1], 0);
    this.capsules("curves", 1);
    if (!through) this.drawBody(most, 1);
    for (const cavity of this.cavities) this.surface(cavity, [...FLUID, 1], this.colourByWeight ? most : 0);
    if (showLines) this.capsules("lines", 1);
    this.capsules("marks", 1);
    this.withoutDepthWrites(() => this.capsules("haze", 1));
    if (through) this.drawBody(most, 1 - through);
    this.drawHidden(showLines);
  }

  setCamera(camera) {
    const { gl, canvas } = this, { right, up, toward } = camera.basis;
    const view = camera.matrix(canvas.width / canvas.height);
    for (const { made, places } of Object.values(this.programs)) {
      gl.useProgram(made);
      gl.uniformMatrix4fv(places.view, false, view);
      if (places.eyes) gl.uniformMatrix3fv(places.eyes, false, new Float32Array([...right, ...up, ...toward]));
      if (places.ground) gl.uniform1f(places.ground, this.scene.ground.height);
      if (places.upright) gl.uniform1i(places.upright, camera.flat ? 1 : 2);
    }
  }

  drawGround() {
    const { gl, scene } = this, { made, places } = this.programs.ground;
    const cell = 10 ** Math.floor(Math.log10(scene.size / 4));
    gl.disable(gl.DEPTH_TEST);
    gl.useProgram(made);
    gl.uniform1f(places.cell, scene.size / cell > 12 ? 2 * cell : cell);
    gl.uniform1f(places.reach, 2.2 * scene.size);
    gl.uniform2f(places.middle, scene.middle[0], scene.middle[1]);
    gl.uniform4f(places.colour, ...GRID, 0.38);
    gl.bindVertexArray(this.plate);
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    this.drawShadow();
  }

  // The shadow, straight below the body; each pixel is drawn once.
  drawShadow() {
    const { gl } = this;
    gl.enable(gl.STENCIL_TEST);
    gl.stencilFunc(gl.EQUAL, 0, 255);
    gl.stencilOp(gl.KEEP, gl.KEEP, gl.INCR);
    if (this.skin) this.surface(this.skin, [...SHADOW, 0.11], 0, true);
    this.capsules("body", 0.11, true);
    gl.disable(gl.STENCIL_TEST);
  }

  // A transparent body shows only its nearest layer, so the depth is drawn first.
  drawBody(most, opacity) {
    const { gl } = this;
    const all = () => {
      if (this.skin) this.surface(this.skin, [...BODY, opacity], most);
      this.capsules("body", opacity);
    };
    if (opacity < 1) {
      gl.colorMask(false, false, false, false);
      all();
      gl.colorMask(true, true, true, true);
    }
    all();
  }

  // Draw hidden lines, marks and trails faintly.
  drawHidden(showLines) {
    const { gl } = this;
    gl.depthFunc(gl.GREATER);
    this.withoutDepthWrites(() => {
      if (showLines) this.capsules("lines", 0.28);
      this.capsules("haze", 0.45);
      this.capsules("marks", 0.4);
    });
    gl.depthFunc(gl.LEQUAL);
  }

  withoutDepthWrites(work) {
    this.gl.depthMask(false);
    work();
    this.gl.depthMask(true);
  }

  surface(surface, colour, most, shadow = false) {
    const { gl } = this, { made, places } = this.programs.surface;
    gl.useProgram(made);
    gl.uniform4f(places.colour, ...colour);
    gl.uniform1f(places.most, most);
    gl.uniform1i(places.shadow, shadow ? 1 : 0);
    surface.draw();
  }

  capsules(name, opacity, shadow = false) {
    const { gl } = this, { made, places } = this.programs.capsule;
    gl.useProgram(made);
    gl.uniform4f(places.colour, ...(shadow ? SHADOW : [1, 1, 1]), opacity);
    gl.uniform1i(places.shadow, shadow ? 1 : 0);
    this.pieces[name].draw();
  }
}

// Whether there is a graphics card. Without one, antialiasing takes longer than the simulation and slows it down.
// Not every browser reports a software renderer, but its name shows it.
function hasGraphicsCard() {
  const probe = document.createElement("canvas").getContext("webgl2", { failIfMajorPerformanceCaveat: true });
  const named = probe?.getExtension("WEBGL_debug_renderer_info");
  const name = probe?.getParameter(named ? named.UNMASKED_RENDERER_WEBGL : probe.RENDERER);
  probe?.getExtension("WEBGL_lose_context")?.loseContext();
  return probe !== null && !SOFTWARE_RENDERERS.test(name);
}

export function shade(share) {
  const t = 4 * Math.min(Math.max(share, 0), 1), k = Math.min(Math.floor(t), 3);
  return mix(STOPS[k], STOPS[k + 1], t - k);
}

function polyline(points, radius, colour) {
  const out = [];
  for (let k = 3; k < points.length; k += 3) out.push(...points.subarray(k - 3, k + 3), radius, ...colour, 1);
  return out;
}

// The effector as a ball, its target as a cross of three axes, and a line between them.
function markPieces(place, target, active, pixel) {
  const r = pixel(place);
  const ball = [...place, ...place, (active ? 5.5 : 3.5) * r, ...(active ? MARKER : FRAME), 1];
  if (!active) return ball;
  const s = pixel(target), arms = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
  const jack = arms.flatMap((arm) => [...add(target, scale(arm, -15 * s)), ...add(target, scale(arm, 15 * s)), 1.7 * s, ...TARGET, 1]);
  return [...ball, ...place, ...target, 0.8 * r, ...TARGET, 0.7, ...jack, ...target, ...target, 5 * s, ...TARGET, 1];
}

// The fading trail of an effector, and a glow around the target.
function hazePieces(target, active, trail, pixel) {
  const out = active ? [...target, ...target, 14 * pixel(target), ...TARGET, 0.2] : [];
  for (let k = 1; k < trail.length; k++) out.push(...trail[k - 1], ...trail[k], 1.1 * pixel(trail[k]), ...MARKER, 0.75 * (k / trail.length) ** 1.5);
  return out;
}
