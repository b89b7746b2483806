// A device's blocks over its events, stacked: what is seen is drawn from tiles, the pointer or the keys choose a moment
// and a block.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Drawn, type Painter, type Sight, hit, painter } from "./boxdraw";
import * as f from "./format";
import { t } from "./i18n";
import { sizes } from "./panel";
import { type Device, type Tile, rest, tile as askTile, tileColumns } from "./snapapi";
import { dark, useLatest } from "./state";

const maxTiles = 96; // kept: each at most 350 kB
const left = 74,
  bottom = 24; // px, for the axes
const dash = 10; // px, a dash and its gap
const none = rest - 1;

export interface Chosen {
  event: number;
  block: number | null;
}

interface Props {
  shotKey: string;
  device: Device;
  sight: Sight;
  bySite: boolean;
  renderer: string | null;
  chosen: Chosen;
  onSight: (s: Sight) => void;
  onChoose: (c: Chosen) => void;
  onHover: (d: Drawn | null, event: number) => void;
}

export const whole = (d: Device): Sight => ({
  from: 0,
  to: Math.max(1, d.events),
  low: 0,
  high: Math.max(d.peak_bytes, Math.min(d.peak_reserved, 1.6 * d.peak_bytes), 1) * 1.04,
});

// within keeps a view inside of what there is.
export function within(s: Sight, d: Device): Sight {
  const all = whole(d),
    length = Math.min(all.to, Math.max(16, s.to - s.from)),
    height = Math.min(all.high, Math.max(1024, s.high - s.low));
  const from = Math.max(0, Math.min(all.to - length, s.from)),
    low = Math.max(0, Math.min(all.high - height, s.low));
  return { from, to: from + length, low, high: low + height };
}

// Store has tiles, asks for those that are missing, and lets go of what was not drawn for longest.
class Store {
  private have = new Map<string, Tile>();
  private asked = new Map<string, AbortController>();
  painter: Painter | null = null;
  failed = "";

  constructor(
    private key: string,
    private d: Device,
    private came: () => void,
  ) {}

  find(s: Sight, pixels: number, height: number): { tile: Tile; from: number; to: number }[] {
    const level = Math.max(0, Math.ceil(Math.log2((s.to - s.from) / Math.max(64, pixels))));
    const least = 2 ** Math.max(9, Math.floor(Math.log2((s.high - s.low) / Math.max(64, height))));
    const length = tileColumns * 2 ** level,
      first = Math.floor(s.from / length),
      last = Math.floor((s.to - 1e-9) / length);
    const wanted = new Set<string>(),
      list: { tile: Tile; from: number; to: number }[] = [];
    for (let i = first - 1; i <= last + 1; i++) {
      if (i < 0 || i * length >= this.d.events) continue;
      const id = `${level}/${i}/${least}`;
      wanted.add(id);
      const mine = this.have.get(id);
      if (!mine) this.ask(id, level, i, least);
      if (i < first || i > last) continue;
      const tile = mine ?? this.coarser(level, i);
      if (tile) list.push({ tile, from: i * length, to: (i + 1) * length });
    }
    for (const [id, stop] of this.asked)
      if (!wanted.has(id)) {
        stop.abort();
        this.asked.delete(id);
      }
    return list;
  }

  // coarser is what there is of a stretch until its own tile comes.
  private coarser(level: number, index: number): Tile | null {
    let best: Tile | null = null;
    for (const x of this.have.values()) {
      if (x.level < level || index >> (x.level - level) !== x.index) continue;
      if (!best || x.level < best.level || (x.level === best.level && x.least < best.least)) best = x;
    }
    return best;
  }

  private ask(id: string, level: number, index: number, least: number) {
    if (this.asked.has(id)) return;
    const stop = new AbortController();
    this.asked.set(id, stop);
    askTile(this.key, this.d.device, level, index, least, stop.signal).then(
      (x) => {
        this.asked.delete(id);
        this.failed = "";
        this.have.set(id, x);
        for (const [old, gone] of this.have) {
          if (this.have.size <= maxTiles) break;
          this.have.delete(old);
          this.painter?.forget(gone);
        }
        this.came();
      },
      (e) => {
        if (e.name === "AbortError") return;
        this.failed = e.message;
        this.came();
        setTimeout(() => this.asked.delete(id), 2000); // ask again, but not at once
      },
    );
  }

  close() {
    for (const stop of this.asked.values()) stop.abort();
    this.painter?.close();
    this.have.clear();
  }
}

