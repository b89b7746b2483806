// What observing cost, and what was lost.
import { type Cost as Answer, get, of } from "./api";
import * as f from "./format";
import { t } from "./i18n";
import { Shown, Table, cell } from "./parts";
import { useLoad } from "./state";

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
              <Table
                label={t("observing")}
                head={[t("part"), t("seconds"), t("share")]}
                numeric={[1, 2]}
                rows={c.overhead.map((o) => [
                  o.part,
                  cell(o.seconds.toFixed(3), o.seconds),
                  cell(o.share == null ? "–" : f.percent(o.share, 3), o.share),
                ])}
              />
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
