// The timeline with what goes along it: where the bytes are at the marked moment, events, processes.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type About, type Columns, type Event, type News, type Verdicts, get, of } from "./api";
import { Events, rare } from "./events";
import * as f from "./format";
import { held } from "./held";
import { t } from "./i18n";
import { type Clock, type Fan, Panel, stepAt } from "./panel";
import { Failed, Shown, Table, cell, copy } from "./parts";
import { RanOut } from "./ranout";
import { firstOf, focusOf, keyOf, sources } from "./sources";
import { type Place, change, useLatest, useLoad } from "./state";
import { Strip } from "./strip";
import { type Source, Tile, type View } from "./tiles";
import { WhereMap } from "./where";

const settle = 60; // ms that a view must stand still before finer data are asked for

export function Overview({
  a,
  v,
  news,
  live,
  place,
}: {
  a: About;
  v?: Verdicts;
  news?: News;
  live: boolean;
  place: Place;
}) {
  const end = Math.max(news?.to ?? 0, a.to),
    all = useMemo(() => sources(a), [a]);
  const number = (k: string) => Number(place.params.get(k)) || null;
  const [fixed, setFixed] = useState<View | null>(() => {
    const from = number("from"),
      to = number("to");
    return from && to && to > from ? { from, to } : null;
  });
  const [following, setFollowing] = useState(live && !number("to"));
  const [pin, setPin] = useState<number | null>(() => number("t"));
  const [hover, setHover] = useState<number | null>(null);
  const [bySteps, setBySteps] = useState(place.params.get("by") === "step");
  const [future, setFuture] = useState(true);
  const [chosen, setChosen] = useState<string[]>(() => place.params.get("show")?.split(",").filter(Boolean) ?? []);
  const focus = focusOf(a, v, place.params.get("rank"));
  const shown = chosen.length ? all.filter((s) => chosen.includes(keyOf(s))) : firstOf(all, focus);
  const fan = useMemo(() => (future && live && v ? fanOf(v, end) : null), [future, live, v, end]);
  const aims = (s: Source) => !!fan && s.kind === fan.kind && (s.kind !== "device" || s.device === fan.device);
  const view = viewOf(fixed, following, a.from, end, shown.some(aims) ? fan : null);
  const events = useLoad<Event[]>(
    (s) => get(of(a.id, "events"), s),
    [a.id, live ? Math.floor(end / 1e7) : (news?.final ?? true)],
  );
  const stepping = a.processes.find((p) => p.steps && p.pid === focus) ?? a.processes.find((p) => p.steps);
  const ooms = (events.value ?? []).filter((e) => e.name === "oom" || e.name === "oom_kill").length;
  const marked = useMemo(() => (events.value ?? []).filter(rare), [events.value]);
  const clock = useTrack(a.id, stepping?.pid, view, end);
  const steps = useMemo<Clock | null>(() => clock && { t: clock.t, step: clock.parts.step }, [clock]);
  const zoom = (next: View) => {
    const { view: kept, follow } = bounded(next, a.from, end, live);
    setFixed(kept);
    setFollowing(follow);
  };
  const showAll = () => {
    setFixed(null);
    setFollowing(live);
  };
  useAddress(fixed, following);
  const mark = (moment: number | null) => {
    setPin(moment);
    change({ t: moment == null ? null : Math.round(moment) });
  };
  const cursor = hover ?? pin;
  const late = useSettled(cursor, 150),
    round = live && late == null ? Math.floor(end / 5e6) : 0;
  const step = late != null && steps ? stepAt(steps, late) : null;
  return (
    <>
      <Strip a={a} v={v} now={end} live={live} />
      {ooms > 0 && <RanOut key={ooms} id={a.id} />}
      <section aria-labelledby="timeline">
        <div class="bar">
          <h2 id="timeline">{t("timeline")}</h2>
          <Controls
            {...{ view, end, live, bySteps, future, setFuture, zoom, from: a.from }}
            all={showAll}
            setBySteps={(on) => {
              setBySteps(on);
              change({ by: on ? "step" : null });
            }}
            hasSteps={!!clock?.t.length}
            hasFan={live && !!v && !!fanOf(v, end)}
          />
        </div>
        <Keys view={view} zoom={zoom} end={end} cursor={cursor} setHover={setHover} mark={mark} all={showAll}>
          {shown.map((s) => (
            <Track
              key={keyOf(s)}
              id={a.id}
              source={s}
              view={view}
              end={end}
              cursor={cursor}
              events={marked}
              fan={aims(s) ? fan! : undefined}
              steps={bySteps ? steps : null}
              clock={steps}
              live={live}
              onZoom={zoom}
              onAll={showAll}
              onHover={setHover}
              onPin={mark}
            />
          ))}
        </Keys>
        <details class="panels">
          <summary>{t("panels")}</summary>
          {all.map((s) => {
            const on = shown.includes(s);
            return (
              <label>
                <input
                  type="checkbox"
                  checked={on}
                  onChange={() => {
                    const next = on ? shown.filter((x) => x !== s) : all.filter((x) => x === s || shown.includes(x));
                    setChosen(next.map(keyOf));
                    change({ show: next.map(keyOf).join(",") });
                  }}
                />{" "}
                {s.title}
              </label>
            );
          })}
          {held && held.left_out > 0 && <p class="hint">{t("leftout", held.left_out)}</p>}
        </details>
      </section>
      {useMemo(
        () => (
          <WhereMap
            id={a.id}
            moment={late}
            pinned={pin != null}
            live={live}
            round={round}
            step={step}
            unpin={() => mark(null)}
          />
        ),
        [a.id, late, pin != null, live, round, step],
      )}
      {useMemo(
        () => (
          <>
            <section aria-labelledby="events">
              <h2 id="events">{t("events")}</h2>
              <Shown of={events}>{(list) => <Events list={list} mark={mark} />}</Shown>
            </section>
            <section aria-labelledby="procs">
              <h2 id="procs">{t("processes")}</h2>
              <Table
                label={t("processes")}
                head={["pid", t("role"), "rank", t("peak").split(" ")[0], t("steps"), t("command")]}
                numeric={[0, 3, 4]}
                rows={a.processes.map((p) => [
                  p.pid,
                  p.role,
                  p.rank ?? "",
                  cell(f.bytes(p.peak_rss), p.peak_rss),
                  cell(f.count(p.steps), p.steps),
                  cell(<code class="text">{p.command}</code>, p.command),
                ])}
              />
            </section>
          </>
        ),
        [a, events.value, events.error],
      )}
    </>
  );
}

