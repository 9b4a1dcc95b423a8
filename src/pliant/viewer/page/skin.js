// A smooth skin of triangles: vertices are split at creases, and the normals are updated with every frame.

const CREASE = Math.cos((35 * Math.PI) / 180); // facets that meet at a larger angle keep a sharp edge

export class Skin {
  // triangles (3 m) of point indices; rest (3 n) are the points that determine the creases
  constructor(triangles, rest) {
    this.count = triangles.length;
    this.corners = new Uint32Array(this.count); // the split vertex of each corner
    const owner = []; // the point of each split vertex
    const facing = facetNormals(triangles, rest);
    for (const group of groupsAround(triangles, facing)) {
      for (const corner of group.corners) this.corners[corner] = owner.length;
      owner.push(group.point);
    }
    this.owner = Uint32Array.from(owner);
    this.places = new Float32Array(3 * owner.length);
    this.normals = new Float32Array(3 * owner.length);
    this.values = new Float32Array(owner.length);
  }

  // Update the points (3 n) and their values (n) or null.
  move(points, values) {
    const { owner, places, normals, corners } = this;
    for (let v = 0; v < owner.length; v++) {
      const p = 3 * owner[v];
      places[3 * v] = points[p];
      places[3 * v + 1] = points[p + 1];
      places[3 * v + 2] = points[p + 2];
      if (values) this.values[v] = values[owner[v]];
    }
    normals.fill(0);
    for (let c = 0; c < corners.length; c += 3) addNormal(places, normals, 3 * corners[c], 3 * corners[c + 1], 3 * corners[c + 2]);
  }
}

// Add the normal of a triangle, scaled by twice its area, to its three corners; the shader normalises them.
function addNormal(p, n, a, b, c) {
  const ux = p[b] - p[a], uy = p[b + 1] - p[a + 1], uz = p[b + 2] - p[a + 2];
  const vx = p[c] - p[a], vy = p[c + 1] - p[a + 1], vz = p[c + 2] - p[a + 2];
  const x = uy * vz - uz * vy, y = uz * vx - ux * vz, z = ux * vy - uy * vx;
  for (const k of [a, b, c]) {
    n[k] += x;
    n[k + 1] += y;
    n[k + 2] += z;
  }
}

function facetNormals(triangles, rest) {
  const out = new Float64Array(triangles.length);
  for (let c = 0; c < triangles.length; c += 3) {
    const places = new Float64Array(9), normal = new Float64Array(9);
    for (let k = 0; k < 3; k++) for (let i = 0; i < 3; i++) places[3 * k + i] = rest[3 * triangles[c + k] + i];
    addNormal(places, normal, 0, 3, 6);
    const length = Math.hypot(normal[0], normal[1], normal[2]) || 1;
    for (let i = 0; i < 3; i++) out[c + i] = normal[i] / length;
  }
  return out;
}

// The corners around every point, in groups whose facets are connected across edges without a crease.
function* groupsAround(triangles, facing) {
  const about = new Map();
  triangles.forEach((point, corner) => (about.get(point) ?? about.set(point, []).get(point)).push(corner));
  for (const [point, corners] of about) {
    const left = new Set(corners);
    while (left.size) {
      const group = [left.values().next().value];
      left.delete(group[0]);
      for (const corner of group) {
        for (const other of left) {
          if (smooth(triangles, facing, corner, other, point)) {
            group.push(other);
            left.delete(other);
          }
        }
      }
      yield { point, corners: group };
    }
  }
}

// Whether the facets of two corners at a point share an edge that is not a crease.
function smooth(triangles, facing, one, two, point) {
  const a = one - (one % 3), b = two - (two % 3);
  const shared = [0, 1, 2].some((i) => triangles[a + i] !== point && [0, 1, 2].some((j) => triangles[b + j] === triangles[a + i]));
  return shared && facing[a] * facing[b] + facing[a + 1] * facing[b + 1] + facing[a + 2] * facing[b + 2] > CREASE;
}
