// The list of sessions.
import { useCallback, useEffect, useState } from "preact/hooks";
import { type Brief, type Listed, get, of } from "./api";
import * as f from "./format";
import { t } from "./i18n";
import { Shown, Verdict } from "./parts";
import { link, useLoad } from "./state";

const refreshEvery = 5000; // ms; live sessions come and go

export function List() {
  const list = useLoad<{ sessions: Listed[]; unread: string[] }>((s) => get("sessions", s), []);
  const [text, setText] = useState("");
  const [said, setSaid] = useState<Record<string, string>>({}); // verdict and holder of each session, for the search
  const tell = useCallback((id: string, words: string) => {
    setSaid((all) => (all[id] === words ? all : { ...all, [id]: words }));
  }, []);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || list.again(), refreshEvery);
    return () => clearInterval(timer);
  }, []);
  return (
    <>
      <div class="bar">
        <h1>{t("sessions")}</h1>
        <input
          type="search"
          placeholder={t("search")}
          aria-label={t("search")}
          value={text}
          onInput={(e) => setText(e.currentTarget.value)}
        />
      </div>
      <Shown of={list}>
        {(l) => {
          const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
          const found = l.sessions.filter((s) => {
            const all = `${s.id} ${s.name} ${(s.command ?? []).join(" ")} ${s.state} ${said[s.id] ?? ""}`.toLowerCase();
            return wanted.every((w) => all.includes(w));
          });
          return (
            <>
              {l.unread.map((u) => (
                <p class="state bad">{u}</p>
              ))}
              {l.sessions.length === 0 ? (
                <div class="state">
                  <p>{t("nosessions")}</p>
                  <p class="hint">{t("nosessionshint")}</p>
                </div>
              ) : found.length === 0 ? (
                <p class="state">{t("nomatch")}</p>
              ) : (
                <ul class="sessions" aria-label={t("sessions")}>
                  {found.map((s) => (
                    <Row key={s.id} s={s} tell={tell} />
                  ))}
                </ul>
              )}
            </>
          );
        }}
      </Shown>
    </>
  );
}

function Row({ s, tell }: { s: Listed; tell: (id: string, words: string) => void }) {
  // of a finished session nothing changes; of a live one the list is asked again, and each time this too
  const brief = useLoad<Brief>((signal) => get(of(s.id, "brief"), signal), [s.id, s.live ? s.rows : 0]);
  const b = brief.value;
  useEffect(() => {
    if (b) tell(s.id, `${b.verdict ?? ""} ${b.verdict ? t(b.verdict) : ""} ${b.holder ?? ""}`);
  }, [b]);
  return (
    <li class={s.live ? "live" : ""}>
      <a href={link(s.id)}>
        <span class="who">
          <strong>{s.name}</strong> <small>{s.id}</small>
        </span>
        <code class="cmd">{(s.command ?? []).join(" ")}</code>
      </a>
      <dl>
        <div>
          <dt>{t("state")}</dt>
          <dd>
            {s.live ? <span class="chip live">● {s.state === "running" ? t("running") : s.state}</span> : s.state}
          </dd>
        </div>
        <div>
          <dt>{t("verdict")}</dt>
          <dd>
            <Verdict value={b?.verdict} />
          </dd>
        </div>
        {b?.verdict === "leak" && b.rate_mb != null && (
          <div>
            <dt>{t("grows")}</dt>
            <dd>
              <strong>{`${f.signed(f.mib(b.rate_mb))} / ${f.unit({ unit: b.unit ?? "step" })}`}</strong>
            </dd>
          </div>
        )}
        {b?.verdict === "leak" && b.holder && (
          <div class="holder">
            <dt>{t("heldby")}</dt>
            <dd>
              <code>{b.holder}</code>
            </dd>
          </div>
        )}
        {b && b.line.length > 1 && <Spark line={b.line} />}
        <div>
          <dt>{t("peak")}</dt>
          <dd>
            {f.bytes(b?.peak)} / {f.bytes(b?.limit)}
            {b?.peak && b.limit ? (
              <meter aria-label={t("peak")} min={0} max={b.limit} value={b.peak} high={b.limit * 0.85} />
            ) : null}
          </dd>
        </div>
        <div>
          <dt>{t("steps")}</dt>
          <dd>{f.count(b?.steps)}</dd>
        </div>
        {s.ranks && s.ranks.length > 1 && (
          <div>
            <dt>{t("ranks")}</dt>
            <dd>{s.ranks.length}</dd>
          </div>
        )}
        {s.disk_bytes > 0 && (
          <div>
            <dt>{t("disk")}</dt>
            <dd>{f.bytes(s.disk_bytes)}</dd>
          </div>
        )}
        <div>
          <dt>{t("started")}</dt>
          <dd>{f.moment(s.started)}</dd>
        </div>
      </dl>
    </li>
  );
}

const sparkWidth = 120,
  sparkHeight = 32; // px

// Spark is what the largest process held, from 0 to its highest.
function Spark({ line }: { line: number[] }) {
  const top = Math.max(1, ...line),
    x = (i: number) => ((i * sparkWidth) / (line.length - 1)).toFixed(1),
    y = (v: number) => (sparkHeight - 1 - (v / top) * (sparkHeight - 3)).toFixed(1);
  const path = line.map((v, i) => `${i ? "L" : "M"}${x(i)} ${y(v)}`).join("");
  return (
    <div>
      <dt>{t("overtime")}</dt>
      <dd>
        <svg
          class="spark"
          width={sparkWidth}
          height={sparkHeight}
          role="img"
          aria-label={t("sparkof", f.bytes(line[0]), f.bytes(line[line.length - 1]), f.bytes(top))}
        >
          <path class="area" d={`${path}L${sparkWidth} ${sparkHeight}L0 ${sparkHeight}Z`} />
          <path d={path} />
        </svg>
      </dd>
    </div>
  );
}
