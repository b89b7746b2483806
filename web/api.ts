// What the server is asked, and the shapes of its answers. Bytes are bytes, times are µs since the epoch.
import { answer, held, heldShot, shotAnswer } from "./held";
import { key, keyHeader } from "./key";

export class Trouble extends Error {
  constructor(
    message: string,
    public hint = "",
    public status = 0,
  ) {
    super(message);
  }
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

export type * from "./shapes";
