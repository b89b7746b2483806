// Small parts that views share: states, buttons, tables, tabs.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Trouble } from "./api";
import { t } from "./i18n";
import type { Loaded } from "./state";

export function Failed({ error, again }: { error: Trouble; again?: () => void }) {
  const [first, ...rest] = error.message.split("\n"); // a database points at a place in a line of its own
  return (
    <div class="state bad" role="alert">
      <p>
        <strong>{t("failed")}</strong> {["gone", "absent"].includes(error.message) ? t(error.message) : first}
      </p>
      {rest.length > 0 && <pre>{rest.join("\n").trim()}</pre>}
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

// Cell is a cell of a table that is sorted by something else than the text it shows.
class Cell {
  constructor(
    readonly shown: ComponentChildren,
    readonly by: number | string | null | undefined,
  ) {}
}

export const cell = (shown: ComponentChildren, by: number | string | null | undefined) => new Cell(shown, by);

type Row = (ComponentChildren | Cell)[];

// Table is sorted by a click on the head of a column: once by its largest figures or its first words, twice the other
// way around, three times as it was. A column can be sorted if each of its cells says by what.
export function Table({
  label,
  head,
  rows,
  numeric = [],
}: {
  label: string;
  head: string[];
  rows: Row[];
  numeric?: number[];
}) {
  const [order, setOrder] = useState<{ column: number; times: number } | null>(null);
  const press = (column: number) =>
    setOrder((o) => (o?.column !== column ? { column, times: 1 } : o.times < 2 ? { column, times: 2 } : null));
  const down = order && numeric.includes(order.column) === (order.times === 1);
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={label}>
      <table>
        <thead>
          <tr>
            {head.map((h, i) => (
              <th
                scope="col"
                class={numeric.includes(i) ? "n" : ""}
                aria-sort={order?.column !== i ? undefined : down ? "descending" : "ascending"}
              >
                {sortable(rows, i, numeric.includes(i)) ? (
                  <button class="sort" title={t("sort", h)} onClick={() => press(i)}>
                    {h}
                    <span aria-hidden="true">{order?.column !== i ? "" : down ? " ▼" : " ▲"}</span>
                  </button>
                ) : (
                  h
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {(order ? sorted(rows, order.column, !!down) : rows).map((r) => (
            <tr>
              {r.map((c, i) => (
                <td class={numeric.includes(i) ? "n" : ""}>{c instanceof Cell ? c.shown : c}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

// A figure that is shown as text ("2.01 MiB") says nothing that can be compared.
function sortable(rows: Row[], column: number, numeric: boolean) {
  return (
    rows.length > 1 &&
    rows.every((r) => {
      const c = r[column];
      return c instanceof Cell || typeof c === "number" || c == null || c === "" || (!numeric && typeof c === "string");
    })
  );
}

const keyOf = (c: ComponentChildren | Cell) => {
  const by = c instanceof Cell ? c.by : c;
  return typeof by === "number" || (typeof by === "string" && by !== "") ? by : null;
};

// sorted leaves cells without a value at the end, whichever the direction.
function sorted(rows: Row[], column: number, down: boolean) {
  return [...rows].sort((p, q) => {
    const a = keyOf(p[column]),
      b = keyOf(q[column]);
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
    return down ? -order : order;
  });
}

// CopyPlace copies a place in the code as editors and terminals take it: FILE:LINE.
export function CopyPlace({ file, line }: { file?: string; line?: number }) {
  const [done, setDone] = useState(false);
  if (!file || file === "??") return null;
  return (
    <button
      class="link"
      onClick={async () => {
        await copy(line ? `${file}:${line}` : file);
        setDone(true);
        setTimeout(() => setDone(false), 2000);
      }}
    >
      {done ? t("copied") : t("copyplace")}
    </button>
  );
}

export async function copy(text: string) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    prompt("", text); // without a secure context there is no clipboard
  }
}
