// What every thread is doing, when asked.
import { type Stacks as Answer, type Thread, get, of } from "./api";
import { t } from "./i18n";
import { Shown } from "./parts";
import { useLoad } from "./state";

export function Stacks({ id, live }: { id: string; live: boolean }) {
  if (!live)
    return (
      <>
        <h2>{t("stacks")}</h2>
        <p class="state">{t("nolive")}</p>
      </>
    );
  return <Living id={id} />;
}

function Living({ id }: { id: string }) {
  const stacks = useLoad<Answer>((s) => get(of(id, "stacks"), s), [id]);
  return (
    <>
      <div class="bar">
        <h2>{t("stacks")}</h2>
        <button onClick={stacks.again} disabled={stacks.busy}>
          {t("refresh")}
        </button>
      </div>
      <Shown of={stacks}>
        {(a) => (
          <>
            {a.processes.map((p) => (
              <section aria-label={`pid ${p.pid}`}>
                <h3>
                  pid {p.pid}
                  {p.rank >= 0 ? `, rank ${p.rank}` : ""}{" "}
                  <small>
                    <code>{p.argv}</code>
                  </small>
                </h3>
                {p.error && <p class="state bad">{p.error.message}</p>}
                {(p.threads ?? []).map((x, i) => (
                  <One x={x} open={i === 0} />
                ))}
                {p.left > 0 && <p class="hint">{t("more", p.left)}</p>}
              </section>
            ))}
          </>
        )}
      </Shown>
    </>
  );
}

function One({ x, open }: { x: Thread; open: boolean }) {
  const frames = x.frames ?? [];
  return (
    <details class="thread" open={open}>
      <summary>
        {t("thread")} {x.tid} <strong>{x.name || x.comm}</strong> {x.state && <span class="chip">{x.state}</span>}{" "}
        <small>{x.kernel}</small>
      </summary>
      {frames.length === 0 ? (
        <p class="hint">{t("idlethread")}</p>
      ) : (
        <ol aria-label={t("frames")}>
          {frames.map((fr, i) => (
            <>
              {x.cut > 0 && i === x.cut_at && <li class="hint">{t("more", x.cut)}</li>}
              <li>
                <code>
                  <b>{fr.func}</b> {fr.file}:{fr.line}
                </code>
              </li>
            </>
          ))}
        </ol>
      )}
    </details>
  );
}
