// Which memories a session has, and which of them are drawn first.
import type { About, Verdicts } from "./api";
import { held } from "./held";
import { t } from "./i18n";
import type { Source } from "./tiles";

const shownAtFirst = 4; // as many as fit below each other

export const keyOf = (s: Source) => [s.kind, s.pid ?? "", s.device ?? "", s.path ?? ""].join(":");

// sources are the panels that a session can have.
export function sources(a: About): Source[] {
  const cgroups = (a.cgroups ?? []).slice(0, 2),
    job = ({ path, own }: { path: string; own: boolean }): Source => ({
      kind: "job",
      path,
      title: `${t(own ? "job" : "jobOf")} ${path}`,
    });
  const list = cgroups.filter((c) => c.own).map(job);
  for (const d of a.devices)
    list.push({ kind: "device", device: d.device_id, title: `${t("device")} ${d.device_id} ${d.name}` });
  for (const p of a.processes) {
    const name = p.rank != null && p.rank >= 0 ? `${p.role} ${p.pid}, rank ${p.rank}` : `${p.role} ${p.pid}`;
    list.push({ kind: "process", pid: p.pid, title: `${t("process")} ${name}` });
    if (!p.steps) continue;
    list.push({ kind: "floors", pid: p.pid, title: `${t("floors")}, ${name}` });
    for (const d of a.devices) {
      list.push({
        kind: "allocator",
        pid: p.pid,
        path: `cuda:${d.device_id}`,
        title: t("allocator", `cuda:${d.device_id}`) + `, ${name}`,
      });
    }
  }
  list.push({ kind: "host", title: t("host") });
  list.push(...cgroups.filter((c) => !c.own).map(job)); // of a service or a user: the host says more
  return held ? list.filter((s) => held!.series[keyOf(s)]?.some((c) => c.t.length)) : list;
}

// focusOf is the process to look at: of the rank that the address names, else the one that leaks, else one that trains.
export function focusOf(a: About, v: Verdicts | undefined, rank: string | null): number | undefined {
  const of = (p: About["processes"][number] | undefined) => p?.pid;
  const named = rank === null ? undefined : a.processes.find((p) => p.steps && String(p.rank) === rank);
  return (
    of(named) ??
    v?.findings.find((x) => x.verdict === "leak")?.pid ??
    of(a.processes.find((p) => p.steps)) ??
    of(a.processes[0])
  );
}

// firstOf are drawn where nobody has chosen: the job's memory, what the process in focus has, and devices.
export function firstOf(all: Source[], focus: number | undefined): Source[] {
  const host = all.findIndex((s) => s.kind === "host"),
    job = all.filter((s, i) => s.kind === "job" && i < host).slice(0, 1),
    mine = all.filter((s) => s.pid != null && s.pid === focus && s.kind !== "allocator"),
    devices = all.filter((s) => s.kind === "device" || (s.kind === "allocator" && s.pid === focus));
  const list = [...new Set([...job, ...mine, ...devices, ...all.filter((s) => s.pid == null || s.pid === focus)])];
  return list.slice(0, shownAtFirst);
}
