// One memory over time: its classes stacked, the least and the most in each pixel, its limit, marks and the forecast.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import type { Columns, Event } from "./api";
import { colorOf } from "./colors";
import * as f from "./format";
import { t } from "./i18n";
import { dark, useLatest } from "./state";
import { type Layers, Strips, highest, layersOf } from "./strips";
import type { View } from "./tiles";

export interface Fan {
  from: number;
  level: number;
  limit: number;
  low: number;
  mid: number;
  high: number;
} // µs, bytes

export interface Clock {
  t: number[];
  step: (number | null)[];
}

export interface PanelProps {
  title: string;
  data: Columns | null;
  view: View;
  events: Event[];
  fan?: Fan;
  lines: boolean;
  cursor: number | null;
  steps: Clock | null; // drawn by step where it is given
  clock: Clock | null; // which step was made when
  live: boolean;
  onZoom: (v: View) => void;
  onAll: () => void;
  onHover: (t: number | null) => void;
  onPin: (t: number) => void;
}

const height = () => (innerHeight < 500 ? 120 : innerWidth < 600 ? 150 : 190);

export function Panel(props: PanelProps) {
  const box = useRef<HTMLDivElement>(null),
    plot = useRef<uPlot | null>(null),
    now = useLatest(props);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const shape = useMemo(
      () => props.data && layersOf(without(props.data, hidden), props.lines),
      [props.data, props.lines, hidden],
    ),
    drawn = useLatest(shape);
  const keys = shape ? shape.keys.join() : "",
    moved = useRef(0);
  useEffect(() => {
    const el = box.current; // the observer may speak once more when it has gone
    if (!el || !keys) return;
    const make = () => {
      plot.current?.destroy();
      plot.current = build(el, drawn, now);
      show(plot.current, drawn.current, now.current.view, false);
    };
    make();
    const fit = new ResizeObserver(() => plot.current?.setSize({ width: el.clientWidth, height: height() }));
    fit.observe(el);
    dark.addEventListener("change", make);
    return () => {
      fit.disconnect();
      dark.removeEventListener("change", make);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [keys, props.lines]);
  // while the view moves, the bytes keep their scale as long as they fit
  useLayoutEffect(() => {
    const moving = performance.now() - moved.current < rest;
    if (plot.current) show(plot.current, shape, props.view, moving);
  }, [shape, props.view.from, props.view.to, props.steps]);
  useEffect(() => {
    moved.current = performance.now();
    const timer = setTimeout(() => plot.current && show(plot.current, drawn.current, now.current.view, false), rest);
    return () => clearTimeout(timer);
  }, [props.view.from, props.view.to]);
  useEffect(() => {
    plot.current?.redraw(false);
  }, [props.fan, props.events, props.cursor]); // what lies over it alone
  const c = props.data,
    last = c && reading(c, props);
  return (
    <figure class="panel">
      <figcaption>
        <strong>{props.title}</strong>
        {last && (
          <span class="now">
            {props.cursor != null && moment(props, last.t)}
            {last.most ? t("mostinview", f.bytes(last.whole)) : f.bytes(last.whole)}
            {last.limit ? ` / ${f.bytes(last.limit)} (${f.percent(last.whole / last.limit)})` : ""}
          </span>
        )}
        {last && (
          <ul class="legend">
            {last.parts.map(([k, v]) => (
              <li>
                <button
                  class="key"
                  aria-pressed={!hidden.has(k)}
                  title={t("showhide")}
                  onClick={() => setHidden(toggled(hidden, k, c!))}
                >
                  <svg width="10" height="10" aria-hidden="true">
                    <rect width="10" height="10" fill={colorOf(k)} />
                  </svg>
                  {t(k)} {f.bytes(v)}
                </button>
              </li>
            ))}
          </ul>
        )}
      </figcaption>
      {keys ? (
        <div class="under">
          <div ref={box} class="plot" role="img" aria-label={spoken(props)} />
          {last && plot.current && <Tip u={plot.current} p={props} of={last} />}
        </div>
      ) : (
        <p class="state">{c ? t("nothing") : t("loading")}</p>
      )}
    </figure>
  );
}

// Tip stands beside the cursor: when that was, and what was held.
function Tip({ u, p, of }: { u: uPlot; p: PanelProps; of: Reading }) {
  if (p.cursor == null || p.cursor < p.view.from || p.cursor > p.view.to) return null;
  const at = u.valToPos(p.cursor / 1e6, "x"),
    width = u.over.clientWidth,
    left = u.over.offsetLeft;
  const side = at < width / 2 ? { left: `${left + at + 10}px` } : { right: `calc(100% - ${left + at - 10}px)` };
  return (
    <div class="tip" style={side} aria-hidden="true">
      {moment(p, of.t)}
      <strong>{f.bytes(of.whole)}</strong>
      {of.parts.slice(0, 6).map(([k, v]) => (
        <div>
          {t(k)} {f.bytes(v)}
        </div>
      ))}
    </div>
  );
}

// without is a memory less the classes that are hidden.
function without(c: Columns, hidden: ReadonlySet<string>): Columns {
  const order = c.order.filter((k) => !hidden.has(k));
  if (order.length === c.order.length) return c;
  const sum = c.t.map((_, i) => order.reduce((all, k) => all + (k === "step" ? 0 : (c.parts[k][i] ?? 0)), 0));
  const known = (list: (number | null)[]) => list.map((v, i) => (v == null ? null : sum[i]));
  return { ...c, order, lo: known(c.lo), hi: known(c.hi) };
}

// toggled hides a class or shows it again. Where nothing would be left, all are shown.
function toggled(hidden: ReadonlySet<string>, key: string, c: Columns): ReadonlySet<string> {
  const next = new Set(hidden);
  if (!next.delete(key)) next.add(key);
  const left = c.order.filter((k) => k !== "step" && !next.has(k) && c.parts[k].some((v) => v));
  return left.length ? next : new Set();
}

interface Reading {
  t: number;
  whole: number;
  limit: number | null;
  parts: [string, number][];
  most: boolean;
}

// reading is the one under the cursor. Without one it is the newest of what goes on and is in view, else the highest in
// view: the last reading of a process that was killed says little about it.
function reading(c: Columns, p: PanelProps): Reading | null {
  const newest = p.live && p.view.to >= (c.t.at(-1) ?? 0),
    most = p.cursor == null && !newest;
  const i = most ? highestIn(c, p.view) : before(c, p.cursor ?? Infinity);
  if (i < 0) return null;
  const parts = c.order.filter((k) => k !== "step" && c.parts[k][i]).map((k) => [k, c.parts[k][i]] as [string, number]);
  return { t: c.t[i], whole: c.hi[i] ?? 0, limit: c.limit[i], parts, most };
}

// before is the last reading up to a moment: not every step's memory is read.
function before(c: Columns, moment: number): number {
  let i = c.t.length - 1;
  while (i > 0 && c.t[i] > moment) i--;
  while (i > 0 && c.hi[i] == null) i--;
  return i;
}

function highestIn(c: Columns, view: View): number {
  let best = -1;
  c.t.forEach((t, i) => {
    if (t < view.from || t > view.to || c.hi[i] == null) return;
    if (best < 0 || c.hi[i]! > c.hi[best]!) best = i;
  });
  return best;
}

// moment is where the cursor is: the clock, and the step where one was made.
function moment(p: PanelProps, at: number): string {
  const step = p.clock && stepAt(p.clock, at);
  const near = (p.view.to - p.view.from) / 200;
  const event = p.events.find((e) => Math.abs(e.t - p.cursor!) < near);
  const said = event ? `, ${event.name}${event.text ? ` (${event.text.slice(0, 120)})` : ""}` : "";
  return `${f.when(at)}${step == null ? "" : `, ${t("sStep", f.count(step))}`}${said}: `;
}

function spoken(p: PanelProps): string {
  const c = p.data;
  if (!c || !c.t.length) return p.title;
  let lo = Infinity,
    hi = 0;
  c.t.forEach((t, i) => {
    if (t < p.view.from || t > p.view.to) return;
    lo = Math.min(lo, c.lo[i] ?? Infinity);
    hi = Math.max(hi, c.hi[i] ?? 0);
  });
  return `${p.title}: ${t("range")} ${f.bytes(isFinite(lo) ? lo : 0)} – ${f.bytes(hi)}`;
}

const ink = () => (dark.matches ? "#d5dae1" : "#30363d");
const faint = () => (dark.matches ? "#333a44" : "#e3e6ea");

// build makes the plot: uPlot has the axes, the cursor and the brush, strips have the memory.
function build(box: HTMLElement, drawn: { current: Layers | null }, now: { current: PanelProps }): uPlot {
  const axis = { stroke: ink, grid: { stroke: faint, width: 1 }, ticks: { stroke: faint } },
    strips = new Strips();
  return new uPlot(
    {
      width: box.clientWidth,
      height: height(),
      legend: { show: false },
      cursor: {
        y: false,
        drag: { x: true, y: false, setScale: false },
        points: { show: false },
        sync: { key: "memgauge" },
        bind: {
          dblclick: () => () => {
            now.current.onAll(); // uPlot's own would let go of the scales that are set here
            return null;
          },
        },
      },
      scales: { x: { time: true, auto: false }, y: { auto: false, range: (_, lo, hi) => [lo ?? 0, hi ?? 1] } },
      axes: [
        { ...axis, size: 30, space: 104, values: (u, at) => labels(u, at, now.current) },
        {
          ...axis,
          size: innerWidth < 600 ? 72 : 78,
          values: (_, at) => at.map((v) => (v == null ? "" : f.bytes(v))),
          splits: (_u, _i, _lo, max) => sizes(max),
        },
      ],
      series: [{}],
      hooks: {
        // the memory first, then what lies over it
        draw: [
          (u) => {
            const { min, max } = u.scales.x,
              top = u.scales.y.max;
            if (drawn.current && min != null && max != null && top)
              strips.draw(u.ctx, drawn.current, min * 1e6, max * 1e6, u.bbox, top, ink());
            marks(u, now.current);
          },
        ],
        setSelect: [
          (u) => {
            if (u.select.width < 4) return;
            const from = u.posToVal(u.select.left, "x") * 1e6,
              to = u.posToVal(u.select.left + u.select.width, "x") * 1e6;
            u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            now.current.onZoom({ from, to });
          },
        ],
        setCursor: [
          (u) => {
            if (u.cursor.event)
              now.current.onHover(
                u.cursor.left != null && u.cursor.left >= 0 ? u.posToVal(u.cursor.left, "x") * 1e6 : null,
              );
          },
        ],
        ready: [(u) => listen(u, now)],
      },
    },
    [[]] as unknown as uPlot.AlignedData,
    box,
  );
}

// sizes are round multiples of powers of two below max.
export function sizes(max: number): number[] {
  let step = 2 ** Math.ceil(Math.log2(Math.max(1, max) / 4));
  const unit = 1024 ** Math.floor(Math.log(step) / Math.log(1024));
  step = Math.max(step, unit);
  const list: number[] = [];
  for (let v = 0; v <= max; v += step) list.push(v);
  return list;
}

function labels(u: uPlot, at: number[], p: PanelProps): string[] {
  if (!p.steps) {
    const fine = u.scales.x.max! - u.scales.x.min! < 600;
    return at.map((v, i) => f.tick(v * 1e6, fine, i > 0 ? at[i - 1] * 1e6 : null));
  }
  return at.map((v) => {
    const s = stepAt(p.steps!, v * 1e6);
    return s == null ? "" : f.count(s);
  });
}

export function stepAt(steps: Clock, moment: number): number | null {
  const { t: ts, step } = steps;
  if (!ts.length || moment < ts[0]) return null;
  let lo = 0,
    hi = ts.length - 1;
  while (lo < hi) {
    const mid = (lo + hi + 1) >> 1;
    ts[mid] <= moment ? (lo = mid) : (hi = mid - 1);
  }
  if (lo === ts.length - 1 || step[lo] == null || step[lo + 1] == null) return step[lo];
  return step[lo]! + ((step[lo + 1]! - step[lo]!) * (moment - ts[lo])) / (ts[lo + 1] - ts[lo]);
}

const rest = 120; // ms without a move
const headroom = 1.06;

// show draws once: data that are there already are not given again, and setting x draws all that hangs on it.
function show(u: uPlot, l: Layers | null, view: View, moving: boolean) {
  if (!l) return;
  const most = highest(l, view.from, view.to),
    had = u.scales.y.max ?? 0;
  let top = Math.max(1, most * headroom);
  if (moving && had >= most && had < 2 * top) top = had;
  else if (moving) top = Math.max(1, highest(l, -Infinity, Infinity) * headroom); // what comes next will fit too
  u.batch(() => {
    if (u.data[0] !== l.x) u.setData([l.x], false);
    if (top !== had) u.setScale("y", { min: 0, max: top });
    u.setScale("x", { min: view.from / 1e6, max: view.to / 1e6 });
    u.redraw(false, true);
  });
}

// marks are drawn over the series: events, the limit, the moment that is pinned, and the forecast's fan.
function marks(u: uPlot, p: PanelProps) {
  const g = u.ctx,
    { left, top, width, height } = u.bbox,
    x = (us: number) => u.valToPos(us / 1e6, "x", true);
  const y = (v: number) => u.valToPos(v, "y", true),
    ratio = devicePixelRatio;
  g.save();
  g.beginPath();
  g.rect(left, top, width, height);
  g.clip();
  g.lineWidth = ratio;
  for (const e of p.events) {
    if (e.t < p.view.from || e.t > p.view.to) continue;
    g.strokeStyle = /oom|kill|xid/i.test(e.name) ? "#d55e00" : dark.matches ? "#7d8590" : "#8c959f";
    g.setLineDash(/oom|kill/i.test(e.name) ? [] : [2 * ratio, 4 * ratio]);
    stroke(g, x(e.t), top, x(e.t), top + height);
  }
  const limit = p.data && p.data.limit.findLast((v) => v != null);
  if (limit) {
    g.strokeStyle = "#d55e00";
    g.setLineDash([8 * ratio, 5 * ratio]);
    g.lineWidth = 1.5 * ratio;
    stroke(g, left, y(limit), left + width, y(limit));
  }
  if (p.fan) drawFan(g, p.fan, x, y);
  if (p.cursor != null) {
    g.strokeStyle = ink();
    g.setLineDash([]);
    g.lineWidth = 1.5 * ratio;
    stroke(g, x(p.cursor), top, x(p.cursor), top + height);
  }
  g.restore();
}

function drawFan(g: CanvasRenderingContext2D, fan: Fan, x: (n: number) => number, y: (n: number) => number) {
  g.fillStyle = "#d55e0033";
  g.beginPath();
  g.moveTo(x(fan.from), y(fan.level));
  g.lineTo(x(fan.low), y(fan.limit));
  g.lineTo(x(fan.high), y(fan.limit));
  g.closePath();
  g.fill();
  g.strokeStyle = "#d55e00";
  g.setLineDash([]);
  g.lineWidth = 2 * devicePixelRatio;
  stroke(g, x(fan.from), y(fan.level), x(fan.mid), y(fan.limit));
}

function stroke(g: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number) {
  g.beginPath();
  g.moveTo(x0, y0);
  g.lineTo(x1, y1);
  g.stroke();
}

// listen adds what uPlot has not: the wheel zooms where it points with Ctrl, and moves with shift or sideways; alone it
// scrolls the page, as anywhere. A click pins.
function listen(u: uPlot, now: { current: PanelProps }) {
  u.over.addEventListener(
    "wheel",
    (e) => {
      const sideways = e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY);
      if (!sideways && !e.ctrlKey && !e.metaKey) return;
      e.preventDefault();
      const { view, onZoom } = now.current,
        length = view.to - view.from;
      if (sideways) {
        const by = (length * (e.shiftKey ? e.deltaY || e.deltaX : e.deltaX)) / u.over.clientWidth;
        return onZoom({ from: view.from + by, to: view.to + by });
      }
      const at = u.posToVal(e.offsetX, "x") * 1e6,
        scale = Math.exp(Math.max(-200, Math.min(200, e.deltaY)) / 400);
      onZoom({ from: at - (at - view.from) * scale, to: at + (view.to - at) * scale });
    },
    { passive: false },
  );
  let down = 0;
  u.over.addEventListener("mousedown", (e) => {
    down = e.clientX;
  });
  u.over.addEventListener("click", (e) => {
    if (e.detail < 2 && Math.abs(e.clientX - down) < 4) now.current.onPin(u.posToVal(e.offsetX, "x") * 1e6);
  });
}
