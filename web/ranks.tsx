// A job on many machines: what each rank holds, by steps, as a heat map; the odd rank is marked, a click opens its session.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Heat, get } from "./api";
import * as f from "./format";
import { t } from "./i18n";
import { Shown, Table, cell } from "./parts";
import { dark, link, useLoad } from "./state";

// ofRank is a session's overview with a rank's memories first: a session may have all ranks of a machine.
const ofRank = (id: string, rank: number) => link(id, "overview", new URLSearchParams({ rank: String(rank) }));

const refreshEvery = 5000; // ms, as the server reads the sessions

// shade goes from blue over grey to orange, or from light to dark blue: apart for any kind of colour vision.
function shade(v: number, deviation: boolean): [number, number, number] {
  const mix = (a: number[], b: number[], s: number) =>
    a.map((x, i) => Math.round(x + (b[i] - x) * s)) as [number, number, number];
  const middle = dark.matches ? [45, 51, 60] : [236, 239, 242];
  if (!deviation) return dark.matches ? mix([24, 38, 58], [140, 205, 255], v) : mix([226, 239, 250], [0, 60, 110], v);
  return v < 0.5 ? mix([0, 114, 178], middle, v * 2) : mix(middle, [213, 94, 0], v * 2 - 1);
}

// marks are at most n round numbers from 0 to before end, equally far apart.
function marks(end: number, n: number): number[] {
  const apart = f.round(end / n);
  return Array.from({ length: Math.ceil(end / apart) }, (_, i) => i * apart);
}

const rankMarks = 12, // as many as a low map has room for
  stepMarks = 6; // and a phone's width

export function Ranks() {
  const [of, setOf] = useState("allocated"),
    [by, setBy] = useState("deviation"),
    [part, setPart] = useState<{ from: number; to: number }>({ from: 0, to: 0 });
  const rows = Math.max(64, Math.min(1000, Math.round(innerHeight * 0.6)));
  const heat = useLoad<Heat>(
    (s) => get(`ranks?of=${of}&by=${by}&from=${part.from}&to=${part.to}&rows=${rows}`, s),
    [of, by, part.from, part.to],
  );
  useEffect(() => {
    const timer = setInterval(() => document.hidden || heat.again(), refreshEvery);
    return () => clearInterval(timer);
  }, []);
  return (
    <Shown of={heat}>
      {(h) => (
        <>
          <div class="bar">
            <h1>{t("rJob", h.job)}</h1>
            <a href="#/all">{t("rSessions")}</a>
          </div>
          <p>{t("rCount", f.count(h.ranks))}</p>
          {h.odd.map((o) => (
            <p class="state bad" role="status" lang="en">
              {o.text} {o.id && <a href={ofRank(o.id, o.rank)}>{t("rOpen", o.rank)}</a>}
            </p>
          ))}
          {h.odd.length === 0 && h.warnings.length === 0 && h.ranks > 0 && <p class="state">{t("rNone")}</p>}
          {h.warnings.map((w) => (
            <p class="hint" lang="en">
              {w}
            </p>
          ))}
          {h.missing.length > 0 && (
            <details class="state warn">
              <summary>{t("rMissing", f.count(h.missing.length))}</summary>
              <ul lang="en">
                {h.missing.slice(0, 200).map((m) => (
                  <li>{m}</li>
                ))}
              </ul>
            </details>
          )}
          <div class="controls">
            <label>
              {t("rShow")}{" "}
              <select value={of} onChange={(e) => setOf(e.currentTarget.value)}>
                <option value="allocated">{t("allocated")}</option>
                <option value="rss">RSS</option>
              </select>
            </label>
            <label>
              {t("xColors")}{" "}
              <select value={by} onChange={(e) => setBy(e.currentTarget.value)}>
                <option value="deviation">{t("rDeviation")}</option>
                <option value="bytes">{t("bytes")}</option>
              </select>
            </label>
            {part.to > 0 && <button onClick={() => setPart({ from: 0, to: 0 })}>{t("whole")}</button>}
          </div>
          {h.rows.length === 0 || h.columns === 0 ? (
            <p class="state">{t("rNothing")}</p>
          ) : (
            <Map h={h} deviation={by === "deviation"} height={rows} first={part.from} zoom={setPart} />
          )}
        </>
      )}
    </Shown>
  );
}

