// What a panel has of a track: an interval more than is in view, at one width. Moving needs no question then, and news
// are asked for from the last interval on. It holds a few screens' worth of points, whatever the session's length.
import { type Columns, get, of } from "./api";

export interface Source {
  kind: string;
  pid?: number;
  device?: number;
  path?: string;
  title: string;
}

export interface View {
  from: number;
  to: number;
} // µs since the epoch

const margin = 0.75; // of the view's length, to each side
const ahead = 0.4; // of the view's length: with less than that to come, a view that moves asks for more
const finest = 1000; // µs

// widthFor is the length of an interval: a power of two, so that it seldom changes while a live view grows.
export function widthFor(view: View, pixels: number): number {
  const exact = (view.to - view.from) / Math.max(100, pixels);
  return Math.max(finest, 2 ** Math.ceil(Math.log2(Math.max(1, exact))));
}

export class Tile {
  data: Columns | null = null;
  private have: View = { from: 0, to: 0 };
  private asks = 0; // the width that was asked for: a report may have none as fine
  private asked: AbortController | null = null;
  private coming: (View & { width: number }) | null = null; // what was asked for and is on its way

  constructor(
    private id: string,
    private source: Source,
  ) {}

  private url(from: number, to: number, width: number): string {
    const q = new URLSearchParams({
      kind: this.source.kind,
      pid: String(this.source.pid ?? 0),
      device: String(this.source.device ?? 0),
      path: this.source.path ?? "",
      from: String(Math.floor(from)),
      to: String(Math.ceil(to)),
      width: String(width),
    });
    return of(this.id, "series?" + q);
  }

  // short says that a view of the same width has moved, or is about to move, beyond the data, and nothing is on its way.
  short(view: View, pixels: number, end: number): boolean {
    if (!this.data || this.asks !== widthFor(view, pixels) || this.coming) return false;
    const more = ahead * (view.to - view.from);
    return this.have.to < Math.min(view.to + more, end) || this.have.from > Math.max(0, view.from - more);
  }

  // load has what the view needs, and says whether anything new came. end is the last moment that there is.
  async load(view: View, pixels: number, end: number): Promise<boolean> {
    const width = widthFor(view, pixels),
      length = view.to - view.from,
      c = this.coming;
    if (c && c.width === width && c.from <= view.from && c.to >= Math.min(view.to, end)) return false; // one question at a time
    if (this.data && this.asks === width) {
      if (!this.short(view, pixels, end)) return false;
      if (this.have.from <= Math.max(0, view.from - ahead * length)) {
        return this.extend(Math.min(view.to + margin * length, end), view.from - margin * length);
      }
    }
    const from = Math.max(0, view.from - margin * length),
      to = Math.min(view.to + margin * length, Math.max(end, view.from + 1));
    const data = await this.get(from, to, width);
    if (!data) return false;
    this.data = data;
    this.asks = width;
    this.have = { from, to };
    return true;
  }

  // extend asks from the last interval on, and lets go of what has left the view.
  private async extend(to: number, keep: number): Promise<boolean> {
    const old = this.data!,
      w = old.width;
    const from = Math.floor((old.t.length ? old.t[old.t.length - 1] : this.have.from) / w) * w;
    const more = await this.get(from, to, w, this.have.from);
    if (!more || this.data !== old) return false;
    let first = old.t.findIndex((t) => t >= keep),
      last = old.t.length;
    if (first < 0) first = old.t.length;
    while (last > first && old.t[last - 1] >= from) last--;
    const join = <T>(a: T[], b: T[]) => a.slice(first, last).concat(b);
    const parts: Columns["parts"] = {};
    for (const k of old.order) parts[k] = join(old.parts[k], more.parts[k]);
    this.data = {
      width: w,
      from: old.from,
      order: old.order,
      t: join(old.t, more.t),
      lo: join(old.lo, more.lo),
      hi: join(old.hi, more.hi),
      limit: join(old.limit, more.limit),
      parts,
    };
    this.have = { from: Math.max(this.have.from, keep), to };
    return true;
  }

  // get gives up the question before, whose answer would not do. since: from where on there are data once it has come.
  private async get(from: number, to: number, width: number, since = from): Promise<Columns | null> {
    this.asked?.abort();
    const mine = (this.asked = new AbortController());
    this.coming = { from: since, to, width };
    try {
      return await get<Columns>(this.url(from, to, width), mine.signal);
    } catch (e) {
      if ((e as Error).name === "AbortError") return null;
      throw e;
    } finally {
      if (this.asked === mine) this.coming = null;
    }
  }

  close() {
    this.asked?.abort();
  }
}
