// SQL over the session: an editor that completes, the answer as rows or as a chart, downloads.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Table as Schema, Trouble, ask, get, of } from "./api";
import { Chart } from "./chart";
import * as f from "./format";
import { t } from "./i18n";
import { Failed } from "./parts";
import { type Place, change, useLatest, useLoad } from "./state";

const maxRows = 1_000_000; // that the page keeps; a download has all

// examples are questions that people ask first.
const examples: [string, string][] = [
  [
    "memory by step",
    "SELECT step, max(allocated) AS allocated_mb, max(cached) AS cached_mb\nFROM python.torch_trace\nGROUP BY step ORDER BY step",
  ],
  [
    "what each module allocates",
    "SELECT module, stage, avg(allocated_delta) AS mb, count(*) AS times\nFROM python.torch_trace\nWHERE allocated_delta IS NOT NULL\nGROUP BY ALL ORDER BY mb DESC LIMIT 30",
  ],
  ["floors of the heap", "SELECT step, heap_in_use, anon\nFROM python.steps ORDER BY step"],
  [
    "who holds tensors",
    "SELECT holder, site, sum(bytes) AS bytes, sum(count) AS tensors\nFROM python.tensors\nWHERE census_id = (SELECT max(census_id) FROM python.tensors)\nGROUP BY ALL ORDER BY bytes DESC",
  ],
  [
    "verdicts",
    "SELECT verdict, memory, rate_mb_per_step, start_step, holder, site\nFROM memgauge.findings\nWHERE judgement = (SELECT max(judgement) FROM memgauge.findings)",
  ],
  ["processes by peak", "SELECT pid, role, peak_rss, command\nFROM process.tree ORDER BY peak_rss DESC"],
  ["slowest steps", "SELECT step, duration, sampled\nFROM python.steps ORDER BY duration DESC LIMIT 20"],
  ["every thread now", "SELECT thread, depth, func, file, lineno\nFROM python.backtrace ORDER BY tid, depth"],
];

export interface Answer {
  columns: string[];
  rows: unknown[][];
  took: number;
  cut: boolean;
}

// Numbers beyond 2^53 stay as they were written: JSON.parse would round them.
const long = /[:,[]-?\d{16,}/;

function parse(line: string): Record<string, unknown> {
  if (!long.test(line)) return JSON.parse(line);
  return JSON.parse(
    line.replace(/("(?:[^"\\]|\\.)*")|([:,[])(-?\d{16,})(?=[,}\]])/g, (whole, text, before, digits) =>
      text ? whole : `${before}"${digits}"`,
    ),
  );
}

async function query(id: string, sql: string, signal: AbortSignal): Promise<Answer> {
  const began = performance.now();
  const r = await ask(of(id, "query"), {
    method: "POST",
    signal,
    body: JSON.stringify({ SQL: sql, Format: "ndjson" }),
  });
  const answer: Answer = { columns: [], rows: [], took: 0, cut: false };
  const take = (line: string) => {
    const row = parse(line);
    if (!answer.columns.length) answer.columns = Object.keys(row);
    answer.rows.push(answer.columns.map((c) => row[c]));
  };
  const reader = r.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const lines = (rest + value).split("\n");
    rest = lines.pop()!;
    for (const line of lines) if (line) take(line);
    if (answer.rows.length >= maxRows) {
      answer.cut = true;
      await reader.cancel();
      break;
    }
  }
  if (rest && !answer.cut) take(rest);
  answer.took = performance.now() - began;
  return answer;
}