function Map({
  h,
  deviation,
  height,
  first,
  zoom,
}: {
  h: Heat;
  deviation: boolean;
  height: number;
  first: number;
  zoom: (p: { from: number; to: number }) => void;
}) {
  const canvas = useRef<HTMLCanvasElement>(null),
    [at, setAt] = useState<[number, number]>([-1, -1]);
  const cells = atob(h.cells),
    value = (r: number, c: number) => cells.charCodeAt(r * h.columns + c);
  const bytes = (v: number) => h.low + ((v - 1) / 254) * (h.high - h.low);
  useEffect(() => {
    const c = canvas.current!,
      draw = () => {
        c.width = h.columns;
        c.height = h.rows.length;
        const g = c.getContext("2d")!,
          image = g.createImageData(h.columns, h.rows.length);
        for (let i = 0; i < cells.length; i++) {
          const v = cells.charCodeAt(i);
          if (!v) continue;
          const [r, green, b] = shade((v - 1) / 254, deviation);
          image.data.set([r, green, b, 255], 4 * i);
        }
        g.putImageData(image, 0, 0);
      };
    draw();
    dark.addEventListener("change", draw);
    return () => dark.removeEventListener("change", draw);
  }, [h, deviation]);
  const place = (e: MouseEvent): [number, number] => {
    const r = canvas.current!.getBoundingClientRect();
    return [
      Math.floor(((e.clientY - r.top) / r.height) * h.rows.length),
      Math.floor(((e.clientX - r.left) / r.width) * h.columns),
    ];
  };
  const open = (r: number) => {
    // several ranks in a row are opened as a part of the map first
    const row = h.rows[r];
    if (!row) return;
    if (row.count === 1 || row.odd) {
      location.hash = ofRank(row.id, row.rank);
      return;
    }
    const from = first + h.rows.slice(0, r).reduce((n, x) => n + x.count, 0),
      more = 64;
    zoom({ from: Math.max(0, from - more), to: from + row.count + more });
  };
  const key = (e: KeyboardEvent) => {
    const [r, c] = at[0] < 0 ? [0, h.columns - 1] : at;
    const to: Record<string, [number, number]> = {
      ArrowUp: [r - 1, c],
      ArrowDown: [r + 1, c],
      ArrowLeft: [r, c - 1],
      ArrowRight: [r, c + 1],
    };
    if (e.key === "Enter") return open(r);
    if (!to[e.key]) return;
    e.preventDefault();
    setAt([Math.max(0, Math.min(h.rows.length - 1, to[e.key][0])), Math.max(0, Math.min(h.columns - 1, to[e.key][1]))]);
  };
  const row = h.rows[at[0]],
    v = row && at[1] >= 0 && at[1] < h.columns ? value(at[0], at[1]) : 0;
  const css = (c: number[]) => `rgb(${c.join()})`;
  return (
    <>
      <p class="pointed">
        {row ? (
          <>
            {t("rPointed", row.rank, row.node, f.count(at[1] * h.width))}{" "}
            <b>{v ? (deviation ? f.signed : f.bytes)(bytes(v)) : "–"}</b>
            {row.count > 1 && ` ${t("rFor", row.count)}`}
          </>
        ) : (
          <span class="hint keys">{t("rKeys")}</span>
        )}
      </p>
      <div class="heat">
        <span class="axis ranks" aria-hidden="true">
          {marks(h.rows.length, rankMarks).map((i) => (
            <i key={i} style={{ top: `${(100 * (i + 0.5)) / h.rows.length}%` }}>
              {h.rows[i].rank}
            </i>
          ))}
        </span>
        <canvas
          ref={canvas}
          tabIndex={0}
          role="img"
          style={{ height: `${Math.max(160, Math.min(height, h.rows.length * 24))}px` }}
          aria-label={t("rHeat", h.ranks, f.count(h.columns * h.width))}
          onPointerMove={(e) => setAt(place(e))}
          onPointerLeave={() => setAt([-1, -1])}
          onClick={(e) => open(place(e)[0])}
          onKeyDown={key}
        />
        {h.rows.map(
          (r, i) =>
            r.odd && (
              <svg
                class="oddmark"
                key={r.rank}
                width="12"
                height="12"
                aria-hidden="true"
                style={{ top: `calc(${(100 * (i + 0.5)) / h.rows.length}% - 6px)` }}
              >
                <path d="M12 0L0 6l12 6z" fill="#d55e00" />
              </svg>
            ),
        )}
      </div>
      <span class="axis steps" aria-hidden="true">
        {marks(h.columns * h.width, stepMarks).map((step) => (
          <i key={step} style={{ left: `${(100 * step) / (h.columns * h.width)}%` }}>
            {f.count(step)}
          </i>
        ))}
      </span>
      <p class="hint">
        {t("rAxis", f.count(h.width))} {cells.includes("\0") && t("rGap")}{" "}
        <svg class="heatkey" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
          {Array.from({ length: 20 }, (_, i) => (
            <rect x={i * 5} width={5.2} height={10} fill={css(shade(i / 19, deviation))} />
          ))}
        </svg>{" "}
        {(deviation ? f.signed : f.bytes)(h.low)} – {(deviation ? f.signed : f.bytes)(h.high)}
      </p>
      <details>
        <summary>{t("astable")}</summary>
        <Table
          label={t("rHeat", h.ranks, f.count(h.columns * h.width))}
          head={[t("rank"), t("rNode"), t("rAtEnd"), t("sessions")]}
          numeric={[0, 2]}
          rows={h.rows.slice(0, 1000).map((r, i) => {
            let c = h.columns - 1;
            while (c > 0 && !value(i, c)) c--;
            const x = value(i, c);
            return [
              cell(r.count > 1 ? `${r.rank} (${r.count})` : r.rank, r.rank),
              r.node,
              cell(x ? (deviation ? f.signed : f.bytes)(bytes(x)) : "–", x ? bytes(x) : null),
              <a href={ofRank(r.id, r.rank)} aria-label={t("rOpen", r.rank)}>
                {t("rOpen", r.rank)}
              </a>,
            ];
          })}
        />
      </details>
    </>
  );
}