// useAddress writes the view into the address, not at each frame: browsers allow some hundred changes in half a minute.
function useAddress(fixed: View | null, following: boolean) {
  const first = useRef(true);
  useEffect(() => {
    if (first.current) {
      first.current = false;
      return;
    }
    const kept = following ? null : fixed;
    const timer = setTimeout(
      () => change({ from: kept && Math.round(kept.from), to: kept && Math.round(kept.to) }),
      200,
    );
    return () => clearTimeout(timer);
  }, [fixed?.from, fixed?.to, following]);
}

// viewOf is what the timeline shows: all with room for the forecast, a fixed stretch, or one that goes along.
function viewOf(fixed: View | null, following: boolean, from: number, end: number, fan: Fan | null): View {
  if (!fixed) {
    const length = Math.max(1e6, end - from),
      ahead = fan ? Math.min(fan.mid - end, length * 0.35) : 0;
    return { from, to: from + length + Math.max(0, ahead) };
  }
  if (!following) return fixed;
  return { from: end - (fixed.to - fixed.from), to: end };
}

// bounded keeps a view within the session and not below 10 ms. One that reaches a live end goes along with it.
function bounded(next: View, from: number, end: number, live: boolean): { view: View | null; follow: boolean } {
  const whole = Math.max(1e6, end - from),
    length = Math.min(Math.max(1e4, next.to - next.from), whole * 1.5);
  if (next.to - next.from >= whole * 1.05) return { view: null, follow: live };
  const first = Math.min(Math.max(next.from, from - length * 0.5), end - length * 0.5);
  const follow = live && first + length >= end;
  return { view: { from: first, to: first + length }, follow };
}

