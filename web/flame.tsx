// A flame graph of bytes by stack: frames as wide as what they hold, the outermost on top. Beside another moment or file
// the colours tell what has grown.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Burned, Flame } from "./api";
import { inkOn } from "./colors";
import * as f from "./format";
import { t } from "./i18n";
import { CopyPlace, Table } from "./parts";

const row = 20; // px
const mostCells = 4000; // drawn at once
const mostRows = 300; // of the table

const label = (n: Burned) =>
  n.file && n.file !== "??" ? `${n.name} ${n.file.slice(n.file.lastIndexOf("/") + 1)}:${n.line}` : n.name;
const whole = (n: Burned) => n.name + (n.file ? ` ${n.file}:${n.line}` : "");

// weights are what widths stand for: the larger of before and after, frame by frame, so that children fit in.
function weights(n: Burned, known: Map<Burned, number>): number {
  let own = n.bytes,
    was = n.before ?? 0,
    sum = 0;
  for (const c of n.children ?? []) {
    own -= c.bytes;
    was -= c.before ?? 0;
    sum += weights(c, known);
  }
  sum += Math.max(own, was, 0);
  known.set(n, sum);
  return sum;
}

function paint(n: Burned, compare: boolean): string {
  if (compare) {
    const share = (n.bytes - (n.before ?? 0)) / Math.max(n.bytes, n.before ?? 0, 1);
    return Math.abs(share) < 0.01
      ? "#d7dbe0"
      : share > 0
        ? share > 0.5
          ? "#e8825a"
          : "#f3c0a6"
        : share < -0.5
          ? "#6aa9d8"
          : "#b5d5ec";
  }
  let h = 0;
  for (const c of n.file ?? "") h = (h * 31 + c.charCodeAt(0)) >>> 0;
  return ["#f2b880", "#f0c987", "#eaa27a", "#f4d58d", "#e7b06a", "#efbfa0"][h % 6];
}

interface Cell {
  n: Burned;
  path: Burned[];
  x: number;
  w: number;
  depth: number;
}

// laid are the frames below the zoomed one; those above it take the whole width.
function laid(path: Burned[], width: number, known: Map<Burned, number>): Cell[] {
  const cells: Cell[] = path.slice(0, -1).map((n, i) => ({ n, path: path.slice(0, i + 1), x: 0, w: width, depth: i }));
  const lay = (n: Burned, way: Burned[], x: number, w: number, depth: number) => {
    if (w < 1 || cells.length > mostCells) return;
    cells.push({ n, path: way, x, w, depth });
    for (const c of n.children ?? []) {
      const mine = (w * known.get(c)!) / Math.max(1, known.get(n)!);
      lay(c, [...way, c], x, mine, depth + 1);
      x += mine;
    }
  };
  if (width > 0) lay(path[path.length - 1], path, 0, width, path.length - 1);
  return cells;
}

// matching are the frames whose function or file has a text; bytes counts the outermost of them.
function matching(root: Burned, text: string): { all: Set<Burned>; bytes: number } {
  const all = new Set<Burned>(),
    wanted = text.trim().toLowerCase();
  let bytes = 0;
  const look = (n: Burned, inside: boolean) => {
    const hit = whole(n).toLowerCase().includes(wanted);
    if (hit) all.add(n);
    if (hit && !inside) bytes += n.bytes;
    n.children?.forEach((c) => look(c, inside || hit));
  };
  if (wanted) look(root, false);
  return { all, bytes };
}

const mostFrames = 200; // of a stack; a deeper one is recursion

