// Strokes on a sheet, and what of them a network that learned from scanned digits can read.
//
// The digits that it knows were scanned, cut out, fitted into a square of 32 pixels and counted in
// blocks of 4: 8 by 8 numbers from 0 (paper) to 16 (ink). `toImage` does the same.

// Whichever the digit, 0.30 of its square is ink (0.296 to 0.322 on the mean), so that few and
// short strokes are thick ones.
const INK = 0.305 * 64; // cells
const [THIN, THICK] = [1.5, 2.6]; // cells
const FINE = 8; // pixels that a cell is counted from, each way

export class Ink {
  /** Lists of `[x, y]`, both from 0 to 1. */
  strokes = [];

  get isEmpty() {
    return this.strokes.length === 0;
  }

  begin(x, y) {
    this.strokes.push([[x, y]]);
  }

  add(x, y) {
    this.strokes.at(-1).push([x, y]);
  }

  undo() {
    this.strokes.pop();
  }

  clear() {
    this.strokes = [];
  }

  /** Draw all of it on a canvas of `size` pixels, with a pen of `width`. */
  draw(context, size, width) {
    trace(context, this.strokes, width, (x) => x * size, (y) => y * size);
  }

  /** Float32Array of 64: the ink fitted into 8 by 8 cells, 0 to 16 in each. */
  toImage() {
    const image = new Float32Array(64);
    if (this.isEmpty) return image;
    const points = this.strokes.flat();
    const [left, right] = ends(points.map(([x]) => x));
    const [top, bottom] = ends(points.map(([, y]) => y));
    const size = 8 * FINE;
    // A dot must not fill the image, and a thin line only its height.
    const extent = Math.max(right - left, bottom - top, 0.08);
    const length = (this.strokes.reduce((sum, stroke) => sum + lengthOf(stroke), 0) * 6.5) / extent;
    const pen = Math.min(Math.max(INK / length, THIN), THICK) * FINE;
    const scale = (size - pen) / extent;
    const fit = (low, high) => (value) => size / 2 + (value - (low + high) / 2) * scale;
    const canvas = Object.assign(document.createElement('canvas'), { width: size, height: size });
    const context = canvas.getContext('2d', { willReadFrequently: true });
    trace(context, this.strokes, pen, fit(left, right), fit(top, bottom));
    const { data } = context.getImageData(0, 0, size, size);
    for (let y = 0; y < size; ++y)
      for (let x = 0; x < size; ++x)
        image[Math.floor(y / FINE) * 8 + Math.floor(x / FINE)] += data[4 * (y * size + x) + 3];
    return image.map((sum) => Math.round((16 * sum) / (255 * FINE * FINE)));
  }
}

const lengthOf = (stroke) => stroke.slice(1).reduce(
  (sum, [x, y], i) => sum + Math.hypot(x - stroke[i][0], y - stroke[i][1]), 0);
const ends = (numbers) => [Math.min(...numbers), Math.max(...numbers)];

/** Strokes as smooth lines: through the middles of the points, bent towards them. */
function trace(context, strokes, width, toX, toY) {
  context.lineWidth = width;
  context.lineCap = context.lineJoin = 'round';
  for (const stroke of strokes) {
    const points = stroke.map(([x, y]) => [toX(x), toY(y)]);
    context.beginPath();
    context.moveTo(...points[0]);
    for (let i = 1; i < points.length - 1; ++i) {
      const [x, y] = points[i];
      const [nextX, nextY] = points[i + 1];
      context.quadraticCurveTo(x, y, (x + nextX) / 2, (y + nextY) / 2);
    }
    context.lineTo(...points.at(-1));
    context.stroke();
  }
}
