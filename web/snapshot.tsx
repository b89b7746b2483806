// The page of a memory snapshot: its blocks over time, a flame graph of any moment, its segments, and what it has more
// than another one.
import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "./api";
import { type Drawn, type Sight, uses } from "./boxdraw";
import { BoxView, type Chosen, heightened, whole, within, zoomed } from "./boxes";
import { Graph } from "./flame";
import * as f from "./format";
import { t } from "./i18n";
import { Busy, Failed, Shown, Table, cell } from "./parts";
import { type Block, type Device, type Diff, type Moment, type Segments, type Shot, at, rest, shot } from "./snapapi";
import { dark, useLoad } from "./state";
import type { Burned, Source, Trouble } from "./api";
import { heldShot } from "./held";

const askEvery = 250; // ms, while a file is read
const views = ["xTimeline", "xFlame", "xSegments", "xDiff"] as const;
const names: Record<(typeof views)[number], string> = {
  xTimeline: "time",
  xFlame: "flame",
  xSegments: "segments",
  xDiff: "diff",
};

function spot() {
  const [path, query] = location.hash.replace(/^#\/f\//, "").split("?"),
    [key, view] = path.split("/");
  return { key: decodeURIComponent(key), view: view || "time", params: new URLSearchParams(query || "") };
}

export function link(key: string, view = "time", params?: URLSearchParams): string {
  const q = params?.toString();
  return `#/f/${encodeURIComponent(key)}/${view}${q ? "?" + q : ""}`;
}

function change(values: Record<string, string | number | null>) {
  const p = spot();
  for (const [k, v] of Object.entries(values)) v == null ? p.params.delete(k) : p.params.set(k, String(v));
  history.replaceState(null, "", link(p.key, p.view, p.params));
}

// Snapshot asks until a file was read, and says how far it is.
export function Snapshot() {
  const { key } = spot();
  const [state, set] = useState<Shot>(),
    [error, setError] = useState<Trouble>(),
    [round, setRound] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const look = (again: boolean) =>
      shot(key, again, stop.signal).then(
        (s) => {
          set(s);
          setError(undefined);
          if (s.state === "waiting" || s.state === "reading") timer = setTimeout(() => look(false), askEvery);
        },
        (e) => {
          if (e.name !== "AbortError") setError(e);
        },
      );
    look(round > 0);
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [key, round]);
  const again = () => {
    set(undefined);
    setError(undefined);
    setRound((n) => n + 1);
  };
  if (error)
    return (
      <>
        <h1>{t("xShot")}</h1>
        <Failed error={error} again={again} />
      </>
    );
  if (!state) return <Busy />;
  if (state.state === "failed") {
    return (
      <>
        <h1>{state.name}</h1>
        <div class="state bad" role="alert">
          <p>
            <strong>{t("failed")}</strong> {state.failure?.message}
          </p>
          {state.failure?.hint && <p class="hint">{state.failure.hint}</p>}
          {state.origin !== "upload" && <button onClick={again}>{t("retry")}</button>}
        </div>
      </>
    );
  }
  if (state.state !== "ready") {
    const share = state.total > 0 ? Math.min(1, state.read / state.total) : 0;
    return (
      <>
        <h1>{state.name}</h1>
        <p class="state busy" role="status">
          {t("xReading", f.bytes(state.read), f.bytes(state.total))}
          <progress
            class="reading"
            value={share}
            max={1}
            aria-label={t("xReading", f.bytes(state.read), f.bytes(state.total))}
          />
        </p>
      </>
    );
  }
  return <Ready s={state} again={again} />;
}