export function BoxView(props: Props) {
  const under = useRef<HTMLCanvasElement>(null),
    over = useRef<HTMLCanvasElement>(null),
    box = useRef<HTMLDivElement>(null);
  const now = useLatest(props),
    paint = useRef<() => void>(() => {}),
    store = useRef<Store | null>(null);
  const [kind, setKind] = useState(""),
    [failed, setFailed] = useState("");
  const { shotKey, device: d, renderer } = props;
  useEffect(() => {
    const el = box.current!,
      a = under.current!,
      b = over.current!;
    const s = (store.current = new Store(shotKey, d, () => again()));
    s.painter = painter(a, renderer);
    setKind(s.painter.kind);
    let frame = 0;
    const again = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        draw();
      });
    };
    paint.current = again;
    const draw = () => {
      const ratio = Math.min(2, devicePixelRatio),
        w = el.clientWidth - left,
        h = el.clientHeight - bottom;
      if (w < 10 || h < 10) return;
      fit(a, w, h, ratio);
      fit(b, el.clientWidth, el.clientHeight, ratio);
      const p = now.current,
        tiles = s.find(p.sight, w, h);
      s.painter!.draw({ tiles, sight: p.sight, bySite: p.bySite, picked: p.chosen.block ?? none, dark: dark.matches });
      lines(b, ratio, w, h, p, tiles);
      setFailed(s.failed);
      el.dataset.drawn = String(tiles.length);
    };
    const size = new ResizeObserver(again);
    size.observe(el);
    dark.addEventListener("change", again);
    a.addEventListener("webglcontextlost", again);
    const stop = listen(b, now, s);
    again();
    return () => {
      cancelAnimationFrame(frame);
      size.disconnect();
      dark.removeEventListener("change", again);
      stop();
      s.close();
    };
  }, [shotKey, d, renderer]);
  useEffect(() => paint.current());
  return (
    <>
      <div class="boxes" ref={box} data-painter={kind}>
        <canvas class="under" ref={under} key={renderer ?? ""} aria-hidden="true" />
        <canvas
          class="over"
          ref={over}
          tabIndex={0}
          role="img"
          aria-describedby="boxkeys"
          aria-label={t("xBoxes", f.count(d.allocs), f.count(d.events), f.bytes(d.peak_bytes))}
          onKeyDown={(e) => keyed(e, now.current)}
        />
      </div>
      {kind === "2d" && <p class="hint">{t("xPlain")}</p>}
      {failed && (
        <p class="state bad" role="alert">
          {failed === "gone" ? t("gone") : failed}
        </p>
      )}
    </>
  );
}

function fit(c: HTMLCanvasElement, w: number, h: number, ratio: number) {
  const [x, y] = [Math.round(w * ratio), Math.round(h * ratio)];
  if (c.width !== x) c.width = x;
  if (c.height !== y) c.height = y;
}

// lines draws the axes, the highest level and what was reserved, and the moment that is chosen.
function lines(
  c: HTMLCanvasElement,
  ratio: number,
  w: number,
  h: number,
  p: Props,
  tiles: { tile: Tile; from: number; to: number }[],
) {
  const g = c.getContext("2d")!,
    s = p.sight,
    ink = dark.matches ? "#d5dae1" : "#30363d",
    faint = dark.matches ? "#8b949e44" : "#57606a33";
  const x = (e: number) => left + ((e - s.from) / (s.to - s.from)) * w,
    y = (v: number) => h - ((v - s.low) / (s.high - s.low)) * h;
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, w + left, h + bottom);
  g.font = "12px system-ui, sans-serif";
  g.fillStyle = ink;
  g.textBaseline = "middle";
  g.textAlign = "right";
  const step = sizes(s.high - s.low)[1] || 1;
  for (let v = Math.ceil(s.low / step) * step; v <= s.high; v += step) {
    g.fillText(f.bytes(v), left - 6, Math.max(7, y(v)));
    rule(g, faint, left, y(v), left + w, y(v));
  }
  g.textBaseline = "top";
  const timed = p.device.from > 0 && p.device.to > p.device.from,
    ticks = f.round((s.to - s.from) / Math.max(2, w / (timed ? 150 : 110)));
  for (let e = Math.ceil(s.from / ticks) * ticks; e <= s.to; e += ticks) {
    const since = timed ? sinceFirst(tiles, e) : null;
    const text =
        f.count(e + p.device.first) +
        (since == null
          ? ""
          : ` · ${since < 2e6 ? (since / 1000).toFixed(1) + " ms" : since < 6e7 ? (since / 1e6).toFixed(2) + " s" : f.span(since / 1e6)}`),
      half = g.measureText(text).width / 2;
    g.textAlign = "center";
    g.fillText(text, Math.min(left + w - half, Math.max(left + half, x(e))), h + 6);
    rule(g, faint, x(e), h, x(e), h + 4);
  }
  g.save();
  g.beginPath();
  g.rect(left, 0, w, h);
  g.clip();
  stairs(g, tiles, 1, left + w, x, y, ink, 1, false);
  stairs(g, tiles, 3, left + w, x, y, "#d55e00", 1.5, true);
  for (const e of p.device.ooms) rule(g, "#d55e00", x(e), 0, x(e), h, 2);
  if (p.chosen.event >= 0) rule(g, ink, x(p.chosen.event + 0.5), 0, x(p.chosen.event + 0.5), h, 1.5);
  g.restore();
}