// inverted turns the stacks around: outermost are the frames that hold the memory themselves, below them who called them.
function inverted(root: Burned): Burned {
  const top: Burned = { ...root, children: [] },
    known = new Map<Burned, Map<string, Burned>>();
  const add = (way: Burned[], bytes: number, before: number, blocks: number) => {
    let at = top;
    for (const n of way.slice(-mostFrames).reverse()) {
      const beside = known.get(at) ?? new Map<string, Burned>();
      known.set(at, beside);
      let next = beside.get(whole(n));
      if (!next) {
        next = { name: n.name, file: n.file, line: n.line, bytes: 0, before: 0, blocks: 0, children: [] };
        beside.set(whole(n), next);
        at.children!.push(next);
      }
      next.bytes += bytes;
      next.before! += before;
      next.blocks += blocks;
      at = next;
    }
  };
  const walk = (n: Burned, way: Burned[]) => {
    const sum = (of: (c: Burned) => number) => (n.children ?? []).reduce((s, c) => s + of(c), 0);
    const bytes = n.bytes - sum((c) => c.bytes),
      before = (n.before ?? 0) - sum((c) => c.before ?? 0);
    if (way.length && (bytes > 0 || before > 0)) add(way, bytes, before, n.blocks - sum((c) => c.blocks));
    n.children?.forEach((c) => walk(c, [...way, c]));
  };
  walk(root, []);
  const order = (n: Burned) => {
    n.children!.sort((a, b) => b.bytes - a.bytes);
    n.children!.forEach(order);
  };
  order(top);
  return top;
}

// heavy has the largest of each frame's callees at the left.
function heavy(n: Burned): Burned {
  return { ...n, children: n.children?.map(heavy).sort((a, b) => b.bytes - a.bytes) };
}

// Graph is the flame graph of stacks, as they were or turned around. count names what a frame's number counts.
export function Graph(p: { root: Burned; compare: boolean; count?: string }) {
  const [turned, setTurned] = useState(false);
  const shown = useMemo(() => (turned ? inverted(p.root) : heavy(p.root)), [p.root, turned]);
  return <Frames key={String(turned)} {...p} root={shown} turned={turned} turn={() => setTurned(!turned)} />;
}

function Frames({
  root,
  compare,
  count = "xBlocks",
  turned,
  turn,
}: {
  root: Burned;
  compare: boolean;
  count?: string;
  turned: boolean;
  turn: () => void;
}) {
  const box = useRef<HTMLDivElement>(null),
    [width, setWidth] = useState(0),
    [find, setFind] = useState("");
  const [path, setPath] = useState([root]),
    [at, setAt] = useState([root]);
  useEffect(() => {
    setPath([root]);
    setAt([root]);
  }, [root]);
  useEffect(() => {
    const fit = new ResizeObserver(() => setWidth(box.current?.clientWidth ?? 0));
    fit.observe(box.current!);
    return () => fit.disconnect();
  }, []);
  const known = useMemo(() => {
    const m = new Map<Burned, number>();
    weights(root, m);
    return m;
  }, [root]);
  const cells = useMemo(() => laid(path, width, known), [path, width, known]);
  const found = useMemo(() => matching(root, find), [root, find]);
  const now = at[at.length - 1],
    show = (way: Burned[]) => {
      setPath(way);
      setAt(way);
    };
  const told = (n: Burned) =>
    `${f.bytes(n.bytes)}, ${f.percent(n.bytes / Math.max(1, root.bytes), 1)}, ${t(count, f.count(n.blocks))}` +
    (compare ? `, ${t("xBefore", f.bytes(n.before ?? 0))}` : "");
  const deepest = cells.reduce((d, c) => Math.max(d, c.depth), 0);
  return (
    <>
      <div class="controls">
        <input
          type="search"
          value={find}
          placeholder={t("xFind")}
          aria-label={t("xFind")}
          onInput={(e) => setFind(e.currentTarget.value)}
        />
        <label>
          <input type="checkbox" checked={turned} onChange={turn} /> {t("xTurned")}
        </label>
        {path.length > 1 && <button onClick={() => show([root])}>{t("xWhole")}</button>}
        <span class="hint" role="status">
          {find.trim() &&
            t(
              "xFound",
              f.count(found.all.size),
              f.bytes(found.bytes),
              f.percent(found.bytes / Math.max(1, root.bytes), 1),
            )}
        </span>
      </div>
      <p class="flameat" aria-live="polite">
        <code>{whole(now)}</code> {told(now)} <CopyPlace file={now.file} line={now.line} />
      </p>
      <div
        ref={box}
        class="flame"
        tabIndex={0}
        role="application"
        aria-label={t("xFlame")}
        aria-describedby="flamekeys"
        onKeyDown={(e) => press(e, at, setAt, show, root)}
        style={{ height: `${(deepest + 1) * row}px` }}
      >
        {cells.map((c) => {
          const color = paint(c.n, compare),
            kind = `frame${c.n === now ? " now" : ""}${found.all.has(c.n) ? " found" : ""}`;
          return (
            <div
              class={kind}
              title={`${whole(c.n)}: ${told(c.n)}`}
              onMouseEnter={() => setAt(c.path)}
              onClick={() => show(c.path)}
              style={{
                left: `${c.x}px`,
                top: `${c.depth * row}px`,
                width: `${Math.max(1, c.w - 0.5)}px`,
                background: color,
                color: inkOn(color),
              }}
            >
              {c.w > 24 && label(c.n)}
            </div>
          );
        })}
      </div>
      <p id="flamekeys" class="hint">
        {t("flamekeys")}
      </p>
      <Listed top={path[path.length - 1]} compare={compare} />
    </>
  );
}

