// The camera: rotates about a focus, moves and zooms. A plane robot is seen along the normal of its plane.

import { add, clamp, cross, dot, scale, sub } from "./vectors.js";

const VIEW = 0.5; // [rad] vertical field of view
const NEAREST = 0.02, FURTHEST = 40; // limits of the distance, in robot sizes

export class Camera {
  constructor(low, high, flat) {
    Object.assign(this, { low, high, flat, azimuth: -1.05, elevation: 0.3 });
    this.size = Math.hypot(...sub(high, low)) || 1;
    this.fit(1.5);
  }

  // Show the whole robot at rest in a picture of this aspect ratio, with margins for the controls in the corners.
  fit(aspect) {
    const { right, up, toward } = this.basis, half = scale(sub(this.high, this.low), 0.5);
    const reach = (axis) => half[0] * Math.abs(axis[0]) + half[1] * Math.abs(axis[1]) + half[2] * Math.abs(axis[2]);
    this.focus = scale(add(this.low, this.high), 0.5);
    this.distance = reach(toward) + Math.max(reach(up) / 0.68, reach(right) / 0.78 / aspect, 0.1 * this.size) / Math.tan(VIEW / 2);
  }

  // Unit vectors to the right, up and towards the camera.
  get basis() {
    if (this.flat) return { right: [1, 0, 0], up: [0, 1, 0], toward: [0, 0, 1] };
    const [ca, sa, ce, se] = [Math.cos(this.azimuth), Math.sin(this.azimuth), Math.cos(this.elevation), Math.sin(this.elevation)];
    const toward = [ce * ca, ce * sa, se], right = [-sa, ca, 0];
    return { right, up: cross(toward, right), toward };
  }

  get eye() {
    return add(this.focus, scale(this.basis.toward, this.distance));
  }

  // Size [m] of a pixel at a point, in a picture of this height.
  pixel(place, height) {
    return (2 * Math.tan(VIEW / 2) * Math.max(dot(sub(this.eye, place), this.basis.toward), 1e-6)) / height;
  }

  // The projection matrix, column by column.
  matrix(aspect) {
    const { right, up, toward } = this.basis, eye = this.eye;
    const f = 1 / Math.tan(VIEW / 2), near = 0.02 * this.distance, far = this.distance + 60 * this.size;
    const x = [...scale(right, f / aspect), (-f / aspect) * dot(right, eye)], y = [...scale(up, f), -f * dot(up, eye)];
    const deep = [...scale(toward, -1), dot(toward, eye)]; // distance in front of the camera
    const a = (far + near) / (far - near), b = (-2 * far * near) / (far - near);
    const z = [a * deep[0], a * deep[1], a * deep[2], a * deep[3] + b];
    return new Float32Array([0, 1, 2, 3].flatMap((k) => [x[k], y[k], z[k], deep[k]]));
  }

  // The position of a point in the picture [pixels from the upper left].
  project(place, width, height) {
    const { right, up, toward } = this.basis, from = sub(place, this.eye);
    const scaled = height / (2 * Math.tan(VIEW / 2)) / Math.max(-dot(from, toward), 1e-9);
    return [width / 2 + scaled * dot(from, right), height / 2 - scaled * dot(from, up)];
  }

  // The direction of the ray through a pixel.
  ray(x, y, width, height) {
    const { right, up, toward } = this.basis, per = (2 * Math.tan(VIEW / 2)) / height;
    return sub(add(scale(right, per * (x - width / 2)), scale(up, per * (height / 2 - y))), toward);
  }

  rotate(dx, dy) {
    if (this.flat) return this.move(dx, dy, 700);
    this.azimuth -= 0.007 * dx;
    this.elevation = clamp(this.elevation + 0.007 * dy, -1.5, 1.5);
  }

  move(dx, dy, height) {
    const { right, up } = this.basis, per = this.pixel(this.focus, height);
    this.focus = add(this.focus, add(scale(right, -per * dx), scale(up, per * dy)));
  }

  zoom(factor) {
    this.distance = clamp(this.distance * factor, NEAREST * this.size, FURTHEST * this.size);
  }
}

// The intersection of a pixel ray with the plane through a point; null if they are parallel.
export function onPlane(camera, ray, place, normal) {
  const along = dot(ray, normal);
  if (Math.abs(along) < 1e-6) return null;
  const s = dot(sub(place, camera.eye), normal) / along;
  return s > 0 ? add(camera.eye, scale(ray, s)) : null;
}
