// A memory snapshot that is dropped onto the page, or chosen, goes to the server as it is; and those that are open.
import { useEffect, useRef, useState } from "preact/hooks";
import { Trouble, get } from "./api";
import * as f from "./format";
import { t } from "./i18n";
import { Failed } from "./parts";
import { type Shot, upload } from "./snapapi";
import { useLoad } from "./state";

const tooLarge = 16 * 2 ** 30; // as the server has it

export function Drop() {
  const [busy, setBusy] = useState<{ name: string; share: number }>(),
    [error, setError] = useState<Trouble>(),
    [over, setOver] = useState(false);
  const running = useRef<AbortController | null>(null);
  const take = (file: File | undefined) => {
    if (!file || running.current) return;
    if (file.size > tooLarge)
      return setError(new Trouble(t("xTooLarge", f.bytes(file.size), f.bytes(tooLarge)), t("xTooLargeHint")));
    const stop = (running.current = new AbortController());
    setError(undefined);
    setBusy({ name: file.name, share: 0 });
    upload(file, (share) => setBusy({ name: file.name, share }), stop.signal)
      .then(
        (key) => {
          location.hash = `#/f/${key}`;
        },
        (e) => {
          if (e.name !== "AbortError") setError(e);
        },
      )
      .finally(() => {
        running.current = null;
        setBusy(undefined);
      });
  };
  useEffect(() => {
    const has = (e: DragEvent) => e.dataTransfer?.types.includes("Files");
    const drag = (e: DragEvent) => {
      if (has(e)) {
        e.preventDefault();
        setOver(true);
      }
    };
    const leave = (e: DragEvent) => {
      if (!e.relatedTarget) setOver(false);
    };
    const drop = (e: DragEvent) => {
      if (has(e)) {
        e.preventDefault();
        setOver(false);
        take(e.dataTransfer!.files[0]);
      }
    };
    addEventListener("dragover", drag);
    addEventListener("dragleave", leave);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", drag);
      removeEventListener("dragleave", leave);
      removeEventListener("drop", drop);
    };
  }, []);
  return (
    <>
      {over && (
        <div class="dropping" aria-hidden="true">
          <p>{t("xDropHere")}</p>
        </div>
      )}
      {error && <Failed error={error} />}
      {busy && (
        <p class="state busy" role="status">
          {t("xSending", busy.name)}{" "}
          <progress class="reading" value={busy.share} max={1} aria-label={t("xSending", busy.name)} />
          <button onClick={() => running.current?.abort()}>{t("stop")}</button>
        </p>
      )}
      <Open take={take} />
    </>
  );
}

function Open({ take }: { take: (f: File | undefined) => void }) {
  const [place, setPlace] = useState(location.hash);
  useEffect(() => {
    const go = () => setPlace(location.hash);
    addEventListener("hashchange", go);
    return () => removeEventListener("hashchange", go);
  }, []);
  const list = useLoad<Shot[]>((s) => get("f", s), [place]);
  if (!/^(#\/?(all)?)?$/.test(place)) return null;
  return (
    <section class="drop" aria-labelledby="shots">
      <h2 id="shots">{t("xShots")}</h2>
      <p class="controls">
        <label class="pick">
          {t("xPick")}{" "}
          <input
            type="file"
            onChange={(e) => {
              take(e.currentTarget.files?.[0]);
              e.currentTarget.value = "";
            }}
          />
        </label>{" "}
        <span class="hint">{t("xOrDrop")}</span>
      </p>
      {list.value && list.value.length > 0 && (
        <ul class="sessions shots">
          {list.value.map((x) => (
            <li>
              <a href={`#/f/${encodeURIComponent(x.key)}`}>
                <strong>{x.name}</strong>{" "}
                <small>{x.state === "failed" ? t("failed") : x.read ? f.bytes(x.read) : ""}</small>
              </a>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