export function SQL({ id, place }: { id: string; place: Place }) {
  const [sql, setSQL] = useState(place.params.get("q") ?? examples[0][1]);
  const [answer, setAnswer] = useState<Answer | null>(null),
    [error, setError] = useState<Trouble | null>(null);
  const [running, setRunning] = useState<AbortController | null>(null),
    [asChart, setAsChart] = useState(false);
  const schema = useLoad<Schema[]>((s) => get(of(id, "tables"), s), [id]);
  const editor = useRef<Opened | null>(null);
  const [asked, setAsked] = useState(remembered);
  const put = (text: string) => {
    setSQL(text);
    editor.current?.setText(text);
  };
  const run = async () => {
    running?.abort();
    const mine = new AbortController();
    setRunning(mine);
    setError(null);
    change({ q: sql });
    setAsked(remember(sql));
    try {
      setAnswer(await query(id, sql, mine.signal));
    } catch (e) {
      if ((e as Error).name !== "AbortError") {
        setError(e instanceof Trouble ? e : new Trouble(String((e as Error).message)));
        const at = pointed((e as Error).message, sql);
        if (at != null) editor.current?.point(at);
      }
    }
    setRunning((r) => (r === mine ? null : r));
  };
  useEffect(() => {
    if (place.params.get("q")) void run();
  }, []);
  const save = async (format: string) => {
    try {
      const blob = await (
        await ask(of(id, "query"), { method: "POST", body: JSON.stringify({ SQL: sql, Format: format }) })
      ).blob();
      const a = document.createElement("a");
      a.href = URL.createObjectURL(blob);
      a.download = `memgauge-${id}.${format}`;
      a.click();
      setTimeout(() => URL.revokeObjectURL(a.href), 60_000);
    } catch (e) {
      setError(e as Trouble);
    }
  };
  return (
    <section aria-labelledby="sql">
      <div class="bar">
        <h2 id="sql">SQL</h2>
        <label>
          {t("examples")}{" "}
          <select
            value=""
            onChange={(e) => {
              if (e.currentTarget.value) put(examples[Number(e.currentTarget.value)][1]);
              e.currentTarget.value = "";
            }}
          >
            <option value="">…</option>
            {examples.map(([name], i) => (
              <option value={String(i)} lang="en">
                {name}
              </option>
            ))}
          </select>
        </label>
        {asked.length > 0 && (
          <label>
            {t("asked")}{" "}
            <select
              class="asked"
              value=""
              onChange={(e) => {
                if (e.currentTarget.value) put(asked[Number(e.currentTarget.value)]);
                e.currentTarget.value = "";
              }}
            >
              <option value="">…</option>
              {asked.map((q, i) => (
                <option value={String(i)}>{q.replace(/\s+/g, " ").slice(0, 80)}</option>
              ))}
            </select>
          </label>
        )}
      </div>
      <Editor text={sql} changed={setSQL} run={run} id={id} schema={schema.value} opened={editor} />
      <div class="controls">
        <button class="primary" onClick={run} disabled={!!running || !sql.trim()}>
          {t("run")}
        </button>
        {running && <button onClick={() => running.abort()}>{t("stop")}</button>}
        <span class="hint">{t("runhint")}</span>
        {answer && (
          <>
            <button onClick={() => setAsChart(!asChart)}>{asChart ? t("asrows") : t("chart")}</button>
            <button onClick={() => save("csv")}>{t("download")} CSV</button>
            <button onClick={() => save("parquet")}>Parquet</button>
          </>
        )}
      </div>
      {error && <Failed error={error} />}
      {running && (
        <p class="state busy" role="status">
          {t("loading")}
        </p>
      )}
      {answer && !error && <Result a={answer} asChart={asChart} unit={(c) => unitOf(c, schema.value)} />}
      <Tree tables={schema.value ?? []} take={(name) => editor.current?.insert(name)} />
    </section>
  );
}

type Opened = import("./editor").Editor;

