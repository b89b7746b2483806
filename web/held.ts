// A report carries its answers inside the page: what a server would be asked is looked up here.
import { type Census, type Columns, type Held, type Tensors, Trouble, type Where } from "./api";

export let held: Held | null = null;

export function hold(h: Held) {
  held = h;
}

// answer is to a path of the server's, without a request.
export function answer<T>(path: string): T {
  const [what, query] = path.replace(/^s\/[^/]*\//, "").split("?"),
    q = new URLSearchParams(query ?? "");
  switch (what) {
    case "config":
      return { version: held!.version, allow_eval: false, first: "" } as T;
    case "series":
      return series(q) as T;
    case "where":
      return where(Number(q.get("t")) || 0) as T;
    case "tensors":
      return tensors(q) as T;
    case "source":
      return found(`source:${q.get("site")}`) as T;
  }
  return found(what) as T;
}

function found(key: string): unknown {
  const v = held!.answers[key] as { message?: string } | undefined;
  if (v === undefined) throw new Trouble("absent");
  if (v && typeof v.message === "string") throw new Trouble(v.message);
  return v;
}

// where is the last that was told up to a moment.
function where(moment: number): Where {
  if (!moment) return found("where") as Where;
  return held!.where.findLast((w) => w.t <= moment) ?? held!.where[0] ?? { t: moment, of: "", root: null };
}

// tensors are of the census that is asked for against the other; what is not said is chosen as the server does.
function tensors(q: URLSearchParams): Tensors {
  const all = found("tensors") as Tensors,
    list = all.censuses,
    number = (k: string) => Number(q.get(k)) || 0;
  if (!list.length) return all;
  const mine = list.filter((c: Census) => c.pid === (number("pid") || list[0].pid));
  const id = number("census") || mine[0].census_id;
  const before = number("before") || (mine.find((c) => c.census_id < id)?.census_id ?? 0);
  return { ...(found(`tensors:${mine[0].pid}:${id}:${before}`) as Tensors), censuses: list };
}

// series are at the width that is asked for, or the finest that there is.
function series(q: URLSearchParams): Columns {
  const key = [
    q.get("kind"),
    Number(q.get("pid")) || "",
    q.get("kind") === "device" ? q.get("device") : "",
    q.get("path"),
  ].join(":");
  const levels = held!.series[key] ?? [],
    from = Number(q.get("from")),
    width = Number(q.get("width"));
  const level = levels.findLast((c) => c.from <= from) ?? levels[0];
  return level
    ? joined(level, Math.max(width, level.width))
    : { width, from, order: [], t: [], lo: [], hi: [], limit: [], parts: {} };
}

// joined makes intervals of a multiple's length: the least and the most of all in one, else the last.
function joined(c: Columns, width: number): Columns {
  if (width === c.width) return c;
  const out: Columns = { width, from: c.from, order: c.order, t: [], lo: [], hi: [], limit: [], parts: {} };
  for (const k of c.order) out.parts[k] = [];
  let group = NaN;
  c.t.forEach((t, i) => {
    if (Math.floor(t / width) !== group) {
      group = Math.floor(t / width);
      out.lo.push(null);
      out.hi.push(null);
    }
    const n = out.lo.length - 1,
      lo = c.lo[i],
      hi = c.hi[i],
      a = out.lo[n],
      b = out.hi[n];
    out.t[n] = t;
    if (lo != null) out.lo[n] = a == null ? lo : Math.min(a, lo);
    if (hi != null) out.hi[n] = b == null ? hi : Math.max(b, hi);
    out.limit[n] = c.limit[i] ?? out.limit[n] ?? null;
    for (const k of c.order) out.parts[k][n] = c.parts[k][i] ?? out.parts[k][n] ?? null;
  });
  return out;
}

// What the page of a snapshot carries: tiles in base64, blocks in columns.
export interface HeldShot {
  version: string;
  answers: Record<string, unknown>;
  tiles: Record<string, { level: number; index: number; bytes: string }[]>;
  blocks: Record<string, Record<string, any[]>>;
  stacks: Record<string, { site: string; frames: number[] }>;
  frames: Record<string, unknown>;
  texts: string[][];
}

export let heldShot: HeldShot | null = null;

export function holdShot(h: HeldShot) {
  heldShot = h;
}

// shotAnswer is to a question about the snapshot: what follows its key.
export function shotAnswer<T>(path: string): T {
  const [what, query] = path.replace(/^f\/?[^/]*\/?/, "").split("?"),
    q = new URLSearchParams(query ?? ""),
    h = heldShot!;
  if (path === "f") return h.answers.list as T;
  if (what === "block") return heldBlock(q.get("device")!, Number(q.get("id"))) as T;
  if (what === "moment") return heldMoment(q.get("device")!, Number(q.get("event"))) as T;
  const v = h.answers[what + (query ? "?" + query : "")];
  if (v === undefined) throw new Trouble("absent");
  return v as T;
}

function heldBlock(device: string, id: number) {
  const all = heldShot!.blocks[device],
    i = all.id.indexOf(id);
  if (i < 0) throw new Trouble("absent");
  const one: Record<string, unknown> = {};
  for (const k of Object.keys(all)) one[k] = all[k][i];
  const stack = heldShot!.stacks[String(one.stack)];
  return {
    ...one,
    site: stack.site,
    frames: stack.frames.map((n) => heldShot!.frames[n]),
    attached: heldShot!.texts[one.attached as number],
  };
}

// heldMoment is the last one before an event that the page has; it says which it is.
function heldMoment(device: string, event: number) {
  const prefix = `moment?device=${device}&event=`;
  const list = Object.keys(heldShot!.answers)
    .filter((k) => k.startsWith(prefix))
    .map((k) => Number(k.slice(prefix.length)));
  const before = list.filter((e) => e <= event);
  if (!list.length) throw new Trouble("absent");
  return heldShot!.answers[prefix + (before.length ? Math.max(...before) : Math.min(...list))];
}

// heldTile is the finest one that has a stretch, if none has it as fine as it is asked for.
export function heldTile(
  device: number,
  level: number,
  index: number,
): { level: number; index: number; bytes: string } {
  let best: { level: number; index: number; bytes: string } | undefined;
  for (const x of heldShot!.tiles[device] ?? []) {
    if (x.level < level || index >> (x.level - level) !== x.index) continue;
    if (!best || x.level < best.level) best = x;
  }
  if (!best) throw new Trouble("absent");
  return best;
}
