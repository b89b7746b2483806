// How memory ran out: the minute around it, and who held most.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { type Ran, get, of } from "./api";
import { series as colors } from "./colors";
import * as f from "./format";
import { t } from "./i18n";
import { sizes } from "./panel";
import { Shown, Table, cell } from "./parts";
import { dark, useLoad } from "./state";

export function RanOut({ id }: { id: string }) {
  const ran = useLoad<Ran>((s) => get(of(id, "postmortem"), s), [id]);
  return (
    <section aria-labelledby="ran">
      <h2 id="ran">{t("ran")}</h2>
      <Shown of={ran}>
        {({ what, minute }) =>
          what && (
            <>
              <p class="state bad">
                <strong>
                  {f.when(Date.parse(what.ts) * 1000)} {what.event}
                </strong>{" "}
                <span class="text">{what.text || what.summary}</span>
              </p>
              <dl class="facts">
                {(
                  [
                    ["askedfor", what.requested_bytes],
                    ["hole", what.largest_hole_bytes],
                    ["limit", what.limit_bytes],
                  ] as [string, number | null][]
                )
                  .filter(([, v]) => v != null)
                  .map(([k, v]) => (
                    <div>
                      <dt>{t(k)}</dt>
                      <dd>{f.bytes(v)}</dd>
                    </div>
                  ))}
              </dl>
              {minute && minute.length > 0 && (
                <Minute lines={minute} limit={what.limit_bytes} end={Date.parse(what.ts) * 1000} />
              )}
              {what.largest && what.largest.length > 0 && (
                <Table
                  label={t("heldmost")}
                  head={[t("heldmost"), "pid", t("bytes"), t("grewby")]}
                  numeric={[1, 2, 3]}
                  rows={what.largest.map((g) => [
                    cell(
                      <>
                        <span class="text">{g.name}</span> <small>{g.scope}</small>
                      </>,
                      g.name,
                    ),
                    g.pid || "",
                    cell(f.bytes(g.bytes), g.bytes),
                    cell(f.signed(g.grown_bytes), g.grown_bytes),
                  ])}
                />
              )}
            </>
          )
        }
      </Shown>
    </section>
  );
}

type Line = NonNullable<Ran["minute"]>[number];

// table joins the lines, whose readings have moments of their own.
function table(lines: Line[], end: number): uPlot.AlignedData {
  return uPlot.join(lines.map((l) => [l.t.map((v) => (v - end) / 1e6), l.bytes] as uPlot.AlignedData));
}

function Minute({ lines, limit, end }: { lines: Line[]; limit: number | null; end: number }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const el = box.current!;
    let plot: uPlot | undefined;
    const make = () => {
      plot?.destroy();
      const ink = dark.matches ? "#d5dae1" : "#30363d",
        faint = dark.matches ? "#333a44" : "#e3e6ea";
      const axis = { stroke: ink, grid: { stroke: faint, width: 1 }, ticks: { stroke: faint } };
      plot = new uPlot(
        {
          width: el.clientWidth,
          height: 220,
          legend: { show: false },
          cursor: { show: false },
          scales: { x: { time: false }, y: { range: (_, __, max) => [0, Math.max(max, limit ?? 0) * 1.06] } },
          axes: [
            { ...axis, values: (_, at) => at.map((v) => `${v} s`) },
            {
              ...axis,
              size: 78,
              values: (_, at) => at.map((v) => f.bytes(v)),
              splits: (_u, _i, _lo, max) => sizes(max),
            },
          ],
          series: [
            {},
            ...lines.map((_, i) => ({
              stroke: colors[i % colors.length],
              width: 1.5,
              points: { show: false },
              spanGaps: true,
            })),
          ],
          hooks: { draw: [(u) => edges(u, limit, ink)] },
        },
        table(lines, end),
        el,
      );
    };
    make();
    const fit = new ResizeObserver(() => plot!.setSize({ width: el.clientWidth, height: 220 }));
    fit.observe(el);
    dark.addEventListener("change", make);
    return () => {
      fit.disconnect();
      dark.removeEventListener("change", make);
      plot?.destroy();
    };
  }, [lines]);
  return (
    <figure class="panel">
      <figcaption>
        <strong>{t("minute")}</strong>
        <ul class="legend">
          {lines.map((l, i) => (
            <li>
              <svg width="10" height="10" aria-hidden="true">
                <rect width="10" height="10" fill={colors[i % colors.length]} />
              </svg>
              <span class="text">{l.name}</span>
            </li>
          ))}
        </ul>
      </figcaption>
      <div class="plot" ref={box} role="img" aria-label={t("minute")} />
    </figure>
  );
}

// edges are the limit, and the moment at which it was met.
function edges(u: uPlot, limit: number | null, ink: string) {
  const g = u.ctx,
    { left, top, width, height } = u.bbox,
    line = (x0: number, y0: number, x1: number, y1: number) => {
      g.beginPath();
      g.moveTo(x0, y0);
      g.lineTo(x1, y1);
      g.stroke();
    };
  g.save();
  g.lineWidth = 1.5 * devicePixelRatio;
  g.strokeStyle = ink;
  line(u.valToPos(0, "x", true), top, u.valToPos(0, "x", true), top + height);
  if (limit) {
    g.strokeStyle = "#d55e00";
    g.setLineDash([8 * devicePixelRatio, 5 * devicePixelRatio]);
    line(left, u.valToPos(limit, "y", true), left + width, u.valToPos(limit, "y", true));
  }
  g.restore();
}
