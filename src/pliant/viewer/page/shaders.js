// The three programs: surfaces, capsules (rods, cables, balls) and the ground. All return premultiplied colours.

const LIGHT = `
uniform mat3 eyes; // rows: right, up and towards the camera
vec3 lit(vec3 colour, vec3 normal) {
  vec3 facing = normalize(normal) * eyes;
  if (facing.z < 0.0) facing = -facing; // both sides of a sheet
  vec3 key = normalize(vec3(-0.45, 0.68, 0.58));
  float lambert = max(dot(facing, key), 0.0), gloss = pow(max(dot(facing, normalize(key + vec3(0, 0, 1))), 0.0), 24.0);
  float bright = 0.42 + 0.12 * (0.5 + 0.5 * facing.y) + 0.22 * max(facing.z, 0.0) + 0.36 * lambert;
  return clamp(colour * bright + 0.08 * gloss, 0.0, 1.0);
}`;

// From pale silicone to deep red, with decreasing lightness, so that it also reads in greyscale.
const SHADES = `
vec3 shade(float s) {
  vec3 c[5] = vec3[5](vec3(0.863, 0.902, 0.925), vec3(0.965, 0.851, 0.635), vec3(0.941, 0.596, 0.361), vec3(0.776, 0.247, 0.298), vec3(0.427, 0.102, 0.333));
  float t = clamp(s, 0.0, 1.0) * 4.0;
  int k = min(int(t), 3);
  return mix(c[k], c[k + 1], t - float(k));
}`;

const DROP = `
uniform float ground; // the height of the shadow
uniform int shadow, upright; // whether it is a shadow, and the vertical axis
vec3 dropped(vec3 place) {
  if (shadow == 0) return place;
  if (upright == 2) return vec3(place.xy, ground);
  return vec3(place.x, ground, place.z);
}`;

const HEAD = `#version 300 es
precision highp float;
precision highp int;
`;

export const SURFACE = [
  `${HEAD}${DROP}
uniform mat4 view;
layout(location = 0) in vec3 place;
layout(location = 1) in vec3 normal;
layout(location = 2) in float value;
out vec3 n;
out float v;
void main() {
  n = normal;
  v = value;
  gl_Position = view * vec4(dropped(place), 1.0);
}`,
  `${HEAD}${LIGHT}${SHADES}
uniform vec4 colour;
uniform float most; // upper end of the colour range; 0: a single colour
uniform int shadow;
in vec3 n;
in float v;
out vec4 result;
void main() {
  vec3 base = most > 0.0 ? shade(v / most) : colour.rgb;
  vec3 c = shadow == 1 ? colour.rgb : lit(base, n);
  result = vec4(c * colour.a, colour.a);
}`,
];

export const CAPSULE = [
  `${HEAD}${DROP}
uniform mat4 view;
layout(location = 0) in vec3 direction; // of the surface normal; z is the axis
layout(location = 1) in float end;
layout(location = 2) in vec3 from;
layout(location = 3) in vec3 to;
layout(location = 4) in float radius;
layout(location = 5) in vec4 tint;
out vec3 n;
out vec4 c;
void main() {
  vec3 way = to - from;
  float far = length(way);
  vec3 z = far > 1e-9 ? way / far : vec3(0, 0, 1);
  vec3 x = normalize(abs(z.z) < 0.9 ? cross(z, vec3(0, 0, 1)) : cross(z, vec3(1, 0, 0)));
  n = x * direction.x + cross(z, x) * direction.y + z * direction.z;
  c = tint;
  gl_Position = view * vec4(dropped(mix(from, to, end) + radius * n), 1.0);
}`,
  `${HEAD}${LIGHT}
uniform vec4 colour; // of a shadow; otherwise only its opacity is used
uniform int shadow;
in vec3 n;
in vec4 c;
out vec4 result;
void main() {
  vec4 tint = shadow == 1 ? colour : vec4(lit(c.rgb, n), c.a * colour.a);
  result = vec4(tint.rgb * tint.a, tint.a);
}`,
];

export const GROUND = [
  `${HEAD}
uniform mat4 view;
uniform float ground, reach;
uniform vec2 middle;
layout(location = 0) in vec2 corner;
out vec2 at;
void main() {
  at = middle + reach * corner;
  gl_Position = view * vec4(at, ground, 1.0);
}`,
  `${HEAD}
uniform float cell, reach;
uniform vec2 middle;
uniform vec4 colour;
in vec2 at;
out vec4 result;
float lines(float width) {
  vec2 g = abs(fract(at / width - 0.5) - 0.5) * width, d = fwidth(at);
  vec2 near = 1.0 - smoothstep(0.4 * d, 1.3 * d, g);
  return max(near.x, near.y);
}
void main() {
  float fade = pow(clamp(1.0 - length(at - middle) / reach, 0.0, 1.0), 1.6);
  float strength = max(0.5 * lines(cell), lines(5.0 * cell)) * fade;
  float a = colour.a * strength + 0.05 * fade;
  result = vec4(colour.rgb * a, a);
}`,
];

export function program(gl, [vertex, fragment]) {
  const made = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS) && !gl.isContextLost()) throw new Error(gl.getShaderInfoLog(shader));
    gl.attachShader(made, shader);
  }
  gl.linkProgram(made);
  if (!gl.getProgramParameter(made, gl.LINK_STATUS) && !gl.isContextLost()) throw new Error(gl.getProgramInfoLog(made));
  const places = {};
  for (let k = 0; k < gl.getProgramParameter(made, gl.ACTIVE_UNIFORMS); k++) {
    const { name } = gl.getActiveUniform(made, k);
    places[name] = gl.getUniformLocation(made, name);
  }
  return { made, places };
}
