// Where the page is: a view of a session with its parameters, in the address behind #, so that every view has a link.
import { useEffect, useRef, useState } from "preact/hooks";
import { Trouble } from "./api";

export interface Place {
  id: string;
  view: string;
  params: URLSearchParams;
  round: number; // grows with each address that somebody opens: a view that is shown begins anew with it
}

let round = 0;

export function here(): Place {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [kind, id, view] = path.split("/");
  return {
    id: kind === "s" && id ? decodeURIComponent(id) : "",
    view: view || "overview",
    params: new URLSearchParams(query || ""),
    round,
  };
}

export function link(id: string, view = "overview", params?: URLSearchParams): string {
  if (!id) return "#/";
  const q = params && params.toString();
  return `#/s/${encodeURIComponent(id)}/${view}${q ? "?" + q : ""}`;
}

const watchers = new Set<() => void>();

// useParams are the place's parameters as they stand, for what links to other views.
export function useParams(): URLSearchParams {
  const [, redraw] = useState(0);
  useEffect(() => {
    const go = () => redraw((n) => n + 1);
    watchers.add(go);
    return () => {
      watchers.delete(go);
    };
  }, []);
  return here().params;
}

// change replaces parameters of the place without a step in the history.
export function change(values: Record<string, string | number | null>) {
  const p = here();
  for (const [k, v] of Object.entries(values)) v == null ? p.params.delete(k) : p.params.set(k, String(v));
  history.replaceState(null, "", link(p.id, p.view, p.params));
  for (const go of watchers) go();
}

export function usePlace(): Place {
  const [place, set] = useState(here);
  useEffect(() => {
    const go = () => {
      round++;
      set(here());
    };
    addEventListener("hashchange", go);
    return () => removeEventListener("hashchange", go);
  }, []);
  return place;
}

export interface Loaded<T> {
  value?: T;
  error?: Trouble;
  busy: boolean;
  again: () => void;
}

// useLoad asks once, and again when deps change or again is called. A late answer to an earlier question is dropped, and
// while a new one is on its way the old one stays.
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, deps: unknown[]): Loaded<T> {
  const [state, set] = useState<{ value?: T; error?: Trouble; busy: boolean }>({ busy: true });
  const [round, setRound] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    set((s) => ({ ...s, busy: true }));
    load(stop.signal).then(
      (value) => !stop.signal.aborted && set({ value, busy: false }),
      (error) => !stop.signal.aborted && set((s) => ({ value: s.value, error, busy: false })),
    );
    return () => stop.abort();
  }, [...deps, round]);
  return { ...state, again: () => setRound((n) => n + 1) };
}

// useLatest keeps a value for callbacks that outlive a rendering.
export function useLatest<T>(value: T) {
  const ref = useRef(value);
  ref.current = value;
  return ref;
}

// dark is true of a screen alone: what is printed is light.
export const dark = matchMedia("screen and (prefers-color-scheme: dark)");