function Ready({ s }: { s: Shot; again: () => void }) {
  const place = spot(),
    told = s.devices.filter((d) => d.events > 0),
    list = told.length ? told : s.devices;
  const d = list.find((x) => String(x.device) === place.params.get("d")) ?? list[0];
  const view = views.find((v) => names[v] === place.view) ?? "xTimeline";
  const kept = new URLSearchParams();
  for (const k of ["d", "e", "against"]) if (place.params.get(k)) kept.set(k, place.params.get(k)!);
  if (!d)
    return (
      <>
        <h1>{s.name}</h1>
        <p class="state">{t("xEmpty")}</p>
      </>
    );
  const names_ = (x: Device) => x.name || t("xDevice", x.device);
  return (
    <>
      <section class="head">
        <h1>{s.name}</h1>
        <p class="sentence">
          {d.events
            ? t(
                "xSentence",
                f.bytes(d.peak_bytes),
                f.count(Math.max(0, d.peak) + d.first),
                f.bytes(d.peak_reserved),
                f.bytes(d.end_bytes),
              )
            : t("xNoHistory", f.bytes(d.end_bytes))}
        </p>
        <p class="meta">
          <span>{s.format}</span>
          <span>{f.bytes(s.read)}</span>
          <span>{t("xCounts", f.count(d.events), f.count(d.allocs))}</span>
          {d.to > 0 && <span>{f.span((d.to - d.from) / 1e6)}</span>}
          {d.ooms.length > 0 && <span class="chip leak">OOM {d.ooms.length}</span>}
        </p>
        {s.cut && (
          <p class="state warn" role="status">
            {t("xCut", s.cut)}
          </p>
        )}
        {d.events > 0 && !d.before_known && <p class="state warn">{t("xBeforeUnknown")}</p>}
      </section>
      {list.length > 1 && (
        <div class="controls">
          <label>
            {t("device")}{" "}
            <select
              value={d.device}
              onChange={(e) => {
                location.hash = link(s.key, place.view, new URLSearchParams({ d: e.currentTarget.value }));
              }}
            >
              {list.map((x) => (
                <option value={x.device}>
                  {names_(x)}, {f.bytes(x.peak_bytes)}
                </option>
              ))}
            </select>
          </label>
        </div>
      )}
      <nav class="tabs" aria-label={s.name}>
        {views
          .filter((v) => !heldShot || v !== "xDiff")
          .map((v) => (
            <a href={link(s.key, names[v], kept)} aria-current={v === view ? "page" : undefined}>
              {t(v)}
            </a>
          ))}
      </nav>
      {view === "xTimeline" &&
        (d.events ? <Timeline key={d.device} s={s} d={d} /> : <p class="state">{t("xNoHistoryHint")}</p>)}
      {view === "xFlame" && <FlameView key={d.device} s={s} d={d} />}
      {view === "xSegments" && <SegmentMap s={s} d={d} />}
      {view === "xDiff" && <DiffView s={s} />}
    </>
  );
}

function initial(d: Device): { sight: Sight; chosen: Chosen; bySite: boolean } {
  const p = spot().params,
    n = (k: string, other: number) => {
      const v = p.get(k);
      return v !== null && isFinite(+v) ? +v : other;
    };
  const all = whole(d),
    event = n("e", -1),
    block = n("b", -1);
  return {
    sight: within(
      { from: n("from", all.from), to: n("to", all.to), low: n("low", all.low), high: n("high", all.high) },
      d,
    ),
    chosen: { event: Math.min(event, d.events - 1), block: block >= 0 ? block : null },
    bySite: p.get("by") === "line",
  };
}

