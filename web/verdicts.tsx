// Verdicts as cards: what is claimed, its evidence drawn, the source, what to do.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { type Finding, type Peak, type Source, type Verdicts, get, of } from "./api";
import * as f from "./format";
import { t } from "./i18n";
import { sizes } from "./panel";
import { CopyPlace, Verdict } from "./parts";
import { dark, useLoad } from "./state";

export function Cards({ v, id }: { v: Verdicts; id: string }) {
  return (
    <>
      <h2>
        {t("verdicts")} <Verdict value={v.verdict} />
      </h2>
      {v.warnings.map((w) => (
        <p class="state">{w}</p>
      ))}
      {v.findings.length === 0 && <p class="state">{v.missing ? t("nofindings", v.missing) : t("noverdicts")}</p>}
      {v.findings.map((x) => (
        <Card key={`${x.name}:${x.pid}`} x={x} id={id} />
      ))}
      {v.peaks.length > 0 && <h2>{t("peaks")}</h2>}
      {v.peaks.map((p) => (
        <Highest key={`${p.device}:${p.pid}`} p={p} id={id} />
      ))}
    </>
  );
}

// Highest is a peak of one phase of the training: no leak, and what it takes to avoid it.
function Highest({ p, id }: { p: Peak; id: string }) {
  return (
    <article class="card">
      <h3>
        {p.device}{" "}
        <small>
          pid {p.pid}
          {p.rank != null ? `, rank ${p.rank}` : ""} · {p.phase}
        </small>
      </h3>
      <p lang="en">{p.text}</p>
      {p.site && <Excerpt id={id} site={p.site} />}
      <h4>{t("do")}</h4>
      <ul class="advice" lang="en">
        <li>{p.advice}</li>
      </ul>
    </article>
  );
}

function Card({ x, id }: { x: Finding; id: string }) {
  const unit = f.unit(x),
    leak = x.verdict === "leak";
  const facts: [string, preact.ComponentChildren][] = [];
  if (leak) {
    facts.push(
      [t("rate"), `${f.signed(f.rate(x))} / ${unit}`],
      [t("interval"), `${f.bytes(f.mib(x.rate_low))} – ${f.bytes(f.mib(x.rate_high))}`],
      [t("since"), f.count(x.start_step ?? 0)],
    );
  }
  if (x.holder)
    facts.push([
      t("heldby"),
      <>
        <code>{x.holder}</code>
        {x.held && ` (${x.held})`}
      </>,
    ]);
  if (x.site) facts.push([t("created"), <code>{x.site}</code>]);
  if (leak && x.limit)
    facts.push([
      t("runsinto"),
      `${x.limit}${x.time_to_limit_seconds && !x.ended ? `, ${f.span(x.time_to_limit_seconds)}` : ""}${x.time_to_limit_high && !x.ended ? ` (${f.span(x.time_to_limit_low ?? 0)} – ${f.span(x.time_to_limit_high)})` : ""}`,
    ]);
  if (x.reason) facts.push([t("reason"), x.reason]);
  facts.push([t("readings"), f.count(x.readings)]);
  return (
    <article class={`card ${x.verdict}`}>
      <h3>
        <Verdict value={x.verdict} /> {x.name}{" "}
        <small>
          pid {x.pid}
          {x.rank != null ? `, rank ${x.rank}` : ""}
          {leak ? ` · ${x.class}` : ""}
        </small>
      </h3>
      <div class="split">
        <dl class="facts">
          {facts.map(([k, val]) => (
            <div>
              <dt>{k}</dt>
              <dd>{val}</dd>
            </div>
          ))}
        </dl>
        {x.x.length > 1 && <Evidence x={x} />}
      </div>
      {x.evidence.length > 0 && (
        <>
          <h4>{t("evidence")}</h4>
          <ul lang="en">
            {x.evidence.map((e) => (
              <li>{e}</li>
            ))}
          </ul>
        </>
      )}
      {x.site && <Excerpt id={id} site={x.site} />}
      {x.advice.length > 0 && (
        <>
          <h4>{t("do")}</h4>
          <ul class="advice" lang="en">
            {x.advice.map((e) => (
              <li>{e}</li>
            ))}
          </ul>
        </>
      )}
    </article>
  );
}

