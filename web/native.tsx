// What native code holds: the lines whose calls allocated it, and its stacks.
import { type Native as Held, get, of } from "./api";
import { Graph } from "./flame";
import * as f from "./format";
import { held } from "./held";
import { t } from "./i18n";
import { Shown, Table } from "./parts";
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
                  <code>{l.site}</code>,
                  <code>{l.called}</code>,
                  f.bytes(l.bytes),
                  f.bytes(l.half),
                  f.signed(l.grown),
                ])}
              />
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