interface Placed extends Fan {
  kind: string;
  device: number;
}

// fanOf is where the memory that ends first is going: a leak's own forecast, which the page tells in words too, else the
// one by use alone.
function fanOf(v: Verdicts, end: number): Placed | null {
  let risk = v.risks.filter((r) => r.seconds != null && r.seconds > 0).sort((x, y) => x.seconds! - y.seconds!)[0];
  const leak = v.findings.find((x) => x.verdict === "leak" && x.limit && x.time_to_limit_seconds && !x.ended);
  const of =
    leak &&
    v.risks.find((r) => r.device === (leak.limit!.startsWith("device") ? leak.name.replace(/\D+/g, "") : "host"));
  if (leak && of)
    risk = {
      ...of,
      seconds: leak.time_to_limit_seconds,
      seconds_low: leak.time_to_limit_low,
      seconds_high: leak.time_to_limit_high,
    };
  if (!risk || !risk.total) return null;
  const s = risk.seconds!,
    at = (n: number | null, other: number) => end + (n ?? other) * 1e6;
  return {
    kind: risk.device === "host" ? (risk.limit_kind === "cgroup" ? "job" : "host") : "device",
    device: Number(risk.device) || 0,
    from: end,
    level: risk.used,
    limit: risk.total,
    low: at(risk.seconds_low, s),
    mid: end + s * 1e6,
    high: at(risk.seconds_high, s * 2),
  };
}

function Controls(p: {
  view: View;
  end: number;
  from: number;
  live: boolean;
  bySteps: boolean;
  future: boolean;
  hasSteps: boolean;
  hasFan: boolean;
  setBySteps: (on: boolean) => void;
  setFuture: (on: boolean) => void;
  zoom: (v: View) => void;
  all: () => void;
}) {
  const length = p.view.to - p.view.from,
    move = (by: number) => p.zoom({ from: p.view.from + by * length, to: p.view.to + by * length });
  const scale = (by: number) =>
    p.zoom({ from: p.view.from + (length * (1 - by)) / 2, to: p.view.to - (length * (1 - by)) / 2 });
  const last = (s: number) => p.zoom({ from: p.end - s * 1e6, to: p.end }),
    whole = (p.end - p.from) / 1e6;
  const [copied, setCopied] = useState(false);
  return (
    <div class="controls" role="toolbar" aria-label={t("timeline")}>
      <button onClick={p.all}>{t("whole")}</button>
      {whole > 120 && <button onClick={() => last(60)}>{t("lastmin")}</button>}
      {whole > 1200 && <button onClick={() => last(600)}>{t("lastten")}</button>}
      {whole > 7200 && <button onClick={() => last(3600)}>{t("lasthour")}</button>}
      <button aria-label={t("earlier")} onClick={() => move(-0.3)}>
        ←
      </button>
      <button aria-label={t("later")} onClick={() => move(0.3)}>
        →
      </button>
      <button aria-label={t("zoomin")} onClick={() => scale(0.5)}>
        +
      </button>
      <button aria-label={t("zoomout")} onClick={() => scale(2)}>
        −
      </button>
      {p.hasSteps && (
        <label>
          <input type="checkbox" checked={p.bySteps} onChange={(e) => p.setBySteps(e.currentTarget.checked)} />{" "}
          {t("bystep")}
        </label>
      )}
      {p.hasFan && (
        <label>
          <input type="checkbox" checked={p.future} onChange={(e) => p.setFuture(e.currentTarget.checked)} />{" "}
          {t("forecast")}
        </label>
      )}
      {!held && (
        <button
          onClick={async () => {
            await copy(location.href);
            setCopied(true);
            setTimeout(() => setCopied(false), 2000);
          }}
        >
          {copied ? t("copied") : t("copylink")}
        </button>
      )}
    </div>
  );
}

