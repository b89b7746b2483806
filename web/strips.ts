// A memory's classes on top of each other, as strips of pixels that are painted once: a view that moves sets them beside
// each other anew, and only what has come into it is painted.
import type { Columns } from "./api";
import { colorOf } from "./colors";

// Layers are what is painted of columns: each class from the bottom up to and with it, the topmost first, so that each
// area covers those behind it; or lines of their own.
export interface Layers {
  c: Columns;
  lines: boolean;
  keys: string[];
  x: number[];
  tops: (number | null)[][];
}

export function layersOf(c: Columns, lines: boolean): Layers {
  const order = c.order.filter((k) => k !== "step" && c.parts[k].some((v) => v)),
    x = c.t.map((v) => v / 1e6);
  if (lines) return { c, lines, keys: order, x, tops: order.map((k) => c.parts[k]) };
  const tops: number[][] = [];
  let below: number[] = c.t.map(() => 0);
  for (const k of order) tops.unshift((below = below.map((b, i) => b + (c.parts[k][i] ?? 0))));
  return { c, lines, keys: order.slice().reverse(), x, tops };
}

// reach is the first interval that begins at or after a moment.
function reach(t: number[], moment: number): number {
  let lo = 0,
    hi = t.length;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    t[mid] < moment ? (lo = mid + 1) : (hi = mid);
  }
  return lo;
}

// highest is the most that is painted between two moments.
export function highest(l: Layers, from: number, to: number): number {
  let most = 0;
  const first = Math.max(0, reach(l.c.t, from) - 1),
    last = Math.min(l.c.t.length - 1, reach(l.c.t, to));
  for (const list of l.lines ? l.tops : [l.tops[0] ?? [], l.c.hi]) {
    for (let i = first; i <= last; i++) most = Math.max(most, list[i] ?? 0);
  }
  return most;
}

const wide = 256; // px of a strip
const kept = 48; // strips: three screens of 4096 pixels

export interface Frame {
  left: number;
  top: number;
  width: number;
  height: number;
} // px of the canvas

export class Strips {
  private strips = new Map<number, HTMLCanvasElement>();
  private layers: Layers | null = null;
  private how = ""; // they were painted: height, scale of bytes, ink
  private origin = 0; // µs at the first pixel of strip 0
  private scale = 0; // px for a µs

  // draw puts the strips of a view into its frame. most is the number of bytes at the frame's top.
  draw(g: CanvasRenderingContext2D, l: Layers, from: number, to: number, frame: Frame, most: number, ink: string) {
    this.suit(l, from, frame.width / (to - from), `${frame.height} ${most} ${ink} ${devicePixelRatio}`);
    const at = Math.round((from - this.origin) * this.scale),
      last = Math.floor((at + frame.width) / wide);
    g.save();
    g.beginPath();
    g.rect(frame.left, frame.top, frame.width, frame.height);
    g.clip();
    for (let n = Math.floor(at / wide); n <= last; n++) {
      let s = this.strips.get(n);
      if (!s) this.strips.set(n, (s = this.paint(l, n, frame.height, most, ink)));
      g.drawImage(s, frame.left + n * wide - at, frame.top);
    }
    g.restore();
    const mid = Math.floor((at + frame.width / 2) / wide);
    for (const n of this.strips.keys()) if (Math.abs(n - mid) > kept / 2) this.strips.delete(n);
  }

  // suit lets go of strips that don't suit what is to be drawn. Of newer data with intervals of the same length it keeps
  // those that both cover: a closed interval's values stay.
  private suit(l: Layers, from: number, scale: number, how: string) {
    const old = this.layers;
    const same = this.how === how && Math.abs(scale / this.scale - 1) < 1e-4; // less than a pixel over a screen
    if (!same || !old || old.lines !== l.lines || old.c.width !== l.c.width || old.keys.join() !== l.keys.join()) {
      this.strips.clear();
      this.origin = from;
      this.scale = scale;
      this.how = how;
    } else if (old !== l) {
      const begin = Math.max(old.c.t[0], l.c.t[0]),
        end = Math.min(old.c.t.at(-2) ?? 0, l.c.t.at(-2) ?? 0);
      for (const n of this.strips.keys()) {
        if (!(this.moment(n) > begin && this.moment(n + 1) < end)) this.strips.delete(n);
      }
    }
    this.layers = l;
  }

  private moment(n: number): number {
    return this.origin + (n * wide) / this.scale;
  }

  private paint(l: Layers, n: number, height: number, most: number, ink: string): HTMLCanvasElement {
    const el = document.createElement("canvas"),
      t = l.c.t;
    el.width = wide;
    el.height = height;
    const g = el.getContext("2d")!,
      ratio = devicePixelRatio;
    const first = Math.max(0, reach(t, this.moment(n) - 1) - 1),
      last = Math.min(t.length - 1, reach(t, this.moment(n + 1)) + 1);
    const x = (i: number) => (t[i] - this.origin) * this.scale - n * wide,
      y = (v: number) => height - (v * height) / most;
    // through is a line over the readings; those that were not taken are passed over, also at the strip's edges.
    const through = (list: (number | null)[]) => {
      let begun = false,
        from = first,
        to = last;
      while (from > 0 && list[from] == null) from--;
      while (to < t.length - 1 && list[to] == null) to++;
      for (let i = from; i <= to; i++) {
        const v = list[i];
        if (v == null) continue;
        begun ? g.lineTo(x(i), y(v)) : g.moveTo(x(i), y(v));
        begun = true;
      }
    };
    g.lineJoin = "round";
    l.tops.forEach((list, k) => {
      g.beginPath();
      through(list);
      g.fillStyle = g.strokeStyle = colorOf(l.keys[k]);
      if (l.lines) {
        g.lineWidth = 2 * ratio;
        g.stroke();
      } else if (last >= first) {
        g.lineTo(x(last), height);
        g.lineTo(x(first), height);
        g.fill();
      }
    });
    if (l.lines) return el;
    g.beginPath();
    through(l.c.hi);
    g.strokeStyle = ink;
    g.lineWidth = ratio;
    g.stroke();
    return el;
  }
}
