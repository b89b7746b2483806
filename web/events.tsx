// What happened: the events of a session, by kind.
import { useState } from "preact/hooks";
import type { Event } from "./api";
import * as f from "./format";
import { t } from "./i18n";
import { Table, cell } from "./parts";

const most = 200; // rows that are shown, the newest

// routine are kinds that come by themselves all the time and say nothing alone: they are shown to who asks.
const routine = new Set(["budget", "census", "note"]);

export const rare = (e: Event) => !routine.has(e.name);

export function Events({ list, mark }: { list: Event[]; mark: (t: number) => void }) {
  const counts = new Map<string, number>();
  for (const e of list) counts.set(e.name, (counts.get(e.name) ?? 0) + 1);
  const [turned, setTurned] = useState<string[]>([]); // away from how they are at first
  const shown = (name: string) => routine.has(name) === turned.includes(name);
  const turn = (name: string) =>
    setTurned(turned.includes(name) ? turned.filter((n) => n !== name) : [...turned, name]);
  const rows = list
    .filter((e) => shown(e.name))
    .slice(-most)
    .reverse();
  if (list.length === 0) return <p class="state">{t("noevents")}</p>;
  return (
    <>
      {counts.size > 1 && (
        <div class="controls" role="group" aria-label={t("events")}>
          {[...counts].map(([name, n]) => (
            <label>
              <input type="checkbox" checked={shown(name)} onChange={() => turn(name)} /> {name}{" "}
              <small>{f.count(n)}</small>
            </label>
          ))}
        </div>
      )}
      {rows.length === 0 ? (
        <p class="state">{t("noevents")}</p>
      ) : (
        <Table
          label={t("events")}
          head={[t("time"), t("event"), "pid", t("details")]}
          rows={rows.map((e) => [
            cell(
              <button class="link" onClick={() => mark(e.t)}>
                {f.when(e.t)}
              </button>,
              e.t,
            ),
            e.name,
            e.pid ?? "",
            cell(<span class="text">{e.text}</span>, e.text),
          ])}
        />
      )}
    </>
  );
}
