// Where the bytes are: a treemap of the job at a moment, and the same as a table.
import { hierarchy, treemap, treemapSquarify } from "d3-hierarchy";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Node, type Where, get, of } from "./api";
import { colorOf, inkOn } from "./colors";
import * as f from "./format";
import { held } from "./held";
import { t } from "./i18n";
import { Shown, Table } from "./parts";
import { useLoad } from "./state";

const name = (n: Node) => (n.key === "holder" ? n.text! : [n.key && t(n.key), n.text].filter(Boolean).join(" "));

export function WhereMap({
  id,
  moment,
  pinned,
  live,
  round,
  step,
  unpin,
}: {
  id: string;
  moment: number | null;
  pinned: boolean;
  live: boolean;
  round: number;
  step: number | null;
  unpin: () => void;
}) {
  const where = useLoad<Where>(
    (s) => get(of(id, "where" + (moment ? `?t=${Math.round(moment)}` : "")), s),
    [id, moment, round],
  );
  const at = (held && moment && where.value?.t) || moment; // a report knows some moments only
  const when = at
    ? t("whereat", f.when(at)) + (step ? `, ${t("sStep", f.count(step))}` : "")
    : live
      ? t("wherenow")
      : t("wherepeak");
  return (
    <section aria-labelledby="where">
      <div class="bar">
        <h2 id="where">
          {t("where")} <small>{when}</small>
        </h2>
        {pinned && <button onClick={unpin}>{t("unpin")}</button>}
      </div>
      <Shown of={where}>{(w) => w.root && <Map root={w.root} />}</Shown>
    </section>
  );
}

function Map({ root }: { root: Node }) {
  const box = useRef<HTMLDivElement>(null),
    [width, setWidth] = useState(0);
  useEffect(() => {
    const fit = new ResizeObserver(() => setWidth(box.current?.clientWidth ?? 0));
    fit.observe(box.current!);
    return () => fit.disconnect();
  }, []);
  // a class that holders divide counts by its parts, which add up to it
  const tree = hierarchy(root)
    .sum((n) => (n.children?.length ? 0 : Math.max(0, n.bytes)))
    .sort((a, b) => b.value! - a.value!);
  const height = Math.round(Math.min(420, Math.max(220, width * 0.35)));
  const laid = treemap<Node>()
    .tile(treemapSquarify)
    .size([width, height])
    .paddingTop((d) => (d.depth < 4 && d.depth > 0 && !!d.children ? 19 : 0))
    .paddingInner(1)
    .round(true)(tree);
  const rows = tree.descendants().filter((d) => d.depth > 0 && d.value! > 0);
  return (
    <>
      <div
        ref={box}
        class="treemap"
        style={{ height: `${height}px` }}
        role="img"
        aria-label={`${t("where")}: ${f.bytes(tree.value)}`}
      >
        {width > 0 &&
          laid
            .descendants()
            .filter((d) => d.x1 - d.x0 > 2 && d.y1 - d.y0 > 2 && d.depth > 0)
            .map((d) => <Cell d={d} />)}
      </div>
      {tree.value === 0 && <p class="state">{t("nothing")}</p>}
      <details>
        <summary>{t("astable")}</summary>
        <Table
          label={t("where")}
          head={[t("part"), t("bytes"), t("share")]}
          numeric={[1, 2]}
          rows={rows.map((d) => [
            <span style={{ paddingInlineStart: `${d.depth - 1}em` }}>{name(d.data)}</span>,
            f.bytes(d.value),
            f.percent(d.value! / (tree.value || 1), 1),
          ])}
        />
      </details>
    </>
  );
}

function Cell({ d }: { d: ReturnType<ReturnType<typeof treemap<Node>>> }) {
  const w = d.x1 - d.x0,
    h = d.y1 - d.y0,
    leaf = !d.children,
    color = leaf ? colorOf(d.data.key ?? "") : "";
  const title = `${d
    .ancestors()
    .reverse()
    .slice(1)
    .map((a) => name(a.data))
    .join(" › ")}: ${f.bytes(d.value)}`;
  return (
    <div
      class={leaf ? "cell" : "cell group"}
      title={title}
      style={{
        left: `${d.x0}px`,
        top: `${d.y0}px`,
        width: `${w}px`,
        height: `${h}px`,
        ...(leaf ? { background: color, color: inkOn(color) } : {}),
      }}
    >
      {w > 44 && h > 17 && (
        <span>
          {name(d.data)} <b>{f.bytes(d.value)}</b>
        </span>
      )}
    </div>
  );
}
