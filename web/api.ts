// What the server is asked, and the shapes of its answers. Bytes are bytes, times are µs since the epoch.
import { answer, held, heldShot, shotAnswer } from "./held";
import { key, keyHeader } from "./key";

export class Trouble extends Error {
  constructor(message: string, public hint = "", public status = 0) { super(message); }
}

async function failure(r: Response): Promise<Trouble> {
  const text = await r.text();
  try {
    const e = JSON.parse(text);
    return new Trouble(e.message, e.hint, r.status);
  } catch {
    return new Trouble(text.trim() || r.statusText, "", r.status);
  }
}

export async function ask(path: string, init?: RequestInit): Promise<Response> {
  let r: Response;
  try {
    r = await fetch("/api/" + path, { ...init, headers: { [keyHeader]: await key() } });
  } catch (e) {
    if ((e as Error).name === "AbortError") throw e;
    throw new Trouble("gone");
  }
  if (!r.ok) throw await failure(r);
  return r;
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  if (held) return answer<T>(path);
  if (heldShot) return shotAnswer<T>(path);
  return (await ask(path, { signal })).json();
}

export async function post<T>(path: string, body: unknown): Promise<T> {
  return (await ask(path, { method: "POST", body: JSON.stringify(body) })).json();
}

// listen takes server-sent events until stop, and connects again when the line breaks: an EventSource can't send the key.
export function listen(path: string, take: (kind: string, data: string) => void, lost: () => void): () => void {
  const stop = new AbortController();
  const once = async () => {
    const r = await ask(path, { signal: stop.signal });
    const lines = r.body!.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; ;) {
      const { value, done } = await lines.read();
      if (done) return;
      const whole = (text + value).split("\n\n");
      text = whole.pop()!;
      for (const one of whole) {
        const [, kind, data] = /^event: (.*)\ndata: (.*)$/.exec(one) ?? [];
        if (kind && !stop.signal.aborted) take(kind, data);
      }
    }
  };
  void (async () => {
    for (;;) {
      await once().catch(() => {});
      if (stop.signal.aborted) return;
      lost();
      await new Promise((go) => setTimeout(go, 3000));
    }
  })();
  return () => stop.abort();
}

export const of = (id: string, what: string) => `s/${encodeURIComponent(id)}/${what}`;

export interface Config { version: string; allow_eval: boolean; first: string; job: string }

export interface Listed {
  id: string; name: string; command: string[] | null; started: string; ended: string | null; state: string;
  live: boolean; pids: number[] | null; ranks: number[] | null; rows: number | null; disk_bytes: number;
}

export interface Brief { verdict: string | null; peak: number | null; limit: number | null; steps: number | null }

export interface Process {
  pid: number; ppid: number; role: string; rank: number | null; command: string; peak_rss: number | null;
  ended: boolean; steps: number | null; python: string | null;
}

export interface About {
  id: string; name: string; command: string[] | null; cwd: string; host: string; started: string; live: boolean;
  memgauge: string; from: number; to: number; step: number; processes: Process[];
  end: { live: boolean; known: boolean; text: string; ended: string; oom?: string };
  summary: { rows: number; steps: number; peak_rss: number; lost: number };
  snapshot?: { path: string; taken: string };
  devices: { device_id: number; name: string; total_bytes: number }[]; cgroups: string[] | null;
}

export interface Columns {
  width: number; from: number; t: number[]; lo: (number | null)[]; hi: (number | null)[]; limit: (number | null)[];
  parts: Record<string, (number | null)[]>; order: string[];
}

export interface Event { t: number; pid: number | null; name: string; text: string }

export interface Node { key?: string; text?: string; bytes: number; children?: Node[] }

export interface Where { t: number; of: string; root: Node }

export interface Finding {
  verdict: string; class: string; memory: string; pid: number; rank: number; rate: number; low: number; high: number;
  start: number; end: number; level: number; total: number; noise: number; p: number; readings: number; floors: number;
  unseen: number; reason: string; site: string; holder: string; held: string; evidence: string[]; advice: string[];
  limit: string; seconds: number; seconds_low: number; seconds_high: number; at_step: number; over: boolean;
  met: boolean; by_time: boolean; x: number[]; y: number[];
}

export interface Risk {
  device: string; limit_kind: string; level: string; used: number; total: number; seconds: number | null;
  seconds_low: number | null; seconds_high: number | null;
}

export interface Verdicts {
  verdict: string; confidence: number; steps: number; missing: string; warnings: string[]; findings: Finding[];
  risks: Risk[];
}

export interface Source { file: string; line: number; first: number; lines: string[]; later: boolean }

export interface Census {
  t: number; pid: number; rank: number | null; census_id: number; step: number | null; bytes: number; count: number;
}

export interface Group {
  holder: string | null; site: string | null; role: string; device: string; dtype: string; shape: string;
  count: number; bytes: number; oldest_step: number | null; before: number | null;
}

export interface Grown {
  evidence: string; type: string; count: number | null; delta: number | null; length: number | null;
  bytes: number | null; holder: string | null; site: string | null; detail: string | null;
}

export interface Tensors { censuses: Census[]; groups: Group[]; objects: Grown[] }

export interface Frame { func: string; file: string; line: number }

export interface Thread {
  tid: number; name: string; python: boolean; daemon: boolean; frames: Frame[] | null; cut: number; cut_at: number;
  comm: string; state: string; kernel: string;
}

export interface Stacks {
  processes: { pid: number; rank: number; argv: string; threads: Thread[] | null; left: number;
    error?: { message: string } }[];
}

export interface Cost {
  overhead: { part: string; seconds: number; share: number | null }[];
  drops: { source: string; reason: string; records: number }[]; lost: number; left_out: number;
}

export interface Table { Schema: string; Name: string; Rows: number; Columns: { Name: string; Type: string; Doc: string }[]; Doc: string }

export interface News { to: number; step: number; live: boolean; final: boolean }

export interface Ran {
  what: { ts: string; event: string; text: string; summary: string; device: string; limit_bytes: number | null;
    requested_bytes: number | null; largest_hole_bytes: number | null; largest: Grower[] | null };
  minute: { name: string; t: number[]; bytes: number[] }[] | null;
}

export interface Grower { scope: string; pid: number; name: string; bytes: number; grown_bytes: number }

export interface Flame { file: string; device: number; live: number; root: Burned | null; error?: string }

// Burned is a frame of a flame graph; before is what it held in what it is compared with.
export interface Burned {
  name: string; file?: string; line?: number; bytes: number; before?: number; blocks: number; children?: Burned[];
}
