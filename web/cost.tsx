// What observing cost, in all and by part, and what was lost.
import { type Cost as Answer, get, of } from "./api";
import * as f from "./format";
import { t } from "./i18n";
import { Shown, Table, cell } from "./parts";
import { useLoad } from "./state";

type Part = Answer["overhead"][number];

export function Cost({ id }: { id: string }) {
  const cost = useLoad<Answer>((s) => get(of(id, "cost"), s), [id]);
  return (
    <Shown of={cost}>
      {(c) => (
        <>
          <section aria-labelledby="cost">
            <h2 id="cost">{t("observing")}</h2>
            {c.overhead.length === 0 ? (
              <p class="state">{t("nothing")}</p>
            ) : (
              <>
                <dl class="facts inall">
                  {c.sides.map((s) => (
                    <Side side={s} budget={s.part === "trainer" ? c.budget : 0} />
                  ))}
                </dl>
                {c.sides.map((s) => (
                  <Parts side={s.part} list={c.overhead.filter((o) => (s.part === "collector") === sampled(o))} />
                ))}
              </>
            )}
          </section>
          <section aria-labelledby="lost">
            <h2 id="lost">{t("lost")}</h2>
            {c.drops.length === 0 ? (
              <p class="state">{t("nolost")}</p>
            ) : (
              <Table
                label={t("lost")}
                head={[t("ring"), t("reason"), t("records")]}
                numeric={[2]}
                rows={c.drops.map((d) => [d.source, d.reason, cell(f.count(d.records), d.records)])}
              />
            )}
          </section>
        </>
      )}
    </Shown>
  );
}

// sampled parts are the collector's; all others run in the trainer.
const sampled = (o: Part) => o.part.startsWith("sampler: ");

const share = (o: Part) => (o.share == null ? "–" : f.percent(o.share, 2));

// Side is what the trainer or the collector took in all; the trainer's beside what it was allowed.
function Side({ side, budget }: { side: Part; budget: number }) {
  return (
    <div>
      <dt>{t(side.part)}</dt>
      <dd>
        <strong>{share(side)}</strong> {t(side.part === "trainer" ? "ofTraining" : "ofCore")} ({f.span(side.seconds)})
        {budget > 0 && (
          <>
            {", "}
            {t("budgeted", f.percent(budget, 1))}{" "}
            {side.share != null && (
              <meter aria-label={t("budgeted", "")} min={0} max={budget} value={side.share} high={budget} />
            )}
          </>
        )}
      </dd>
    </div>
  );
}

function Parts({ side, list }: { side: string; list: Part[] }) {
  if (list.length === 0) return null;
  return (
    <>
      <h3 class="side">{t(side)}</h3>
      <Table
        label={t(side)}
        head={[t("part"), t("seconds"), t("share")]}
        numeric={[1, 2]}
        rows={list.map((o) => [
          o.part.replace("sampler: ", ""),
          cell(o.seconds.toFixed(3), o.seconds),
          cell(o.share == null ? "–" : f.percent(o.share, 3), o.share),
        ])}
      />
    </>
  );
}
