// An answer as a chart: the first column across, if it is numbers or times, and the other numbers above it.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { series as colors } from "./colors";
import * as f from "./format";
import { t } from "./i18n";
import type { Answer } from "./sql";
import { dark } from "./state";

const maxSeries = 7; // as many as there are colours

const isTime = (v: unknown) => typeof v === "string" && /^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(v);

export function Chart({ a }: { a: Answer }) {
  const box = useRef<HTMLDivElement>(null);
  const numbers = a.columns
    .map((_, i) => i)
    .filter((i) => a.rows.some((r) => r[i] != null) && a.rows.every((r) => r[i] == null || typeof r[i] === "number"));
  const time = a.columns.findIndex((_, i) => isTime(a.rows[0][i]));
  const across = time >= 0 ? time : numbers.length > 1 ? numbers[0] : -1;
  const above = numbers.filter((i) => i !== across).slice(0, maxSeries);
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
            { ...axis, size: 90, values: (_, at) => at.map((v) => Number(v.toPrecision(6)).toLocaleString()) },
          ],
          series: [
            { label: across < 0 ? "#" : a.columns[across] },
            ...above.map((c, i) => ({
              label: a.columns[c],
              stroke: colors[i],
              width: 1.5,
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
