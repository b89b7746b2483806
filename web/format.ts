// Figures as text. Sizes are powers of 1024, and say so.
import { held } from "./held";
import { lang, t } from "./i18n";
import type { Finding } from "./shapes";

const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(n: number | null | undefined): string {
  if (n == null) return "–";
  let v = Math.abs(n),
    i = 0;
  while (v >= 1023.95 && i < units.length - 1) {
    v /= 1024;
    i++;
  }
  const digits = i === 0 || v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2;
  return `${n < 0 ? "−" : ""}${v.toFixed(digits)} ${units[i]}`;
}

export const signed = (n: number) => (n > 0 ? "+" : "") + bytes(n);

// mib is the bytes of so many MiB, in which findings tell their rates.
export const mib = (n: number | null) => (n ?? 0) * 2 ** 20;

// unit is what a finding's rate is by: the page has words for two of them, the others are names.
export const unit = (x: Pick<Finding, "unit">) => (x.unit === "step" || x.unit === "second" ? t(x.unit) : x.unit);
export const rate = (x: Finding) => mib(x.by_time ? x.rate_mb_per_second : x.rate_mb_per_step);

export const count = (n: number | null | undefined) => (n == null ? "–" : Math.round(n).toLocaleString(lang()));

export const percent = (f: number, digits = 0) => `${(100 * f).toFixed(digits)} %`;

const two = (n: number) => String(n).padStart(2, "0");

export function span(s: number): string {
  if (!isFinite(s)) return "–";
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(Math.round(s % 60) % 60)} s`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} min`;
  return `${(s / 86400).toFixed(1)} d`;
}

// about is a time to come, whose seconds nobody knows.
export function about(s: number): string {
  if (!isFinite(s) || s < 60) return span(s);
  if (s < 3570) return `${Math.round(s / 60)} min`;
  return span(60 * Math.round(s / 60));
}

// A formatter takes longer to make than hundreds of moments to write.
const clocks = new Map<string, Intl.DateTimeFormat>();

export function clock(us: number, seconds = true): string {
  const key = lang() + seconds;
  let c = clocks.get(key);
  if (!c) {
    c = new Intl.DateTimeFormat(lang(), {
      hour12: false,
      hour: "2-digit",
      minute: "2-digit",
      ...(seconds ? { second: "2-digit" } : {}),
    });
    clocks.set(key, c);
  }
  return c.format(us / 1000);
}

const days = new Map<string, Intl.DateTimeFormat>();

// day is a moment's day: by its name within the coming six, else by its date.
function day(us: number, now: number): string {
  const near = us > now && us - now < 6 * 86400e6,
    key = lang() + near;
  let d = days.get(key);
  if (!d) {
    d = new Intl.DateTimeFormat(lang(), near ? { weekday: "short" } : { month: "short", day: "numeric" });
    days.set(key, d);
  }
  return d.format(us / 1000);
}

const sameDay = (a: number, b: number) => new Date(a / 1000).toDateString() === new Date(b / 1000).toDateString();

// when is a moment's clock, with the day where that is not now's. A report is read on any day: there it always has one.
export function when(us: number, seconds = true, now = Date.now() * 1000): string {
  return !held && sameDay(us, now) ? clock(us, seconds) : `${day(us, now)} ${clock(us, seconds)}`;
}

// tick is a moment on an axis after the one before it: the day stands where it changes, and where the axis begins.
export function tick(us: number, seconds: boolean, before: number | null): string {
  return before != null && sameDay(us, before) ? clock(us, seconds) : when(us, seconds);
}

// moment is the same in every language: 2026-01-31 12:00:00, in the browser's zone.
export function moment(text: string): string {
  const d = new Date(text);
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

// round is the next of 1, 2, 5, 10, …
export function round(v: number): number {
  const ten = 10 ** Math.floor(Math.log10(Math.max(1, v)));
  return Math.max(1, ten * [1, 2, 5, 10].find((m) => ten * m >= v)!);
}
