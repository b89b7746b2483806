// A flame graph of bytes by stack: the outermost frames on top, a click or Enter zooms in.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Flame, FlameNode } from "./api";
import * as f from "./format";
import { t } from "./i18n";
import { Table } from "./parts";

const row = 18; // px
const deepest = 60; // rows that are drawn below the zoomed one
const palette = ["#e69f00", "#f0c05a", "#d98f2b", "#f3d08a", "#e8b04b"]; // black reads on all of them

interface Placed { node: FlameNode; path: FlameNode[]; x: number; w: number; depth: number }

// placed lays out what is below the zoomed frame; those above it take the whole width.
function placed(path: FlameNode[], width: number): Placed[] {
  const list: Placed[] = [], top = path[path.length - 1];
  path.slice(0, -1).forEach((node, i) => list.push({ node, path: path.slice(0, i + 1), x: 0, w: width, depth: i }));
  const lay = (node: FlameNode, trail: FlameNode[], x: number, w: number, depth: number) => {
    list.push({ node, path: trail, x, w, depth });
    if (depth > path.length + deepest) return;
    for (const c of node.c ?? []) {
      const wide = w * c.b / Math.max(1, node.b);
      if (wide >= 1) lay(c, [...trail, c], x, wide, depth + 1);
      x += wide;
    }
  };
  lay(top, path, 0, width, path.length - 1);
  return list;
}

export function FlameGraph({ of }: { of: Flame }) {
  return <section aria-labelledby="flame"><h2 id="flame">{t("flame")} {of.root && <small>{t("livepeak", f.bytes(of.live), of.device)}</small>}</h2>
    {of.error || !of.root ? <p class="state bad"><code>{of.file}</code>: {of.error}</p> : <Graph root={of.root} />}</section>;
}

// count names what a node's number counts.
export function Graph({ root, count = "blocks" }: { root: FlameNode; count?: string }) {
  const box = useRef<HTMLDivElement>(null), [width, setWidth] = useState(0);
  const [path, setPath] = useState([root]), [at, setAt] = useState([root]);
  useEffect(() => {
    const fit = new ResizeObserver(() => setWidth(box.current?.clientWidth ?? 0));
    fit.observe(box.current!);
    return () => fit.disconnect();
  }, []);
  const list = width ? placed(path, width) : [], now = at[at.length - 1];
  const press = (e: KeyboardEvent) => {
    const up = at[at.length - 2], beside = up?.c ?? [], i = beside.indexOf(now);
    const to: Record<string, () => FlameNode[] | null> = {
      ArrowDown: () => now.c?.length ? [...at, now.c[0]] : null, ArrowUp: () => up ? at.slice(0, -1) : null,
      ArrowLeft: () => beside[i - 1] ? [...at.slice(0, -1), beside[i - 1]] : null,
      ArrowRight: () => beside[i + 1] ? [...at.slice(0, -1), beside[i + 1]] : null,
      Enter: () => { setPath(at); return null; }, Escape: () => { setPath([root]); return [root]; },
    };
    if (!to[e.key]) return;
    e.preventDefault();
    const next = to[e.key]();
    if (next) setAt(next);
  };
  return <>
    <p class="flameat" aria-live="polite"><code>{now.n}</code> {f.bytes(now.b)} ({f.percent(now.b / root.b, 1)}), {t(count, f.count(now.k))}</p>
    <div ref={box} class="flame" tabIndex={0} role="application" aria-label={t("flame")} aria-describedby="flamekeys" onKeyDown={press}
      style={{ height: `${row * (1 + Math.max(0, ...list.map((p) => p.depth)))}px` }}>
      {list.map((p) => <div class={p.node === now ? "frame now" : "frame"} title={`${p.node.n}: ${f.bytes(p.node.b)}`}
        style={{ left: `${p.x}px`, top: `${p.depth * row}px`, width: `${Math.max(1, p.w - 1)}px`, background: shade(p.node.n) }}
        onMouseEnter={() => setAt(p.path)} onClick={() => { setPath(p.path); setAt(p.path); }}>{p.w > 40 && p.node.n}</div>)}
    </div>
    <p id="flamekeys" class="hint">{t("flamekeys")}</p>
    <details><summary>{t("astable")}</summary><Table label={t("flame")} head={[t("site"), t("bytes"), t("count")]} numeric={[1, 2]}
      rows={own(root).slice(0, 50).map((x) => [<code class="text">{x.n}</code>, f.bytes(x.b), f.count(x.k)])} /></details>
  </>;
}

function shade(name: string): string {
  let n = 7;
  for (let i = 0; i < name.length; i++) n = (n * 31 + name.charCodeAt(i)) >>> 0;
  return palette[n % palette.length];
}

// own are the innermost frames, with what they allocated by themselves.
function own(root: FlameNode): { n: string; b: number; k: number }[] {
  const by = new Map<string, { n: string; b: number; k: number }>();
  const visit = (x: FlameNode) => {
    const below = x.c ?? [], b = x.b - below.reduce((s, c) => s + c.b, 0), k = x.k - below.reduce((s, c) => s + c.k, 0);
    const e = by.get(x.n) ?? { n: x.n, b: 0, k: 0 };
    if (b > 0) by.set(x.n, { n: x.n, b: e.b + b, k: e.k + Math.max(0, k) });
    below.forEach(visit);
  };
  visit(root);
  return [...by.values()].sort((a, b) => b.b - a.b);
}
