// A flame graph of a moment: frames as wide as what they hold, outermost at the top; a click zooms in.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import * as f from "./format";
import { t } from "./i18n";
import { Shown, Table } from "./parts";
import { type Burned, at } from "./snapapi";
import { get } from "./api";
import { inkOn } from "./colors";
import { useLoad } from "./state";

const row = 20; // px

const label = (n: Burned) => n.file && n.file !== "??" ? `${n.name} ${n.file.slice(n.file.lastIndexOf("/") + 1)}:${n.line}` : n.name;

// weight is what a width stands for: the larger of before and after, frame by frame, so that children fit in.
function weights(n: Burned, known: Map<Burned, number>): number {
  let own = n.bytes, was = n.before ?? 0, sum = 0;
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
    return Math.abs(share) < 0.01 ? "#d7dbe0" : share > 0 ? (share > 0.5 ? "#e8825a" : "#f3c0a6") : share < -0.5 ? "#6aa9d8" : "#b5d5ec";
  }
  let h = 0;
  for (const c of n.file ?? "") h = (h * 31 + c.charCodeAt(0)) >>> 0;
  return ["#f2b880", "#f0c987", "#eaa27a", "#f4d58d", "#e7b06a", "#efbfa0"][h % 6];
}

export function Flame({ shotKey, device, event, against, atEnd }: { shotKey: string; device: number; event: number; against: string; atEnd: boolean }) {
  const q = `flame?device=${device}&event=${event}` + (against && `&against=${encodeURIComponent(against)}&at=${atEnd ? "end" : "peak"}`);
  const graph = useLoad<Burned>((s) => get(at(shotKey, q), s), [shotKey, q]);
  return <Shown of={graph}>{(g) => g.bytes || g.before ? <Graph key={q} root={g} compare={!!against} /> : <p class="state">{t("nothing")}</p>}</Shown>;
}

function Graph({ root, compare }: { root: Burned; compare: boolean }) {
  const box = useRef<HTMLDivElement>(null), [width, setWidth] = useState(0), [path, setPath] = useState<Burned[]>([root]), [find, setFind] = useState("");
  useEffect(() => {
    const fit = new ResizeObserver(() => setWidth(box.current?.clientWidth ?? 0));
    fit.observe(box.current!);
    return () => fit.disconnect();
  }, []);
  const known = useMemo(() => { const m = new Map<Burned, number>(); weights(root, m); return m; }, [root]);
  const top = path[path.length - 1], cells: { n: Burned; x: number; w: number; depth: number; path: Burned[] }[] = [];
  const lay = (n: Burned, x: number, w: number, depth: number, way: Burned[]) => {
    if (w < 1 || cells.length > 4000) return;
    cells.push({ n, x, w, depth, path: way });
    for (const c of n.children ?? []) {
      const mine = w * known.get(c)! / Math.max(1, known.get(n)!);
      lay(c, x, mine, depth + 1, [...way, c]);
      x += mine;
    }
  };
  path.slice(0, -1).forEach((n, i) => cells.push({ n, x: 0, w: width, depth: i, path: path.slice(0, i + 1) }));
  if (width > 0) lay(top, 0, width, path.length - 1, path);
  const deep = cells.reduce((d, c) => Math.max(d, c.depth), 0), wanted = find.toLowerCase();
  const flat: [Burned, number][] = [];
  const walk = (n: Burned, d: number) => { if (flat.length < 300) { flat.push([n, d]); n.children?.forEach((c) => walk(c, d + 1)); } };
  walk(top, 0);
  const tip = (n: Burned) => `${n.name}${n.file ? ` (${n.file}:${n.line})` : ""}\n${f.bytes(n.bytes)}, ${f.percent(n.bytes / Math.max(1, root.bytes), 1)}, ${t("xBlocks", f.count(n.blocks))}` +
    (compare ? `\n${t("xBefore", f.bytes(n.before ?? 0))}` : "");
  return <>
    <div class="controls"><input type="search" value={find} placeholder={t("xFind")} aria-label={t("xFind")} onInput={(e) => setFind(e.currentTarget.value)} />
      {path.length > 1 && <button onClick={() => setPath([root])}>{t("xWhole")}</button>}
      <span class="hint">{f.bytes(root.bytes)}{compare && `, ${t("xBefore", f.bytes(root.before ?? 0))}`}</span></div>
    <div ref={box} class="flame" style={{ height: `${(deep + 1) * row}px` }} role="group" aria-label={t("xFlame")}>
      {cells.map((c) => {
        const color = paint(c.n, compare), found = wanted && `${c.n.name} ${c.n.file ?? ""}`.toLowerCase().includes(wanted);
        const style = { left: `${c.x}px`, top: `${c.depth * row}px`, width: `${Math.max(1, c.w - 0.5)}px`, background: color, color: inkOn(color) };
        return c.w > 24 ? <button class={found ? "fire found" : "fire"} style={style} title={tip(c.n)} onClick={() => setPath(c.path)}>{label(c.n)}</button>
          : <span class={found ? "fire found" : "fire"} style={style} title={tip(c.n)} />;
      })}
    </div>
    <details><summary>{t("astable")}</summary>
      <Table label={t("xFlame")} head={[t("frames"), t("bytes"), ...(compare ? [t("growth")] : [])]} numeric={[1, 2]} rows={flat.map(([n, d]) =>
        [<code class="text" style={{ paddingInlineStart: `${Math.min(d, 24) * 0.6}em` }}>{label(n)}</code>, f.bytes(n.bytes), ...(compare ? [f.signed(n.bytes - (n.before ?? 0))] : [])])} />
    </details>
  </>;
}