function Timeline({ s, d }: { s: Shot; d: Device }) {
  const [{ sight, chosen, bySite }, set] = useState(() => initial(d));
  const [hover, setHover] = useState<{ x: Drawn | null; event: number }>({ x: null, event: -1 });
  const writer = useRef(0),
    all = whole(d);
  const look = (v: Sight) => set((o) => ({ ...o, sight: within(v, d) }));
  useEffect(() => {
    // not at each frame: browsers allow some hundred changes of the address in half a minute
    clearTimeout(writer.current);
    writer.current = setTimeout(
      () =>
        change({
          d: d.device,
          from: sight.from > 0 ? Math.round(sight.from) : null,
          to: sight.to < all.to ? Math.round(sight.to) : null,
          low: sight.low > 0 ? Math.round(sight.low) : null,
          high: sight.high < all.high ? Math.round(sight.high) : null,
          e: chosen.event >= 0 ? chosen.event : null,
          b: chosen.block,
          by: bySite ? "line" : null,
        }),
      200,
    );
    return () => clearTimeout(writer.current);
  }, [sight, chosen, bySite]);
  return (
    <section aria-labelledby="boxes">
      <h2 id="boxes">
        {t("xBoxesTitle")} <small>{t("xAcross")}</small>
      </h2>
      <div class="controls">
        <button onClick={() => look(zoomed(sight, 0.5))}>{t("zoomin")}</button>
        <button onClick={() => look(zoomed(sight, 2))}>{t("zoomout")}</button>
        <button onClick={() => look(heightened(sight, 0.5))}>{t("xTaller")}</button>
        <button onClick={() => look(heightened(sight, 2))}>{t("xFlatter")}</button>
        <button onClick={() => look(all)}>{t("whole")}</button>
        <button onClick={() => set((o) => ({ ...o, chosen: { event: d.peak, block: null } }))}>{t("xPeak")}</button>
        <label>
          {t("xColors")}{" "}
          <select
            value={bySite ? "line" : "use"}
            onChange={(e) => {
              const line = e.currentTarget.value === "line";
              set((o) => ({ ...o, bySite: line }));
            }}
          >
            <option value="use">{t("xByUse")}</option>
            <option value="line">{t("xByLine")}</option>
          </select>
        </label>
      </div>
      {!bySite && (
        <ul class="legend">
          {uses.map(([name, color]) => (
            <li>
              <svg width="10" height="10" aria-hidden="true">
                <rect width="10" height="10" fill={color} />
              </svg>
              {t("use " + name)}
            </li>
          ))}
          <li>
            <svg width="10" height="10" aria-hidden="true">
              <rect width="10" height="10" class="resting" />
            </svg>
            {t("xRest")}
          </li>
        </ul>
      )}
      <ul class="legend">
        <li>
          <svg width="22" height="10" aria-hidden="true">
            <path d="M0 5h22" stroke="currentColor" />
          </svg>
          {t("xLevel")}
        </li>
        <li>
          <svg width="22" height="10" aria-hidden="true">
            <path d="M0 5h22" stroke="#d55e00" stroke-width="2" stroke-dasharray="5 3" />
          </svg>
          {t("xReserved")}
        </li>
      </ul>
      <BoxView
        shotKey={s.key}
        device={d}
        sight={sight}
        bySite={bySite}
        renderer={spot().params.get("renderer")}
        chosen={chosen}
        onSight={look}
        onChoose={(c) => set((o) => ({ ...o, chosen: c }))}
        onHover={(x, event) => setHover((o) => (o.x?.id === x?.id && o.event === event ? o : { x, event }))}
      />
      <Pointed s={s} d={d} hover={hover} />
      <p class="hint" id="boxkeys">
        {t("xKeys")}
      </p>
      {chosen.block != null && <BlockCard s={s} d={d} id={chosen.block} />}
      {chosen.event >= 0 ? (
        <MomentCard
          s={s}
          d={d}
          event={chosen.event}
          pick={(id) => set((o) => ({ ...o, chosen: { ...o.chosen, block: id } }))}
        />
      ) : (
        <p class="state">{t("xChoose")}</p>
      )}
    </section>
  );
}

