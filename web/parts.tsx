// Small parts that views share: states, buttons, tables, tabs.
import type { ComponentChildren } from "preact";
import { Trouble } from "./api";
import { t } from "./i18n";
import type { Loaded } from "./state";

export function Failed({ error, again }: { error: Trouble; again?: () => void }) {
  return (
    <div class="state bad" role="alert">
      <p>
        <strong>{t("failed")}</strong> {["gone", "absent"].includes(error.message) ? t(error.message) : error.message}
      </p>
      {error.hint && <p class="hint">{error.hint}</p>}
      {again && <button onClick={again}>{t("retry")}</button>}
    </div>
  );
}

export function Busy() {
  return (
    <p class="state busy" role="status">
      {t("loading")}
    </p>
  );
}

// Shown draws what was loaded, or says what is the matter. An error while something older is there leaves that in view.
export function Shown<T>({ of, children }: { of: Loaded<T>; children: (value: T) => ComponentChildren }) {
  if (of.value === undefined) return of.error ? <Failed error={of.error} again={of.again} /> : <Busy />;
  return (
    <>
      {of.error && <Failed error={of.error} again={of.again} />}
      {children(of.value)}
    </>
  );
}

export function Verdict({ value }: { value: string | null | undefined }) {
  if (!value) return <span class="chip">–</span>;
  const mark = value === "leak" ? "▲" : value === "healthy" ? "✓" : "…";
  return (
    <span class={`chip ${value}`}>
      <span aria-hidden="true">{mark}</span> {t(value)}
    </span>
  );
}

export function Table({
  label,
  head,
  rows,
  numeric = [],
}: {
  label: string;
  head: string[];
  rows: ComponentChildren[][];
  numeric?: number[];
}) {
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={label}>
      <table>
        <thead>
          <tr>
            {head.map((h, i) => (
              <th scope="col" class={numeric.includes(i) ? "n" : ""}>
                {h}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((r) => (
            <tr>
              {r.map((c, i) => (
                <td class={numeric.includes(i) ? "n" : ""}>{c}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