// Keys makes the timeline usable without a mouse.
function Keys(p: {
  view: View;
  end: number;
  cursor: number | null;
  zoom: (v: View) => void;
  setHover: (t: number | null) => void;
  mark: (t: number | null) => void;
  all: () => void;
  children: preact.ComponentChildren;
}) {
  const press = (e: KeyboardEvent) => {
    if (e.ctrlKey || e.metaKey || e.altKey || (e.target as HTMLElement).tagName === "INPUT") return;
    const { view } = p,
      length = view.to - view.from,
      step = length / 100,
      from = p.cursor ?? Math.min(p.end, view.to);
    const shift = (by: number) => p.zoom({ from: view.from + by * length, to: view.to + by * length });
    const scale = (by: number) => p.zoom({ from: from - (from - view.from) * by, to: from + (view.to - from) * by });
    const acts: Record<string, () => void> = {
      ArrowLeft: () => shift(-0.15),
      ArrowRight: () => shift(0.15),
      "+": () => scale(0.6),
      "=": () => scale(0.6),
      "-": () => scale(1 / 0.6),
      "0": p.all,
      Home: p.all,
      "[": () => p.setHover(Math.max(view.from, from - step)),
      "]": () => p.setHover(Math.min(view.to, from + step)),
      Enter: () => p.cursor != null && p.mark(p.cursor),
      Escape: () => {
        p.setHover(null);
        p.mark(null);
      },
    };
    if (!acts[e.key]) return;
    e.preventDefault();
    acts[e.key]();
  };
  return (
    <div class="tracks" tabIndex={0} role="group" aria-label={t("timeline")} aria-describedby="keys" onKeyDown={press}>
      {p.children}
      <p id="keys" class="hint">
        {t("keys")}
      </p>
    </div>
  );
}

// useTile has a track's data for the view; news and moves ask for what is missing once the view has settled.
function useTile(id: string, source: Source | null, view: View, end: number) {
  const [, redraw] = useState(0),
    [error, setError] = useState<Error | null>(null);
  const tile = useMemo(() => source && new Tile(id, source), [id, source && keyOf(source)]);
  useEffect(() => () => tile?.close(), [tile]);
  const first = useRef(true),
    latest = useLatest({ view, end });
  useEffect(() => {
    if (!tile) return;
    const go = (): Promise<void> =>
      tile.load(latest.current.view, innerWidth, latest.current.end).then((news) => {
        setError(null);
        if (!news) return;
        redraw((n) => n + 1);
        if (tile.short(latest.current.view, innerWidth, latest.current.end)) void go(); // it has moved on meanwhile
      }, setError);
    if (first.current) {
      first.current = false;
      void go();
      return;
    }
    if (tile.short(view, innerWidth, end)) {
      void go();
      return;
    } // a view that moves on must not wait until it rests
    const timer = setTimeout(go, settle);
    return () => clearTimeout(timer);
  }, [tile, view.from, view.to, end]);
  return { data: tile?.data ?? null, error };
}

function useTrack(id: string, pid: number | undefined, view: View, end: number): Columns | null {
  const source = useMemo(() => (pid ? { kind: "floors", pid, title: "" } : null), [pid]);
  return useTile(id, source, view, end).data;
}

function Track(
  p: Omit<Parameters<typeof Panel>[0], "data" | "title" | "lines"> & { id: string; source: Source; end: number },
) {
  const { data, error } = useTile(p.id, p.source, p.view, p.end);
  if (error && !data) return <Failed error={error as never} />;
  return <Panel {...p} title={p.source.title} data={data} lines={p.source.kind === "floors"} />;
}

// useSettled is a value that has not changed for a while.
function useSettled<T>(value: T, ms: number): T {
  const [settled, set] = useState(value),
    latest = useLatest(value);
  useEffect(() => {
    const timer = setTimeout(() => set(latest.current), ms);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
