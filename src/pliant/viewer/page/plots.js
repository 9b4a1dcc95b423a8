// Line plots of the last seconds, on a small canvas.

const SPAN = 10; // [s]

// series: [{ colour, at: (row) => number or null }]; rows: [{ time, ... }], the last one is current; `least` is the minimum range of the vertical axis
export function plot(canvas, rows, series, { least = 0 } = {}) {
  const { width, height, ink } = prepared(canvas);
  const end = rows.length ? rows[rows.length - 1].time : 0;
  const shown = rows.filter((row) => row.time >= end - SPAN);
  const [bottom, top] = range(shown, series, least);
  const digits = top - bottom >= 100 ? 0 : Math.max(1, 1 - Math.floor(Math.log10(top - bottom)));
  const left = 36, below = 4, above = 8;
  const x = (t) => left + ((width - left - 3) * (t - end + SPAN)) / SPAN;
  const y = (v) => height - below - ((height - below - above) * (v - bottom)) / (top - bottom);
  for (const value of [bottom, (bottom + top) / 2, top]) {
    ink.strokeStyle = "#e9ecef";
    line(ink, [[left, Math.round(y(value)) + 0.5], [width, Math.round(y(value)) + 0.5]], 1);
    ink.fillStyle = "#7a828c";
    ink.fillText(number(value, digits), left - 6, y(value) + (value === top ? 4 : value === bottom ? -2 : 1));
  }
  ink.save();
  ink.beginPath();
  ink.rect(left, 0, width - left, height);
  ink.clip();
  for (const { colour, at } of series) {
    ink.strokeStyle = colour;
    line(ink, shown.filter((row) => at(row) !== null).map((row) => [x(row.time), y(at(row))]), 1.7);
  }
  ink.restore();
}

function prepared(canvas) {
  const dense = Math.min(devicePixelRatio || 1, 2), width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * dense) || canvas.height !== Math.round(height * dense)) {
    canvas.width = Math.round(width * dense);
    canvas.height = Math.round(height * dense);
  }
  const ink = canvas.getContext("2d");
  ink.setTransform(dense, 0, 0, dense, 0, 0);
  ink.clearRect(0, 0, width, height);
  ink.font = "10.5px system-ui, sans-serif";
  ink.textAlign = "right";
  ink.textBaseline = "middle";
  ink.lineJoin = "round";
  return { width, height, ink };
}

// The range of the axis: from zero or a round number below it, to a round number.
function range(rows, series, least) {
  const values = rows.flatMap((row) => series.map(({ at }) => at(row))).filter((value) => value !== null);
  const low = Math.min(0, ...values), high = Math.max(least, ...values);
  return [low < -least ? -nice(-low) : 0, nice(high) || 1];
}

// The next larger round number.
function nice(value) {
  if (!(value > 0)) return 0;
  const decade = 10 ** Math.floor(Math.log10(value));
  return decade * [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * decade >= value * 1.02 || step === 10);
}

function line(ink, points, width) {
  ink.lineWidth = width;
  ink.beginPath();
  points.forEach(([x, y], k) => (k ? ink.lineTo(x, y) : ink.moveTo(x, y)));
  ink.stroke();
}

// Format a number with few digits.
export function number(value, digits = 2) {
  const size = Math.abs(value);
  if (size >= 1e6) return value.toExponential(1);
  return fixed(value, size >= 100 ? 0 : size >= 10 ? Math.min(digits, 1) : digits);
}

// Format a number without a minus sign before zero.
export function fixed(value, digits) {
  const text = value.toFixed(digits);
  return Number(text) === 0 ? (0).toFixed(digits) : text;
}
