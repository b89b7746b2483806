// Every view of a session, once. The page shows one at a time, behind its tab; a report has those whose answers it
// carries, one below the other. What a live trainer must be asked for is in no report.
import type { ComponentChildren } from "preact";
import type { About, Config, Held, News, Verdicts } from "./api";
import { Cost } from "./cost";
import { Eval } from "./eval";
import { FlameGraph } from "./flame";
import { held } from "./held";
import { Native } from "./native";
import { Overview } from "./overview";
import { Shown } from "./parts";
import { SQL } from "./sql";
import { Stacks } from "./stacks";
import type { Loaded, Place } from "./state";
import { Tensors } from "./tensors";
import { Cards } from "./verdicts";

// Shows is what a view may draw on.
export interface Shows {
  a: About;
  verdicts: Loaded<Verdicts>;
  news?: News;
  live: boolean;
  place: Place;
  config: Config;
}

interface View {
  name: string; // in the address, and of its text
  page: (s: Shows) => boolean;
  report: (h: Held) => boolean;
  show: (s: Shows) => ComponentChildren;
}

const always = () => true,
  never = () => false;

const views: View[] = [
  {
    name: "overview",
    page: always,
    report: always,
    show: (s) => <Overview a={s.a} v={s.verdicts.value} news={s.news} live={s.live} place={s.place} />,
  },
  {
    name: "verdicts",
    page: always,
    report: always,
    show: (s) => <Shown of={s.verdicts}>{(v) => <Cards v={v} id={s.a.id} />}</Shown>,
  },
  { name: "tensors", page: always, report: always, show: (s) => <Tensors id={s.a.id} live={s.live} place={s.place} /> },
  { name: "flame", page: never, report: (h) => h.flame != null, show: () => <FlameGraph of={held!.flame!} /> },
  { name: "native", page: always, report: (h) => sampled(h.answers.native), show: (s) => <Native id={s.a.id} /> },
  { name: "stacks", page: always, report: never, show: (s) => <Stacks id={s.a.id} live={s.live} /> },
  { name: "sql", page: always, report: never, show: (s) => <SQL id={s.a.id} place={s.place} /> },
  { name: "cost", page: always, report: always, show: (s) => <Cost id={s.a.id} /> },
  {
    name: "eval",
    page: (s) => s.config.allow_eval && s.live,
    report: never,
    show: (s) => <Eval id={s.a.id} processes={s.a.processes} />,
  },
];

// sampled says whether native memory was.
function sampled(native: unknown): boolean {
  return (native as { root?: unknown } | undefined)?.root != null;
}

// viewsOf are those that a session has, here or in a report.
export function viewsOf(s: Shows): View[] {
  return views.filter((v) => (held ? v.report(held) : v.page(s)));
}
