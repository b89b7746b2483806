// Python in the live trainer; only where whoever started the server allows it.
import { useState } from "preact/hooks";
import { type Process, type Said, Trouble, of, post } from "./api";
import { t } from "./i18n";
import { Failed } from "./parts";

export function Eval({ id, processes }: { id: string; processes: Process[] }) {
  const [code, setCode] = useState(""),
    [pid, setPid] = useState(0),
    [busy, setBusy] = useState(false);
  const [said, setSaid] = useState<Said | null>(null),
    [error, setError] = useState<Trouble | null>(null);
  const run = async () => {
    setBusy(true);
    setError(null);
    try {
      setSaid(await post<Said>(of(id, "eval"), { code, pid }));
    } catch (e) {
      setError(e as Trouble);
    }
    setBusy(false);
  };
  return (
    <section aria-labelledby="eval">
      <h2 id="eval">{t("eval")}</h2>
      <p class="state warn">{t("evalwarn")}</p>
      <textarea
        class="code"
        aria-label={t("code")}
        rows={5}
        spellcheck={false}
        value={code}
        onInput={(e) => setCode(e.currentTarget.value)}
        onKeyDown={(e) => {
          if (e.key === "Enter" && e.ctrlKey) {
            e.preventDefault();
            void run();
          }
        }}
      />
      <div class="controls">
        <label>
          {t("process")}{" "}
          <select value={String(pid)} onChange={(e) => setPid(Number(e.currentTarget.value))}>
            <option value="0">–</option>
            {processes
              .filter((p) => !p.ended && p.python)
              .map((p) => (
                <option value={String(p.pid)}>
                  {p.pid} {p.role}
                </option>
              ))}
          </select>
        </label>
        <button class="primary" onClick={run} disabled={busy || !code.trim()}>
          {t("run")}
        </button>
        <span class="hint">{t("runhint")}</span>
      </div>
      {error && <Failed error={error} />}
      {said && (
        <div role="status">
          <h3>{t("output")}</h3>
          <pre tabIndex={0}>
            {said.output}
            {said.cut ? "\n…\n" : ""}
            {said.value}
            {said.exception}
          </pre>
          {said.failure && <Failed error={new Trouble(said.failure.message, said.failure.hint)} />}
        </div>
      )}
    </section>
  );
}
