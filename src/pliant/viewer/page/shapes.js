// Shapes as buffers on the graphics card: moving surfaces, and instanced capsules.

const SIDES = 14, RINGS = 4; // of a capsule

export class Surface {
  constructor(gl, skin) {
    this.skin = skin;
    this.gl = gl;
    this.array = gl.createVertexArray();
    gl.bindVertexArray(this.array);
    this.buffers = [[skin.places, 3], [skin.normals, 3], [skin.values, 1]].map(([data, width], place) => {
      const buffer = gl.createBuffer();
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.bufferData(gl.ARRAY_BUFFER, data.byteLength, gl.DYNAMIC_DRAW);
      gl.enableVertexAttribArray(place);
      gl.vertexAttribPointer(place, width, gl.FLOAT, false, 0, 0);
      return [buffer, data];
    });
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, skin.corners, gl.STATIC_DRAW);
  }

  move(points, values) {
    this.skin.move(points, values);
    for (const [buffer, data] of this.buffers) {
      this.gl.bindBuffer(this.gl.ARRAY_BUFFER, buffer);
      this.gl.bufferSubData(this.gl.ARRAY_BUFFER, 0, data);
    }
  }

  draw() {
    this.gl.bindVertexArray(this.array);
    this.gl.drawElements(this.gl.TRIANGLES, this.skin.count, this.gl.UNSIGNED_INT, 0);
  }
}

// Capsules between two points each: [from (3), to (3), radius, colour (4)] for each.
export class Capsules {
  constructor(gl) {
    this.gl = gl;
    this.count = 0;
    this.array = gl.createVertexArray();
    gl.bindVertexArray(this.array);
    const { directions, ends, corners } = template();
    this.corners = corners.length;
    attribute(gl, 0, new Float32Array(directions), 3);
    attribute(gl, 1, new Float32Array(ends), 1);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, new Uint16Array(corners), gl.STATIC_DRAW);
    this.pieces = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, this.pieces);
    let offset = 0;
    for (const [place, width] of [[2, 3], [3, 3], [4, 1], [5, 4]]) {
      gl.enableVertexAttribArray(place);
      gl.vertexAttribPointer(place, width, gl.FLOAT, false, 44, offset);
      gl.vertexAttribDivisor(place, 1);
      offset += 4 * width;
    }
  }

  set(pieces) {
    this.count = pieces.length / 11;
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.pieces);
    this.gl.bufferData(this.gl.ARRAY_BUFFER, new Float32Array(pieces), this.gl.STREAM_DRAW);
  }

  draw() {
    if (!this.count) return;
    this.gl.bindVertexArray(this.array);
    this.gl.drawElementsInstanced(this.gl.TRIANGLES, this.corners, this.gl.UNSIGNED_SHORT, 0, this.count);
  }
}

export function plate(gl) {
  const array = gl.createVertexArray();
  gl.bindVertexArray(array);
  attribute(gl, 0, new Float32Array([-1, -1, 1, -1, -1, 1, 1, 1]), 2);
  return array;
}

function attribute(gl, place, data, width) {
  gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
  gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW);
  gl.enableVertexAttribArray(place);
  gl.vertexAttribPointer(place, width, gl.FLOAT, false, 0, 0);
}

// Two hemispheres, one for each end of a capsule.
function template() {
  const directions = [], ends = [], corners = [];
  for (let ring = 0; ring <= 2 * RINGS + 1; ring++) {
    const end = ring > RINGS ? 1 : 0;
    const lift = (Math.PI / 2) * ((ring - end) / RINGS - 1);
    for (let side = 0; side <= SIDES; side++) {
      const angle = (2 * Math.PI * side) / SIDES;
      directions.push(Math.cos(lift) * Math.cos(angle), Math.cos(lift) * Math.sin(angle), Math.sin(lift));
      ends.push(end);
      const k = ring * (SIDES + 1) + side;
      if (ring && side) corners.push(k - SIDES - 2, k - SIDES - 1, k, k - SIDES - 2, k, k - 1);
    }
  }
  return { directions, ends, corners };
}