// sinceFirst is how long after the first event another one was, in µs, as far as that is known here.
function sinceFirst(tiles: { tile: Tile; from: number; to: number }[], event: number): number | null {
  const at = tiles.find((x) => event >= x.from && event < x.to);
  if (!at) return null;
  const column = (event >> at.tile.level) - at.tile.index * tileColumns;
  return at.tile.columns[5 * column + 4] ?? null;
}

// stairs draws a number of the columns as bars along the axes: a stroked path of a thousand steep steps, dashed too, takes
// a software renderer longer than all boxes.
function stairs(
  g: CanvasRenderingContext2D,
  tiles: { tile: Tile; from: number; to: number }[],
  number: number,
  end: number,
  x: (e: number) => number,
  y: (v: number) => number,
  color: string,
  width: number,
  dashed: boolean,
) {
  let from = left,
    to = left,
    level = NaN;
  g.fillStyle = color;
  const flush = () => {
    const a = Math.max(left, from),
      b = Math.min(end, to);
    if (!dashed) return a < b && g.fillRect(a, level - width / 2, b - a, width);
    for (let d = a - ((a - left) % dash); d < b; d += dash) {
      const d0 = Math.max(a, d),
        d1 = Math.min(b, d + 0.6 * dash);
      if (d0 < d1) g.fillRect(d0, level - width / 2, d1 - d0, width);
    }
  };
  for (const { tile, from: first, to: last } of tiles) {
    const wide = 2 ** tile.level,
      begin = tile.index * tileColumns * wide;
    for (
      let i = Math.max(0, Math.floor((first - begin) / wide));
      i < tile.columns.length / 5 && begin + i * wide < last;
      i++
    ) {
      const v = y(tile.columns[5 * i + number]),
        x0 = x(begin + i * wide);
      if (v !== level) {
        flush();
        if (!isNaN(level))
          g.fillRect(x0 - width / 2, Math.min(v, level) - width / 2, width, Math.abs(v - level) + width);
        from = x0;
        level = v;
      }
      to = x(begin + (i + 1) * wide);
    }
  }
  flush();
}

function rule(g: CanvasRenderingContext2D, color: string, x0: number, y0: number, x1: number, y1: number, width = 1) {
  g.strokeStyle = color;
  g.lineWidth = width;
  g.setLineDash([]);
  g.beginPath();
  g.moveTo(x0, y0);
  g.lineTo(x1, y1);
  g.stroke();
}