// Editor owns its document: text is what it begins with, changed is told of what is typed, and nothing is written back,
// since a text that comes back late would overwrite what was typed meanwhile.
function Editor({
  text,
  changed,
  run,
  id,
  schema,
  opened,
}: {
  text: string;
  changed: (s: string) => void;
  run: () => void;
  id: string;
  schema?: Schema[];
  opened: { current: Opened | null };
}) {
  const box = useRef<HTMLDivElement>(null),
    now = useLatest({ changed, run, text });
  const [editor, setEditor] = useState<Opened | null>(null);
  useEffect(() => {
    let made: Opened | null = null,
      gone = false;
    void import("./editor").then((m) => {
      if (gone) return;
      made = m.make(
        box.current!,
        now.current.text,
        t("statement"),
        (s) => now.current.changed(s),
        () => now.current.run(),
      );
      opened.current = made;
      setEditor(made);
    });
    return () => {
      gone = true;
      opened.current = null;
      made?.close();
    };
  }, []);
  useEffect(() => {
    if (!editor || !schema) return;
    editor.complete(schema, []);
    get<string[]>(of(id, "functions")).then(
      (names) => editor.complete(schema, names),
      () => {
        /* it completes the tables alone */
      },
    );
  }, [editor, schema]);
  return <div class="editor" ref={box} />;
}

export type Unit = "bytes" | "MB" | "ns" | "";

// unitOf is a column's unit: as the table says from which it comes by its name, else as its own name says.
function unitOf(column: string, tables?: Schema[]): Unit {
  for (const x of tables ?? []) {
    const unit = /^(bytes|MB|ns)\b/.exec(x.Columns.find((c) => c.Name === column)?.Doc ?? "");
    if (unit) return unit[1] as Unit;
  }
  const end = /(?:^|_)(bytes|mb|ns)$/i.exec(column);
  return end ? ({ bytes: "bytes", mb: "MB", ns: "ns" }[end[1].toLowerCase()] as Unit) : "";
}

// pointed is where in a statement a complaint points: at the ^ below a line, whose beginning and end may be left out.
function pointed(message: string, sql: string): number | null {
  const found = /^(LINE (\d+): )(.*)\n( *)\^/m.exec(message);
  if (!found) return null;
  const lines = sql.split("\n"),
    line = Number(found[2]) - 1;
  if (line >= lines.length) return null;
  const cut = found[3].startsWith("..."),
    text = found[3].replace(/^\.\.\./, "").replace(/\.\.\.$/, "");
  const begin = cut ? lines[line].indexOf(text) - 3 : 0,
    column = begin + found[4].length - found[1].length;
  if (column < 0 || column > lines[line].length) return null;
  return lines.slice(0, line).reduce((n, l) => n + l.length + 1, 0) + column;
}

const kept = "memgauge-asked",
  mostKept = 30; // statements; the list is read by eye

// remembered are the statements that were run in this browser, the newest first.
function remembered(): string[] {
  try {
    const list = JSON.parse(localStorage.getItem(kept) ?? "[]");
    return Array.isArray(list) ? list.filter((q) => typeof q === "string").slice(0, mostKept) : [];
  } catch {
    return []; // a browser that keeps nothing
  }
}

function remember(sql: string): string[] {
  const list = [sql, ...remembered().filter((q) => q !== sql)].slice(0, mostKept);
  try {
    localStorage.setItem(kept, JSON.stringify(list));
  } catch {
    /* it is full, or keeps nothing: the list is this page's */
  }
  return list;
}

// Tree has the tables by schema; a click on a name writes it where the editor's cursor is.
function Tree({ tables, take }: { tables: Schema[]; take: (name: string) => void }) {
  const schemas = [...new Set(tables.map((x) => x.Schema))];
  return (
    <details class="tree">
      <summary>{t("tables")}</summary>
      {schemas.map((s) => (
        <details class="schema" open={schemas.length < 3}>
          <summary>
            <code>{s}</code>
          </summary>
          {tables
            .filter((x) => x.Schema === s)
            .map((x) => (
              <details class="schema">
                <summary>
                  <code>{x.Name}</code> <small lang="en">{x.Doc}</small>
                </summary>
                <button class="link" onClick={() => take(`${x.Schema}.${x.Name}`)}>
                  {t("insert", `${x.Schema}.${x.Name}`)}
                </button>
                <dl class="facts" lang="en">
                  {x.Columns.map((c) => (
                    <div>
                      <dt>
                        <button class="link" title={t("insert", c.Name)} onClick={() => take(c.Name)}>
                          <code>{c.Name}</code>
                        </button>
                      </dt>
                      <dd>
                        {c.Doc} <small>{c.Type}</small>
                      </dd>
                    </div>
                  ))}
                </dl>
              </details>
            ))}
        </details>
      ))}
    </details>
  );
}

