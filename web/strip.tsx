// The answer at the top: which memory grows, since when, how fast, who holds it, on which line, when it ends, what to do.
import { type About, type Finding, type Source, type Verdicts, get, of } from "./api";
import * as f from "./format";
import { t } from "./i18n";
import { Verdict } from "./parts";
import { useLoad } from "./state";
import { Evidence } from "./verdicts";

export function Strip({ a, v, now, live }: { a: About; v?: Verdicts; now: number; live: boolean }) {
  if (!v) return null;
  const leak = v.findings.find((x) => x.verdict === "leak");
  if (!leak) return <Quiet v={v} live={live} />;
  const more = v.findings.filter((x) => x.verdict === "leak").length - 1;
  return (
    <section class="strip leak" aria-label={t("answer")}>
      <div class="split">
        <div>
          <p class="what">
            <Verdict value="leak" />{" "}
            <strong>
              {leak.rank == null ? t("stWhat", leak.name, leak.pid) : t("stWhatRank", leak.name, leak.rank, leak.pid)}
            </strong>
          </p>
          <dl class="facts">
            <Fact name="grows">
              <strong>{pace(leak)}</strong>
              {leak.start_step != null && `, ${t("stSince", f.count(leak.start_step))}`}
              {`, ${t("stInAll", f.signed(leak.growth_bytes))}`}
            </Fact>
            <Fact name="heldby">
              {leak.holder ? <code>{leak.holder}</code> : t("stNobody")}
              {leak.held && ` (${leak.held})`}
            </Fact>
            {leak.site && <Line id={a.id} cwd={a.cwd} x={leak} />}
            {leak.advice.length > 0 && (
              <Fact name="do">
                <strong lang="en">{leak.advice[0]}</strong>
              </Fact>
            )}
            {leak.limit && <Fact name="ends">{ends(leak, now, live)}</Fact>}
          </dl>
          {more > 0 && <p class="hint">{t("stMore", more)}</p>}
        </div>
        {leak.x.length > 1 && <Evidence x={leak} />}
      </div>
    </section>
  );
}

// Quiet is the strip where nothing leaks: that it is so, or what is missing to say it.
function Quiet({ v, live }: { v: Verdicts; live: boolean }) {
  const of = v.findings[0];
  const why = v.verdict === "healthy" ? of && `${of.name}: ${of.reason}` : v.missing || of?.reason;
  return (
    <section class={`strip ${v.verdict}`} aria-label={t("answer")}>
      <p class="what">
        <Verdict value={v.verdict} />{" "}
        <strong>{t(v.verdict === "healthy" ? "stHealthy" : live ? "stUndecided" : "stTooShort")}</strong>
        {why && <span lang="en"> {why}</span>}
      </p>
    </section>
  );
}

function Fact({ name, children }: { name: string; children: preact.ComponentChildren }) {
  return (
    <div>
      <dt>{t(name)}</dt>
      <dd>{children}</dd>
    </div>
  );
}

// Line is where the memory was made, below the directory in which the command ran, with the source as it stands there.
function Line({ id, cwd, x }: { id: string; cwd: string; x: Finding }) {
  const source = useLoad<Source>((s) => get(of(id, "source?site=" + encodeURIComponent(x.site!)), s), [id, x.site]);
  const s = source.value,
    text = s?.lines[s.line - s.first]?.trim();
  return (
    <Fact name="created">
      <code>{x.site!.startsWith(cwd + "/") ? x.site!.slice(cwd.length + 1) : x.site}</code>
      {x.site_lines > 1 && ` ${t("stLines", x.site_lines)}`}
      {text && (
        <pre class="one">
          <code>{text}</code>
        </pre>
      )}
    </Fact>
  );
}

const pace = (x: Finding) => `${f.signed(f.rate(x))} / ${f.unit(x)}`;

// ends says when what grows meets its limit.
function ends(x: Finding, now: number, live: boolean): string {
  if (x.limit_met) return t("stMet", x.limit!);
  if (!live || x.ended || !x.time_to_limit_seconds) return t("stWould", x.limit!);
  const at = f.when(now + x.time_to_limit_seconds * 1e6, false, now);
  return t("stEnds", f.about(x.time_to_limit_seconds), at, x.limit!);
}