export function Excerpt({ id, site }: { id: string; site: string }) {
  const source = useLoad<Source>((s) => get(of(id, "source?site=" + encodeURIComponent(site)), s), [id, site]);
  if (source.error) return <p class="hint">{t("nosource", source.error.message)}</p>;
  const s = source.value;
  if (!s || !s.lines.length) return null;
  return (
    <figure class="source">
      <figcaption>
        {t("source")} <code>{s.file}</code> <CopyPlace file={s.file} line={s.line} />
        {s.later && <em> {t("changed")}</em>}
      </figcaption>
      <pre tabIndex={0} aria-label={`${t("source")} ${s.file}`}>
        {s.lines.map((line, i) => (
          <span class={s.first + i === s.line ? "line hit" : "line"}>
            <i aria-hidden="true">{s.first + i}</i>
            {line + "\n"}
          </span>
        ))}
      </pre>
    </figure>
  );
}

const ink = () => (dark.matches ? "#d5dae1" : "#30363d");
const faint = () => (dark.matches ? "#333a44" : "#e3e6ea");

// Evidence draws the readings, and of a leak the line from its onset with its interval.
export function Evidence({ x }: { x: Finding }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const el = box.current!;
    let plot: uPlot | undefined;
    const make = () => {
      plot?.destroy();
      plot = draw(el, x);
    };
    make();
    const fit = new ResizeObserver(() => plot!.setSize({ width: el.clientWidth, height: 190 }));
    fit.observe(el);
    dark.addEventListener("change", make);
    return () => {
      fit.disconnect();
      dark.removeEventListener("change", make);
      plot?.destroy();
    };
  }, [x]);
  const label = `${x.name}: ${f.bytes(x.y[0])} – ${f.bytes(x.y[x.y.length - 1])}, ${t("step")} ${f.count(x.x[0])} – ${f.count(x.x[x.x.length - 1])}`;
  return <div class="evidence" ref={box} role="img" aria-label={label} />;
}

// onset marks the step from which on the memory grows.
function onset(u: uPlot, step: number) {
  const { left, top, width, height } = u.bbox,
    at = u.valToPos(step, "x", true),
    g = u.ctx;
  if (at < left || at > left + width) return;
  g.save();
  g.strokeStyle = g.fillStyle = ink();
  g.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  g.beginPath();
  g.moveTo(at, top);
  g.lineTo(at, top + height);
  g.stroke();
  g.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
  const right = at > left + width * 0.6; // the text stands where there is room
  g.textAlign = right ? "right" : "left";
  g.fillText(t("stSince", f.count(step)), at + (right ? -5 : 5) * devicePixelRatio, top + 14 * devicePixelRatio);
  g.restore();
}

function draw(box: HTMLElement, x: Finding): uPlot {
  const leak = x.verdict === "leak",
    start = x.start_step ?? 0,
    from = x.level - f.rate(x) * (x.end_step - start);
  const line = (rate: number) => x.x.map((s) => (s < start ? null : from + rate * (s - start)));
  // the readings come last: they lie over the line
  const data = [
    x.x,
    ...(leak ? [line(f.rate(x)), line(f.mib(x.rate_low)), line(f.mib(x.rate_high))] : []),
    x.y,
  ] as uPlot.AlignedData;
  const axis = { stroke: ink, grid: { stroke: faint, width: 1 }, ticks: { stroke: faint } };
  const thin = { stroke: "#d55e00", width: 1, dash: [3, 3], points: { show: false } };
  return new uPlot(
    {
      width: box.clientWidth,
      height: 190,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, bind: { dblclick: () => null } },
      // what grows is shown from its onset's level on; a healthy memory from 0, where its steps look as small as they are
      scales: { x: { time: false }, y: leak ? {} : { range: (_, __, max) => [0, Math.max(1, max * 1.06)] } },
      axes: [
        { ...axis, label: t("step"), labelSize: 18, values: (_, at) => at.map((v) => f.count(v)) },
        {
          ...axis,
          size: 76,
          values: (_, at) => at.map((v) => f.bytes(v)),
          splits: (_u, _i, lo, hi) =>
            sizes(hi - lo)
              .map((v) => Math.ceil(lo / (sizes(hi - lo)[1] || 1)) * (sizes(hi - lo)[1] || 1) + v)
              .filter((v) => v <= hi),
        },
      ],
      series: [
        {},
        ...(leak ? [{ stroke: "#d55e00", width: 3, points: { show: false } }, thin, thin] : []),
        { stroke: "#0072b2", width: 1.5, points: { show: x.x.length < 120, size: 4 } },
      ],
      hooks: { draw: leak && x.start_step != null ? [(u) => onset(u, x.start_step!)] : [] },
      bands: leak ? [{ series: [3, 2], fill: "#d55e0033" }] : [],
    },
    data,
    box,
  );
}