function Result({ a, asChart, unit }: { a: Answer; asChart: boolean; unit: (column: string) => Unit }) {
  return (
    <>
      <p class="hint" role="status">
        {t("rows", f.count(a.rows.length), f.span(a.took / 1000))}
        {a.cut ? `, ${t("cutrows", f.count(maxRows))}` : ""}
      </p>
      {a.rows.length === 0 ? (
        <p class="state">{t("norows")}</p>
      ) : asChart ? (
        <Chart a={a} unit={unit} />
      ) : (
        <Rows a={a} unit={unit} />
      )}
    </>
  );
}

const rowHeight = 26,
  tallest = 8_000_000; // px; Firefox draws nothing beyond some 17 million

// Rows draws only what is in view of a million rows. Beyond the tallest element the scroll bar stands for a share.
function Rows({ a, unit }: { a: Answer; unit: (column: string) => Unit }) {
  const box = useRef<HTMLDivElement>(null),
    [top, setTop] = useState(0),
    [seen, setSeen] = useState(400);
  const whole = a.rows.length * rowHeight,
    height = Math.min(whole, tallest);
  // Before the rows are drawn: later it would take back what the reader has scrolled.
  useLayoutEffect(() => {
    box.current!.scrollTop = 0;
    setTop(0);
    setSeen(box.current!.clientHeight);
  }, [a]);
  const share = height > seen ? top / (height - seen) : 0;
  const offset = share * Math.max(0, whole - seen),
    first = Math.max(0, Math.floor(offset / rowHeight) - 5);
  const count = Math.ceil(seen / rowHeight) + 10,
    numeric = a.columns.map((_, i) => typeof a.rows[0][i] === "number");
  const widths = a.columns.map((c, i) =>
    Math.min(60, Math.max(c.length + 6, ...a.rows.slice(0, 50).map((r) => show(r[i]).length)) + 2),
  );
  const columns = { gridTemplateColumns: widths.map((w) => `minmax(${w}ch, ${w}fr)`).join(" ") };
  return (
    <div
      class="rows"
      ref={box}
      tabIndex={0}
      role="group"
      aria-label={t("results")}
      onScroll={(e) => setTop(e.currentTarget.scrollTop)}
    >
      <div role="table" aria-rowcount={a.rows.length + 1} aria-label={t("results")}>
        <div role="rowgroup" class="rowhead">
          <div role="row" class="row" style={columns}>
            {a.columns.map((c, i) => (
              <div role="columnheader" class={numeric[i] ? "n" : ""}>
                {c} {numeric[i] && !c.toLowerCase().endsWith(unit(c).toLowerCase()) && <small>{unit(c)}</small>}
              </div>
            ))}
          </div>
        </div>
        <div role="rowgroup" class="rowbody" style={{ height: `${height}px` }}>
          {a.rows.slice(first, first + count).map((r, i) => (
            <div
              role="row"
              aria-rowindex={first + i + 2}
              class="row"
              key={first + i}
              style={{
                ...columns,
                position: "absolute",
                insetInline: 0,
                top: `${(first + i) * rowHeight - offset + top}px`,
              }}
            >
              {r.map((v, c) => (
                <div role="cell" class={v == null ? "null" : numeric[c] ? "n" : ""} title={String(v ?? "NULL")}>
                  {show(v)}
                </div>
              ))}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}

function show(v: unknown): string {
  if (v == null) return "NULL";
  if (typeof v === "number") return Number.isInteger(v) ? String(v) : String(Number(v.toPrecision(7)));
  return typeof v === "object" ? JSON.stringify(v) : String(v);
}
