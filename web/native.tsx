// What native code holds: the lines whose calls allocated it, and its stacks.
import { type Native as Held, get, of } from "./api";
import { Graph } from "./flame";
import * as f from "./format";
import { held } from "./held";
import { t } from "./i18n";
import { Shown, Table, cell } from "./parts";
import { useLoad } from "./state";

export function Native({ id }: { id: string }) {
  const native = useLoad<Held>((s) => get(of(id, "native"), s), [id]);
  return (
    <>
      <div class="bar">
        <h2>{t("native")}</h2>
        {!held && (
          <button onClick={native.again} disabled={native.busy}>
            {t("refresh")}
          </button>
        )}
      </div>
      <Shown of={native}>
        {(a) =>
          !a.root ? (
            <p class="state">{t("nonative")}</p>
          ) : (
            <>
              <Table
                label={t("native")}
                head={[t("site"), t("called"), t("bytes"), "±", t("growth")]}
                numeric={[2, 3, 4]}
                rows={a.lines.map((l) => [
                  cell(<code>{l.site}</code>, l.site),
                  cell(<code>{l.called}</code>, l.called),
                  cell(f.bytes(l.bytes), l.bytes),
                  cell(f.bytes(l.half), l.half),
                  cell(f.signed(l.grown), l.grown),
                ])}
              />
              {a.unknown.map((u) => (
                <p class="state">
                  {t("unsampled", u.pid, f.bytes(u.bytes), f.when(Date.parse(u.since) * 1000))}
                  {u.unseen && " " + t("unseen", u.unseen)}
                </p>
              ))}
              <section aria-labelledby="nativeflame">
                <h2 id="nativeflame">{t("flame")}</h2>
                <Graph root={a.root} compare={false} count="nstacks" />
              </section>
            </>
          )
        }
      </Shown>
    </>
  );
}
