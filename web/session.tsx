// A session's page: the sentence that says how it stands, and its views.
import { Fragment } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type About, type Config, type News, type Verdicts, get, listen, of } from "./api";
import * as f from "./format";
import { held } from "./held";
import { lang, t } from "./i18n";
import { Failed, Shown, Verdict } from "./parts";
import { type Place, link, useLoad, useParams } from "./state";
import { type Shows, viewsOf } from "./views";

const judgeEvery = 15000; // ms; a judgement reads the whole series
const describeEvery = 10000; // ms; processes come and go

export function Session({ place, config }: { place: Place; config: Config }) {
  const { id } = place;
  const about = useLoad<About>((s) => get(of(id, "about"), s), [id]);
  const verdicts = useLoad<Verdicts>((s) => get(of(id, "verdicts"), s), [id]);
  const { news, lost } = useNews(id, !held && (about.value?.end.live ?? false), () => {
    about.again();
    verdicts.again();
  });
  const live = news ? news.live : (about.value?.end.live ?? false);
  useEffect(() => {
    if (!live || held) return;
    const timers = [
      setInterval(() => document.hidden || verdicts.again(), judgeEvery),
      setInterval(() => document.hidden || about.again(), describeEvery),
    ];
    return () => timers.forEach(clearInterval);
  }, [live]);
  return (
    <Shown of={about}>
      {(a) => {
        const shows: Shows = { a, verdicts, news, live, place, config };
        return held ? <Whole {...shows} /> : <One {...shows} lost={lost} />;
      }}
    </Shown>
  );
}

// One is the page: a view at a time.
function One({ lost, ...s }: Shows & { lost: boolean }) {
  const views = viewsOf(s),
    shown = views.find((v) => v.name === s.place.view) ?? views[0];
  return (
    <>
      <Head {...s} />
      {lost && s.live && (
        <p class="state bad" role="status">
          {t("lostlive")}
        </p>
      )}
      {!s.live && (
        <p class="state over" role="status">
          {ended(s.a)}
        </p>
      )}
      <Tabs a={s.a} names={views.map((v) => v.name)} shown={shown.name} />
      <Fragment key={`${shown.name} ${s.place.round}`}>{shown.show(s)}</Fragment>
    </>
  );
}

// Tabs keep what the address says of each view: who comes back finds it as it was left.
function Tabs({ a, names, shown }: { a: About; names: string[]; shown?: string }) {
  const params = useParams(),
    nav = useRef<HTMLElement>(null);
  // where there is not room for all, the one that is open stands in view
  useEffect(() => {
    const open = nav.current?.querySelector<HTMLElement>("[aria-current]");
    if (open) nav.current!.scrollLeft = open.offsetLeft - (nav.current!.clientWidth - open.offsetWidth) / 2;
  }, [shown]);
  return (
    <nav class="tabs" aria-label={a.name} ref={nav}>
      {names.map((name) => (
        <a href={link(a.id, name, params)} aria-current={name === shown ? "page" : undefined}>
          {t(name)}
        </a>
      ))}
    </nav>
  );
}

// Whole is a report: a page to read from top to bottom, and to print.
function Whole(s: Shows) {
  const views = viewsOf(s),
    first = views[0].name;
  useEffect(() => {
    if (s.place.view !== first) document.getElementById("v-" + s.place.view)?.scrollIntoView();
  }, [s.place.view]);
  return (
    <>
      <Head {...s} />
      <p class="state over">
        {s.live ? t("written", f.moment(new Date(held!.written / 1000).toISOString())) : ended(s.a)}
      </p>
      <Tabs a={s.a} names={views.map((v) => v.name)} />
      {views.map((v) => (
        <div id={"v-" + v.name}>{v.show(s)}</div>
      ))}
    </>
  );
}

const ended = (a: About) => t("ended", a.end.known ? a.end.text : t("endedunseen"));

// useNews listens to the server until the session's end is final: what tells of it is recorded a moment after it was seen.
function useNews(id: string, live: boolean, ended: () => void) {
  const [news, setNews] = useState<News>();
  const [lost, setLost] = useState(false);
  const watching = news ? !news.final : live;
  useEffect(() => {
    if (!watching) return;
    let over = false;
    const stop = listen(
      of(id, "live"),
      (kind, data) => {
        if (kind !== "news") return setLost(true);
        const n: News = JSON.parse(data);
        setLost(false);
        setNews(n);
        if (n.final) stop();
        if (n.final || (!n.live && !over)) ended();
        over = !n.live;
      },
      () => setLost(true),
    );
    return stop;
  }, [id, watching]);
  return { news, lost };
}

function Head({ a, verdicts, news, live }: Shows) {
  const v = verdicts.value;
  return (
    <div class="head">
      <h1>
        {a.name} {live && !held && <span class="chip live">● {t("live")}</span>}
      </h1>
      <p class="sentence" role="status">
        {v ? <Verdict value={v.verdict} /> : <span class="busy">{t("judging", f.count(a.summary.rows))}</span>}{" "}
        {sentence(a, v, news, live)}
      </p>
      {verdicts.error && <Failed error={verdicts.error} again={verdicts.again} />}
      <p class="meta">
        <code>{(a.command ?? []).join(" ")}</code>
        <span>{a.host}</span>
        <span>{f.moment(a.started)}</span>
        {a.snapshot && <a href={`#/f/${encodeURIComponent("s-" + a.id)}`}>{t("xShot")}</a>}
      </p>
    </div>
  );
}

// dies says in how long memory ends, and when: a clock alone would not say on which day.
const dies = (seconds: number, now: number) => t("sDies", f.about(seconds), f.when(now + seconds * 1e6, false, now));

// sentence says in one line how the session stands.
export function sentence(a: About, v: Verdicts | undefined, news: News | undefined, live: boolean): string {
  const parts: string[] = [];
  const leak = v?.findings.find((x) => x.verdict === "leak");
  if (leak) {
    parts.push(
      leak.by_time
        ? t("sLeakTime", f.bytes(f.rate(leak)))
        : t(leak.unit === "step" ? "sLeak" : "sLeakUnit", f.bytes(f.rate(leak)), f.count(leak.start_step), leak.unit),
    );
    if (leak.holder) parts.push(t("sHeld", leak.holder));
    if (live && leak.limit && leak.time_to_limit_seconds && leak.time_to_limit_seconds < 30 * 86400) {
      parts.push(dies(leak.time_to_limit_seconds, news?.to ?? a.to));
    }
  } else if (v?.verdict === "healthy") parts.push(live ? t("sOK") : t("sEndOK"));
  else if (v) parts.push(t("sUndecided", v.missing || v.findings[0]?.reason || ""));
  if (!live && a.end.oom) parts.push(t("sDied"));
  const full = v?.risks.filter((r) => r.total > 0).sort((x, y) => y.used / y.total - x.used / x.total)[0];
  if (live && full) parts.push(t("sOf", f.percent(full.used / full.total), f.bytes(full.total)));
  if (!live && a.summary.peak_rss) parts.push(t("sPeak", f.bytes(a.summary.peak_rss)));
  const step = news?.step || a.step;
  if (step) parts.push(t("sStep", f.count(step)));
  const [comma, stop] = lang() === "en" ? [", ", "."] : ["，", "。"];
  return parts.join(comma) + (parts.length ? stop : "");
}