// Pointed says in a line what is under the pointer. It asks for the block when the pointer rests.
function Pointed({ s, d, hover }: { s: Shot; d: Device; hover: { x: Drawn | null; event: number } }) {
  const [block, setBlock] = useState<Block>(),
    id = hover.x && hover.x.id !== rest ? hover.x.id : null;
  useEffect(() => {
    if (id == null) return;
    const stop = new AbortController();
    const timer = setTimeout(
      () => get<Block>(at(s.key, `block?device=${d.device}&id=${id}`), stop.signal).then(setBlock, () => {}),
      60,
    );
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [id]);
  if (hover.event < 0) return <p class="pointed hint">{t("xPoint")}</p>;
  const known = block && block.id === id ? block : null;
  return (
    <p class="pointed">
      {t("xEvent", f.count(hover.event + d.first))}
      {hover.x && (
        <>
          : <b>{f.bytes(known?.bytes ?? hover.x.bytes)}</b>{" "}
          {id == null ? (
            t("xRest")
          ) : known ? (
            <>
              <code>{known.site}</code> {t("use " + known.use)}
            </>
          ) : (
            "…"
          )}
        </>
      )}
    </p>
  );
}

const since = (d: Device, us: number) => (us && d.from ? f.span((us - d.from) / 1e6) : "–");

function BlockCard({ s, d, id }: { s: Shot; d: Device; id: number }) {
  const block = useLoad<Block>(
    (signal) => get(at(s.key, `block?device=${d.device}&id=${id}`), signal),
    [s.key, d.device, id],
  );
  return (
    <article class="card">
      <Shown of={block}>
        {(b) => {
          const own = b.frames?.find((x) => x.own);
          return (
            <>
              <h3>
                {f.bytes(b.bytes)} <small>{t("use " + b.use)}</small>
              </h3>
              <dl class="facts">
                <div>
                  <dt>{t("created")}</dt>
                  <dd>
                    <code>{b.site}</code>
                  </dd>
                </div>
                <div>
                  <dt>{t("xMade")}</dt>
                  <dd>{b.made ? `${t("xEvent", f.count(b.from + d.first))}, ${since(d, b.began)}` : t("xOlder")}</dd>
                </div>
                <div>
                  <dt>{t("xFreed")}</dt>
                  <dd>{b.freed ? `${t("xEvent", f.count(b.to + d.first))}, ${since(d, b.ended)}` : t("xStays")}</dd>
                </div>
                {b.addr && (
                  <div>
                    <dt>{t("xAddress")}</dt>
                    <dd>
                      <code>{b.addr}</code>
                    </dd>
                  </div>
                )}
                {b.attached?.length && (
                  <div>
                    <dt>{t("xAttached")}</dt>
                    <dd>
                      {b.attached.map((x) => (
                        <div>
                          <code>{x}</code>
                        </div>
                      ))}
                    </dd>
                  </div>
                )}
              </dl>
              {own && !heldShot && <FrameSource s={s} frame={own.frame} />}
              {b.frames?.length ? (
                <details open>
                  <summary>
                    {t("frames")} ({b.frames.length})
                  </summary>
                  <div class="scroll" tabIndex={0} role="group" aria-label={t("frames")}>
                    <ol class="stackframes">
                      {b.frames.map((x) => (
                        <li class={x.own ? "own" : ""}>
                          <code>{x.name}</code> <small>{x.file && x.file !== "??" ? `${x.file}:${x.line}` : ""}</small>
                        </li>
                      ))}
                    </ol>
                  </div>
                </details>
              ) : (
                <p class="hint">{t("xNoStack")}</p>
              )}
            </>
          );
        }}
      </Shown>
    </article>
  );
}

function FrameSource({ s, frame }: { s: Shot; frame: number }) {
  const source = useLoad<Source & { why?: string }>(
      (signal) => get(at(s.key, `source?frame=${frame}`), signal),
      [s.key, frame],
    ),
    v = source.value;
  if (source.error || v?.why) return <p class="hint">{t("nosource", source.error?.message ?? v!.why!)}</p>;
  if (!v?.lines?.length) return null;
  return (
    <figure class="source">
      <figcaption>
        {t("source")} <code>{v.file}</code>
        {v.later && <em> {t("changed")}</em>}
      </figcaption>
      <pre tabIndex={0} aria-label={`${t("source")} ${v.file}`}>
        {v.lines.map((line, i) => (
          <span class={v.first + i === v.line ? "line hit" : "line"}>
            <i aria-hidden="true">{v.first + i}</i>
            {line + "\n"}
          </span>
        ))}
      </pre>
    </figure>
  );
}

function MomentCard({ s, d, event, pick }: { s: Shot; d: Device; event: number; pick: (id: number) => void }) {
  const m = useLoad<Moment>(
    (signal) => get(at(s.key, `moment?device=${d.device}&event=${event}`), signal),
    [s.key, d.device, event],
  );
  const q = new URLSearchParams({ d: String(d.device), e: String(event) });
  return (
    <section aria-labelledby="moment">
      <div class="bar">
        <h2 id="moment">
          {t("xMoment", f.count((m.value?.event ?? event) + d.first))}{" "}
          <small>{m.value ? since(d, m.value.t) : ""}</small>
        </h2>
        {!heldShot && <a href={link(s.key, "flame", q)}>{t("xFlameHere")}</a>}
      </div>
      <Shown of={m}>
        {(v) => (
          <>
            <p>
              {t("xLive", f.bytes(v.live), f.bytes(v.reserved), f.count(v.count))}{" "}
              {v.uses.map((u) => `${t("use " + u.name)} ${f.bytes(u.bytes)}`).join(", ")}
            </p>
            <Table
              label={t("xLargest")}
              head={[t("bytes"), t("xUse"), t("site"), t("xMade"), t("xStack")]}
              numeric={[0]}
              rows={v.blocks.map((b) => [
                cell(f.bytes(b.bytes), b.bytes),
                t("use " + b.use),
                cell(<code class="text">{b.site}</code>, b.site),
                b.made ? since(d, b.began) : t("xOlder"),
                <button
                  class="link"
                  onClick={() => pick(b.id)}
                  aria-label={`${t("frames")}: ${b.site}, ${f.bytes(b.bytes)}`}
                >
                  {t("xStack")}
                </button>,
              ])}
            />
          </>
        )}
      </Shown>
    </section>
  );
}

function useOthers(s: Shot) {
  return useLoad<Shot[]>((signal) => get("f", signal), [s.key]).value?.filter((x) => x.key !== s.key) ?? [];
}

// usePair asks for the other file too, which may have to be read first.
function usePair(key: string): Shot | undefined {
  const [other, set] = useState<Shot>();
  useEffect(() => {
    set(undefined);
    if (!key) return;
    const stop = new AbortController();
    let timer = 0;
    const look = () =>
      shot(key, false, stop.signal).then(
        (x) => {
          set(x);
          if (x.state === "waiting" || x.state === "reading") timer = setTimeout(look, askEvery);
        },
        () => {},
      );
    look();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [key]);
  return other;
}

function Against({ s, value, pick }: { s: Shot; value: string; pick: (key: string) => void }) {
  const others = useOthers(s);
  return (
    <label>
      {t("against")}{" "}
      <select value={value} onChange={(e) => pick(e.currentTarget.value)}>
        <option value="">–</option>
        {others.map((x) => (
          <option value={x.key}>
            {x.name} ({x.key})
          </option>
        ))}
      </select>
    </label>
  );
}

function FlameView({ s, d }: { s: Shot; d: Device }) {
  const p = spot().params,
    n = p.get("e");
  const [event, setEvent] = useState(
    n !== null && isFinite(+n) ? Math.min(Math.max(-1, +n), d.events - 1) : d.events ? d.peak : -1,
  );
  const [against, setAgainst] = useState(p.get("against") ?? ""),
    other = usePair(against);
  useEffect(() => change({ d: d.device, e: event, against: against || null }), [event, against]);
  const last = d.events - 1;
  return (
    <section aria-labelledby="flame">
      <h2 id="flame">
        {t("xFlame")} <small>{event >= 0 ? t("xMoment", f.count(event + d.first)) : ""}</small>
      </h2>
      <div class="controls">
        {d.events > 0 && (
          <>
            <button onClick={() => setEvent(d.peak)}>{t("xPeak")}</button>
            <button onClick={() => setEvent(last)}>{t("xEnd")}</button>
            {!heldShot && (
              <label>
                {t("xEventLabel")}{" "}
                <input
                  type="number"
                  min={d.first}
                  max={d.first + last}
                  value={event + d.first}
                  onChange={(e) => setEvent(Math.max(0, Math.min(last, Number(e.currentTarget.value) - d.first)))}
                />
              </label>
            )}
          </>
        )}
        {!heldShot && <Against s={s} value={against} pick={setAgainst} />}
      </div>
      {against && <p class="hint">{t(event === last ? "xAgainstEnd" : "xAgainstPeak")}</p>}
      {against && other?.state !== "ready" ? (
        other?.state === "failed" ? (
          <p class="state bad">{other.failure?.message}</p>
        ) : (
          <Busy />
        )
      ) : (
        <Flame shotKey={s.key} device={d.device} event={event} against={against} atEnd={event === last} />
      )}
    </section>
  );
}

function Flame({
  shotKey,
  device,
  event,
  against,
  atEnd,
}: {
  shotKey: string;
  device: number;
  event: number;
  against: string;
  atEnd: boolean;
}) {
  const q =
    `flame?device=${device}&event=${event}` +
    (against && `&against=${encodeURIComponent(against)}&at=${atEnd ? "end" : "peak"}`);
  const graph = useLoad<Burned>((s) => get(at(shotKey, q), s), [shotKey, q]);
  return (
    <Shown of={graph}>
      {(g) =>
        g.bytes || g.before ? <Graph key={q} root={g} compare={!!against} /> : <p class="state">{t("nothing")}</p>
      }
    </Shown>
  );
}

function SegmentMap({ s, d }: { s: Shot; d: Device }) {
  const map = useLoad<Segments>((signal) => get(at(s.key, `segments?device=${d.device}`), signal), [s.key, d.device]);
  return (
    <section aria-labelledby="segments">
      <h2 id="segments">
        {t("xSegments")} <small>{t("xAtEnd")}</small>
      </h2>
      <Shown of={map}>
        {(m) =>
          m.segments.length === 0 ? (
            <p class="state">{t("xNoSegments")}</p>
          ) : (
            <>
              <p>
                {t("xSegmentText", f.bytes(m.bytes), f.bytes(m.free_bytes), f.count(m.holes), f.bytes(m.largest_hole))}
                {m.rounding_bytes + m.rest_bytes > 0 &&
                  ` ${t("xLostText", f.bytes(m.rounding_bytes), f.bytes(m.rest_bytes))}`}
              </p>
              <ul class="legend">
                {["used", "rounding", "rest", "pending", "free"].map((k) => (
                  <li>
                    <svg width="10" height="10" aria-hidden="true">
                      <rect width="10" height="10" class={"run-" + k} />
                    </svg>
                    {t("seg " + k)}
                  </li>
                ))}
              </ul>
              <SegmentRows m={m} />
              {m.left > 0 && <p class="hint">{t("more", f.count(m.left))}</p>}
              <details>
                <summary>{t("astable")}</summary>
                <Table
                  label={t("xSegments")}
                  head={[t("xAddress"), t("bytes"), t("used"), t("xHoles"), t("xLargestHole"), t("type")]}
                  numeric={[1, 2, 3, 4]}
                  rows={m.segments.map((g) => [
                    cell(<code>{g.address}</code>, g.address),
                    cell(f.bytes(g.bytes), g.bytes),
                    cell(f.bytes(g.used), g.used),
                    cell(f.count(g.holes), g.holes),
                    cell(f.bytes(g.largest_hole), g.largest_hole),
                    `${g.kind}${g.expandable ? ", expandable" : ""}`,
                  ])}
                />
              </details>
            </>
          )
        }
      </Shown>
    </section>
  );
}

const segmentRow = 16; // px
const segmentInks: Record<string, string> = {
  used: "#0072b2",
  rounding: "#d55e00",
  rest: "#cc79a7",
  pending: "#e69f00",
};
const segmentInk = (state: string) => segmentInks[state] ?? (dark.matches ? "#3a424e" : "#d7dbe0");

// SegmentRows draws a row a segment, as long as the largest is wide.
function SegmentRows({ m }: { m: Segments }) {
  const canvas = useRef<HTMLCanvasElement>(null),
    [told, tell] = useState("");
  useEffect(() => {
    const c = canvas.current!,
      draw = () => {
        const w = c.clientWidth,
          ratio = Math.min(2, devicePixelRatio),
          g = c.getContext("2d")!;
        c.width = w * ratio;
        c.height = m.segments.length * segmentRow * ratio;
        g.scale(ratio, ratio);
        m.segments.forEach((s, i) =>
          s.runs.forEach((r) => {
            const scale = w / m.segments[0].bytes,
              wide = r.bytes * scale;
            g.fillStyle = segmentInk(r.state);
            g.fillRect(r.at * scale, i * segmentRow, Math.max(wide - (wide > 4 ? 1 : 0), 0.5), segmentRow - 3);
          }),
        );
      };
    const fit = new ResizeObserver(draw);
    fit.observe(c);
    dark.addEventListener("change", draw);
    return () => {
      fit.disconnect();
      dark.removeEventListener("change", draw);
    };
  }, [m]);
  const point = (e: PointerEvent) => {
    const r = canvas.current!.getBoundingClientRect(),
      s = m.segments[Math.floor((e.clientY - r.top) / segmentRow)];
    const at = ((e.clientX - r.left) / r.width) * m.segments[0].bytes,
      run = s?.runs.find((x) => x.at <= at && at < x.at + x.bytes);
    tell(
      s
        ? `${s.address}: ${f.bytes(s.bytes)}${run ? `; ${f.bytes(run.bytes)} ${t("seg " + run.state)} ${run.site ?? ""}` : ""}`
        : "",
    );
  };
  return (
    <>
      <p class="pointed">{told || <span class="hint">{t("xPointSegment")}</span>}</p>
      <div class="segments" tabIndex={0} role="group" aria-label={t("xSegments")}>
        <canvas
          ref={canvas}
          style={{ height: `${m.segments.length * segmentRow}px` }}
          role="img"
          onPointerMove={point}
          aria-label={t(
            "xSegmentText",
            f.bytes(m.bytes),
            f.bytes(m.free_bytes),
            f.count(m.holes),
            f.bytes(m.largest_hole),
          )}
        />
      </div>
    </>
  );
}

function DiffView({ s }: { s: Shot }) {
  const [against, setAgainst] = useState(spot().params.get("against") ?? ""),
    other = usePair(against);
  useEffect(() => change({ against: against || null }), [against]);
  return (
    <section aria-labelledby="diff">
      <h2 id="diff">{t("xDiff")}</h2>
      <div class="controls">
        <Against s={s} value={against} pick={setAgainst} />
      </div>
      {!against ? (
        <p class="state">{t("xPickOther")}</p>
      ) : other?.state === "failed" ? (
        <p class="state bad">{other.failure?.message}</p>
      ) : other?.state === "ready" ? (
        <Deltas s={s} against={against} name={other.name} />
      ) : (
        <Busy />
      )}
    </section>
  );
}

function Deltas({ s, against, name }: { s: Shot; against: string; name: string }) {
  const diff = useLoad<Diff[]>(
    (signal) => get(at(s.key, "diff?against=" + encodeURIComponent(against)), signal),
    [s.key, against],
  );
  return (
    <Shown of={diff}>
      {(list) => (
        <>
          {list.map((d) =>
            (["peak", "end"] as const).map((k) => {
              const v = d[k],
                rows = [
                  ...(v.categories ?? []).map((x) => [t("use " + x.name), x] as const),
                  ...(v.sites ?? []).map((x) => [x.name, x] as const),
                ];
              return (
                <>
                  <h3>
                    {t("xDevice", d.device_b)}, {t(k === "peak" ? "xPeak" : "xEnd")}:{" "}
                    {f.signed(v.requested_bytes[1] - v.requested_bytes[0])}{" "}
                    <small>
                      {f.bytes(v.requested_bytes[0])} → {f.bytes(v.requested_bytes[1])}
                    </small>
                  </h3>
                  {rows.length === 0 ? (
                    <p class="state">{t("xSame")}</p>
                  ) : (
                    <Table
                      label={`${t("xDiff")} ${k}`}
                      head={[t("site"), t("growth"), name, s.name, t("xBlocksHead")]}
                      numeric={[1, 2, 3, 4]}
                      rows={rows.map(([what, x]) => [
                        cell(
                          <code class="text">
                            {what}
                            {x.name_a ? ` (${x.name_a})` : ""}
                          </code>,
                          what,
                        ),
                        cell(f.signed(x.changed_bytes), x.changed_bytes),
                        cell(f.bytes(x.bytes[0]), x.bytes[0]),
                        cell(f.bytes(x.bytes[1]), x.bytes[1]),
                        cell(`${f.count(x.blocks[0])} → ${f.count(x.blocks[1])}`, x.blocks[1] - x.blocks[0]),
                      ])}
                    />
                  )}
                  {v.sites_not_listed > 0 && <p class="hint">{t("more", f.count(v.sites_not_listed))}</p>}
                </>
              );
            }),
          )}
        </>
      )}
    </Shown>
  );
}