// listen: drag moves, the wheel with Ctrl zooms where it points (with Shift the bytes), a click chooses.
function listen(c: HTMLCanvasElement, now: { current: Props }, store: Store): () => void {
  const stop = new AbortController(),
    on = { signal: stop.signal };
  const place = (e: MouseEvent) => {
    const r = c.getBoundingClientRect(),
      s = now.current.sight,
      w = r.width - left,
      h = r.height - bottom;
    const x = (e.clientX - r.left - left) / w,
      y = 1 - (e.clientY - r.top) / h;
    return { x, y, event: Math.max(0, s.from + x * (s.to - s.from)), height: s.low + y * (s.high - s.low), w, h };
  };
  const under = (e: MouseEvent): [Drawn | null, number] => {
    const p = place(e),
      inside = p.x >= 0 && p.y >= 0;
    const tiles = inside ? store.find(now.current.sight, p.w, p.h) : [];
    const mine = tiles.find((x) => x.from <= p.event && p.event < x.to);
    return [
      mine ? hit(mine.tile, p.event, p.height) : null,
      Math.min(now.current.device.events - 1, Math.floor(p.event)),
    ];
  };
  let drag: { x: number; y: number; s: Sight; moved: boolean } | null = null;
  c.addEventListener(
    "pointerdown",
    (e) => {
      drag = { x: e.clientX, y: e.clientY, s: now.current.sight, moved: false };
      c.setPointerCapture(e.pointerId);
    },
    on,
  );
  c.addEventListener(
    "pointermove",
    (e) => {
      if (!drag) return now.current.onHover(...under(e));
      const r = c.getBoundingClientRect(),
        dx = e.clientX - drag.x,
        dy = e.clientY - drag.y,
        s = drag.s;
      if (!drag.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
      drag.moved = true;
      const by = (-dx / (r.width - left)) * (s.to - s.from),
        up = (dy / (r.height - bottom)) * (s.high - s.low);
      now.current.onSight({ from: s.from + by, to: s.to + by, low: s.low + up, high: s.high + up });
    },
    on,
  );
  c.addEventListener(
    "pointerup",
    (e) => {
      if (drag && !drag.moved) {
        const [d, event] = under(e);
        now.current.onChoose({ event, block: d && d.id !== rest ? d.id : null });
      }
      drag = null;
    },
    on,
  );
  c.addEventListener(
    "pointercancel",
    () => {
      drag = null;
    },
    on,
  );
  c.addEventListener("pointerleave", () => now.current.onHover(null, -1), on);
  c.addEventListener(
    "wheel",
    (e) => {
      if (!e.ctrlKey && !e.metaKey && !e.shiftKey) return; // it scrolls the page
      e.preventDefault();
      const p = place(e),
        s = now.current.sight,
        by = Math.exp(Math.max(-200, Math.min(200, e.deltaY || e.deltaX)) / 400);
      if (e.shiftKey)
        return now.current.onSight({
          ...s,
          low: p.height - (p.height - s.low) * by,
          high: p.height + (s.high - p.height) * by,
        });
      now.current.onSight({ ...s, from: p.event - (p.event - s.from) * by, to: p.event + (s.to - p.event) * by });
    },
    { ...on, passive: false },
  );
  return () => stop.abort();
}

export function zoomed(s: Sight, by: number, at?: number): Sight {
  const m = at != null && at >= s.from && at <= s.to ? at : (s.from + s.to) / 2;
  return { ...s, from: m - (m - s.from) * by, to: m + (s.to - m) * by };
}

export const heightened = (s: Sight, by: number): Sight => ({ ...s, high: s.low + (s.high - s.low) * by });

function keyed(e: KeyboardEvent, p: Props) {
  const s = p.sight,
    step = (s.to - s.from) / 8,
    up = (s.high - s.low) / 8;
  const moved = (by: number, rise = 0) =>
    p.onSight({ from: s.from + by, to: s.to + by, low: s.low + rise, high: s.high + rise });
  const mark = (by: number) => {
    const from = p.chosen.event < 0 ? Math.round((s.from + s.to) / 2) : p.chosen.event;
    p.onChoose({ event: Math.max(0, Math.min(p.device.events - 1, from + by)), block: null });
  };
  const column = Math.max(1, Math.round((s.to - s.from) / 400));
  const keys: Record<string, () => void> = {
    ArrowLeft: () => moved(-step),
    ArrowRight: () => moved(step),
    ArrowUp: () => moved(0, up),
    ArrowDown: () => moved(0, -up),
    "+": () => p.onSight(zoomed(s, 0.5, p.chosen.event)),
    "=": () => p.onSight(zoomed(s, 0.5, p.chosen.event)),
    "-": () => p.onSight(zoomed(s, 2, p.chosen.event)),
    "0": () => p.onSight(whole(p.device)),
    "*": () => p.onSight(heightened(s, 0.5)),
    "/": () => p.onSight(heightened(s, 2)),
    "[": () => mark(-column),
    "]": () => mark(column),
    "{": () => mark(-1),
    "}": () => mark(1),
    p: () => p.onChoose({ event: p.device.peak, block: null }),
    Escape: () => p.onChoose({ event: -1, block: null }),
  };
  if (!keys[e.key] || e.ctrlKey || e.metaKey || e.altKey) return;
  e.preventDefault();
  keys[e.key]();
}