// press moves the marked frame: down to its largest callee, up to its caller, to those beside it; Enter zooms.
function press(
  e: KeyboardEvent,
  at: Burned[],
  setAt: (p: Burned[]) => void,
  show: (p: Burned[]) => void,
  root: Burned,
) {
  const now = at[at.length - 1],
    beside = at[at.length - 2]?.children ?? [],
    i = beside.indexOf(now);
  const other = (n: Burned | undefined) => n && setAt([...at.slice(0, -1), n]);
  const keys: Record<string, () => void> = {
    ArrowDown: () => now.children?.length && setAt([...at, now.children[0]]),
    ArrowUp: () => at.length > 1 && setAt(at.slice(0, -1)),
    ArrowLeft: () => other(beside[i - 1]),
    ArrowRight: () => other(beside[i + 1]),
    Enter: () => show(at),
    Escape: () => show([root]),
  };
  if (!keys[e.key] || e.ctrlKey || e.metaKey || e.altKey) return;
  e.preventDefault();
  keys[e.key]();
}

function Listed({ top, compare }: { top: Burned; compare: boolean }) {
  const flat: [Burned, number][] = [];
  const walk = (n: Burned, d: number) => {
    if (flat.length < mostRows) {
      flat.push([n, d]);
      n.children?.forEach((c) => walk(c, d + 1));
    }
  };
  walk(top, 0);
  return (
    <details>
      <summary>{t("astable")}</summary>
      <Table
        label={t("xFlame")}
        head={[t("frames"), t("bytes"), ...(compare ? [t("growth")] : [])]}
        numeric={[1, 2]}
        rows={flat.map(([n, d]) => [
          <code class="text" style={{ paddingInlineStart: `${Math.min(d, 24) * 0.6}em` }}>
            {label(n)}
          </code>,
          f.bytes(n.bytes),
          ...(compare ? [f.signed(n.bytes - (n.before ?? 0))] : []),
        ])}
      />
    </details>
  );
}

// FlameGraph is the one that a report carries.
export function FlameGraph({ of }: { of: Flame }) {
  return (
    <section aria-labelledby="flame">
      <h2 id="flame">
        {t("flame")} {of.root && <small>{t("livepeak", f.bytes(of.live), of.device)}</small>}
      </h2>
      {of.error || !of.root ? (
        <p class="state bad">
          <code>{of.file}</code>: {of.error}
        </p>
      ) : (
        <Graph root={of.root} compare={false} />
      )}
    </section>
  );
}
