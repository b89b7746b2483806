// An answer as a chart: the first column across, if it is numbers or times, and the other numbers above it.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { series as colors } from "./colors";
import * as f from "./format";
import { t } from "./i18n";
import type { Answer, Unit } from "./sql";
import { dark } from "./state";

const maxSeries = 7; // as many as there are colours

const isTime = (v: unknown) => typeof v === "string" && /^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(v);

// told writes a value in its column's unit.
function told(v: number, unit: Unit): string {
  if (unit === "bytes") return f.bytes(v);
  if (unit === "MB") return f.bytes(f.mib(v));
  if (unit === "ns") return f.span(v / 1e9);
  return Number(v.toPrecision(6)).toLocaleString();
}

export function Chart({ a, unit }: { a: Answer; unit: (column: string) => Unit }) {
  const box = useRef<HTMLDivElement>(null);
  const numbers = a.columns
    .map((_, i) => i)
    .filter((i) => a.rows.some((r) => r[i] != null) && a.rows.every((r) => r[i] == null || typeof r[i] === "number"));
  const time = a.columns.findIndex((_, i) => isTime(a.rows[0][i]));
  const across = time >= 0 ? time : numbers.length > 1 ? numbers[0] : -1;
  const above = numbers.filter((i) => i !== across).slice(0, maxSeries);
  // the axis has a unit where all that is drawn has the same
  const units = above.map((i) => unit(a.columns[i])),
    common: Unit = units.every((u) => u === units[0]) ? (units[0] ?? "") : "";
  useEffect(() => {
    const el = box.current;
    if (!above.length || !el) return;
    const value = (r: unknown[], i: number) =>
      across < 0 ? i : time >= 0 ? Date.parse(String(r[time])) / 1000 : (r[across] as number);
    const points = a.rows
      .map((r, i) => [value(r, i), r] as [number, unknown[]])
      .filter(([x]) => Number.isFinite(x))
      .sort((p, q) => p[0] - q[0]);
    const data = [
      points.map((p) => p[0]),
      ...above.map((c) => points.map((p) => p[1][c] as number | null)),
    ] as uPlot.AlignedData;
    let plot: uPlot | undefined;
    const make = () => {
      plot?.destroy();
      const ink = dark.matches ? "#d5dae1" : "#30363d",
        faint = dark.matches ? "#333a44" : "#e3e6ea";
      const axis = { stroke: ink, grid: { stroke: faint, width: 1 }, ticks: { stroke: faint } };
      plot = new uPlot(
        {
          width: el.clientWidth,
          height: 320,
          scales: { x: { time: time >= 0 } },
          axes: [
            { ...axis, ...(time >= 0 ? {} : { values: (_: uPlot, at: number[]) => at.map((v) => f.count(v)) }) },
            {
              ...axis,
              // as wide as its longest label
              size: (u, values) => {
                u.ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
                return 20 + Math.max(30, ...(values ?? []).map((v) => u.ctx.measureText(v).width / devicePixelRatio));
              },
              values: (_, at) => at.map((v) => told(v, common)),
            },
          ],
          series: [
            { label: across < 0 ? "#" : a.columns[across] },
            ...above.map((c, i) => ({
              label: a.columns[c],
              stroke: colors[i],
              width: 1.5,
              value: (_: uPlot, v: number | null) => (v == null ? "NULL" : told(v, units[i])),
              points: { show: points.length < 200 },
            })),
          ],
        },
        data,
        el,
      );
    };
    make();
    const fit = new ResizeObserver(() => plot!.setSize({ width: el.clientWidth, height: 320 }));
    fit.observe(el);
    dark.addEventListener("change", make);
    return () => {
      fit.disconnect();
      dark.removeEventListener("change", make);
      plot?.destroy();
    };
  }, [a]);
  if (!above.length) return <p class="state">{t("nochart")}</p>;
  return <div class="chart" ref={box} role="group" aria-label={t("chart")} />;
}
