// A session's page: the sentence that says how it stands, and its views.
import { useEffect, useState } from "preact/hooks";
import { type About, type Config, type News, type Verdicts, get, listen, of } from "./api";
import { Cost } from "./cost";
import { Eval } from "./eval";
import { FlameGraph } from "./flame";
import * as f from "./format";
import { held } from "./held";
import { lang, t } from "./i18n";
import { Native } from "./native";
import { Overview } from "./overview";
import { Shown, Verdict } from "./parts";
import { SQL } from "./sql";
import { Stacks } from "./stacks";
import { type Place, link, useLoad } from "./state";
import { Tensors } from "./tensors";
import { Cards } from "./verdicts";

const judgeEvery = 15000; // ms; a judgement reads the whole series
const describeEvery = 10000; // ms; processes come and go

export function Session({ place, config }: { place: Place; config: Config }) {
  const { id } = place;
  const about = useLoad<About>((s) => get(of(id, "about"), s), [id]);
  const verdicts = useLoad<Verdicts>((s) => get(of(id, "verdicts"), s), [id]);
  const { news, lost } = useNews(id, !held && (about.value?.end.live ?? false), () => { about.again(); verdicts.again(); });
  const live = news ? news.live : about.value?.end.live ?? false;
  useEffect(() => {
    if (!live || held) return;
    const timers = [setInterval(() => document.hidden || verdicts.again(), judgeEvery),
      setInterval(() => document.hidden || about.again(), describeEvery)];
    return () => timers.forEach(clearInterval);
  }, [live]);
  return <Shown of={about}>{(a) => {
    if (held) return <Whole a={a} v={verdicts.value} live={live} place={place} />;
    const views = ["overview", "verdicts", "tensors", "native", "stacks", "sql", "cost", ...(config.allow_eval && live ? ["eval"] : [])];
    const view = views.includes(place.view) ? place.view : "overview";
    return <>
      <Head a={a} v={verdicts.value} news={news} live={live} />
      {lost && live && <p class="state bad" role="status">{t("lostlive")}</p>}
      {!live && <p class="state over" role="status">{t("ended", a.end.known ? a.end.text : t("endedunseen"))}</p>}
      <nav class="tabs" aria-label={a.name}>{views.map((v) =>
        <a href={link(id, v)} aria-current={v === view ? "page" : undefined}>{t(v)}</a>)}</nav>
      {view === "overview" && <Overview a={a} v={verdicts.value} news={news} live={live} place={place} />}
      {view === "verdicts" && <Shown of={verdicts}>{(v) => <Cards v={v} id={id} />}</Shown>}
      {view === "tensors" && <Tensors id={id} live={live} place={place} />}
      {view === "native" && <Native id={id} />}
      {view === "stacks" && <Stacks id={id} live={live} />}
      {view === "sql" && <SQL id={id} place={place} />}
      {view === "cost" && <Cost id={id} />}
      {view === "eval" && <Eval id={id} processes={a.processes} />}
    </>;
  }}</Shown>;
}

// Whole is a report: a page to read from top to bottom, and to print. What a live trainer must be asked for is not in it.
function Whole({ a, v, live, place }: { a: About; v?: Verdicts; live: boolean; place: Place }) {
  const views = ["overview", "verdicts", "tensors", ...(held!.flame ? ["flame"] : []), "cost"];
  useEffect(() => { if (views.includes(place.view) && place.view !== "overview") document.getElementById("v-" + place.view)?.scrollIntoView(); }, [place.view]);
  return <>
    <Head a={a} v={v} live={live} />
    <p class="state over">{live ? t("written", f.moment(new Date(held!.written / 1000).toISOString())) : t("ended", a.end.known ? a.end.text : t("endedunseen"))}</p>
    <nav class="tabs" aria-label={a.name}>{views.map((x) => <a href={link(a.id, x)}>{t(x)}</a>)}</nav>
    <div id="v-overview"><Overview a={a} v={v} live={live} place={place} /></div>
    <div id="v-verdicts">{v && <Cards v={v} id={a.id} />}</div>
    <div id="v-tensors"><Tensors id={a.id} live={live} place={place} /></div>
    {held!.flame && <div id="v-flame"><FlameGraph of={held!.flame} /></div>}
    <div id="v-cost"><Cost id={a.id} /></div>
  </>;
}

// useNews listens to the server until the session's end is final: what tells of it is recorded a moment after it was seen.
function useNews(id: string, live: boolean, ended: () => void) {
  const [news, setNews] = useState<News>();
  const [lost, setLost] = useState(false);
  const watching = news ? !news.final : live;
  useEffect(() => {
    if (!watching) return;
    let over = false;
    const stop = listen(of(id, "live"), (kind, data) => {
      if (kind !== "news") return setLost(true);
      const n: News = JSON.parse(data);
      setLost(false);
      setNews(n);
      if (n.final) stop();
      if (n.final || !n.live && !over) ended();
      over = !n.live;
    }, () => setLost(true));
    return stop;
  }, [id, watching]);
  return { news, lost };
}

function Head({ a, v, news, live }: { a: About; v?: Verdicts; news?: News; live: boolean }) {
  return <div class="head">
    <h1>{a.name} {live && !held && <span class="chip live">● {t("live")}</span>}</h1>
    <p class="sentence" role="status"><Verdict value={v?.verdict} /> {sentence(a, v, news, live)}</p>
    <p class="meta"><code>{(a.command ?? []).join(" ")}</code><span>{a.host}</span><span>{f.moment(a.started)}</span>{a.snapshot && <a href={`#/f/${encodeURIComponent("s-" + a.id)}`}>{t("xShot")}</a>}</p>
  </div>;
}

// sentence says in one line how the session stands.
export function sentence(a: About, v: Verdicts | undefined, news: News | undefined, live: boolean): string {
  const parts: string[] = [];
  const leak = v?.findings.find((x) => x.verdict === "leak");
  if (leak) {
    parts.push(leak.by_time ? t("sLeakTime", f.bytes(f.rate(leak))) : t("sLeak", f.bytes(f.rate(leak)), f.count(leak.start_step)));
    if (leak.holder) parts.push(t("sHeld", leak.holder));
    if (live && leak.limit && leak.time_to_limit_seconds && leak.time_to_limit_seconds < 30 * 86400) {
      parts.push(t("sDies", f.clock((news?.to ?? a.to) + leak.time_to_limit_seconds * 1e6, false)));
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
