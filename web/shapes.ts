// Made by `make generate` from internal/faces/web. Sizes are bytes, times µs since the epoch.

export interface Config {
  version: string;
  allow_eval: boolean;
  first: string;
  job: string;
}

export interface Listed {
  id: string;
  name: string;
  command: string[] | null;
  started: string;
  ended: string;
  state: string;
  live: boolean;
  pids: number[] | null;
  ranks: number[] | null;
  rows: number | null;
  disk_bytes: number;
}

export interface Brief {
  verdict: string | null;
  peak: number | null;
  limit: number | null;
  steps: number | null;
  rate_mb: number | null;
  unit: string | null;
  holder: string | null;
  line: number[];
}

export interface Process {
  pid: number;
  role: string;
  rank: number | null;
  command: string;
  peak_rss: number | null;
  ended: boolean;
  ppid: number;
  steps: number | null;
  python: string | null;
}

export interface About {
  api_version: number;
  id: string;
  name: string;
  dir: string;
  command: string[] | null;
  cwd: string;
  host: string;
  started: string;
  memgauge: string;
  attached: boolean;
  pid: number;
  live: boolean;
  snapshot?: { path: string; pid: number; taken: string; };
  budget?: number;
  end: { live: boolean; known: boolean; text: string; ended: string; oom?: string; peak_rss: number; final: boolean; };
  summary: { rows: number; steps: number; peak_rss: number; pids: number[]; ranks: number[]; disk_bytes: number; lost: number; left_out: number; verdict?: string; judged?: string; };
  from: number;
  to: number;
  step: number;
  processes: Process[];
  devices: { device_id: number; name: string; total_bytes: number; }[];
  cgroups: { path: string; own: boolean; }[] | null;
}

export interface Columns {
  width: number;
  from: number;
  t: number[];
  lo: (number | null)[];
  hi: (number | null)[];
  limit: (number | null)[];
  parts: Record<string, (number | null)[]>;
  order: string[];
}

export interface Event {
  t: number;
  pid: number | null;
  name: string;
  text: string;
}

export interface Node {
  key?: string;
  text?: string;
  bytes: number;
  children?: Node[];
}

export interface Where {
  t: number;
  of: string;
  root: Node | null;
}

export interface Finding {
  verdict: string;
  class: string | null;
  memory: string;
  name: string;
  device: string | null;
  pid: number;
  rank: number | null;
  rate_mb_per_step: number | null;
  rate_mb_per_second: number | null;
  rate_low: number | null;
  rate_high: number | null;
  by_time: boolean;
  unit: string;
  load: string | null;
  start_step: number | null;
  end_step: number;
  growth_bytes: number;
  site: string | null;
  site_lines: number;
  holder: string | null;
  held: string | null;
  reason: string;
  missing: string | null;
  readings: number;
  p: number | null;
  evidence: string[];
  advice: string[];
  time_to_limit_seconds: number | null;
  time_to_limit_low: number | null;
  time_to_limit_high: number | null;
  limit: string | null;
  limit_step: number | null;
  limit_met: boolean;
  ended: boolean;
  level: number;
  x: number[];
  y: number[];
}

export interface Risk {
  device: string;
  limit_kind: string;
  level: string;
  used: number;
  total: number;
  seconds: number | null;
  seconds_low: number | null;
  seconds_high: number | null;
}

export interface Peak {
  pid: number;
  rank: number | null;
  device: string;
  phase: string;
  what: string;
  site: string;
  step: number;
  peak_bytes: number | null;
  without_bytes: number | null;
  ran_out: boolean;
  advice: string;
  text: string;
}

export interface Verdicts {
  verdict: string;
  confidence: number;
  steps: number;
  missing: string;
  warnings: string[];
  findings: Finding[];
  peaks: Peak[];
  risks: Risk[];
}

export interface Source {
  file: string;
  line: number;
  first: number;
  lines: string[];
  later: boolean;
}

export interface Census {
  t: number;
  pid: number;
  rank: number | null;
  census_id: number;
  step: number | null;
  bytes: number;
  count: number;
}

export interface Group {
  holder: string | null;
  site: string | null;
  role: string;
  device: string;
  dtype: string;
  shape: string;
  count: number;
  bytes: number;
  oldest_step: number | null;
  before: number | null;
}

export interface Grown {
  evidence: string;
  type: string;
  count: number | null;
  delta: number | null;
  length: number | null;
  bytes: number | null;
  holder: string | null;
  site: string | null;
  detail: string | null;
}

export interface Tensors {
  censuses: Census[];
  groups: Group[];
  objects: Grown[];
}

export interface Frame {
  func: string;
  file: string;
  line: number;
  locals?: { name: string; value: string; }[];
}

export interface Thread {
  tid: number;
  name: string;
  python: boolean;
  daemon: boolean;
  frames: Frame[] | null;
  cut: number;
  cut_at: number;
  comm: string;
  state: string;
  wchan: string;
  syscall: string;
  kernel: string;
}

export interface Stacks {
  processes: { pid: number; rank: number; argv: string; threads: Thread[] | null; left: number; error?: { message: string; hint?: string; kind?: string; }; }[];
}

export interface Cost {
  budget: number;
  sides: { part: string; seconds: number; share: number | null; }[];
  overhead: { part: string; seconds: number; share: number | null; }[];
  drops: { source: string; reason: string; records: number; }[];
  lost: number;
  left_out: number;
}

export interface Table {
  Schema: string;
  Name: string;
  Rows: number;
  Columns: { Name: string; Type: string; Doc: string; }[];
  Doc: string;
}

export interface News {
  to: number;
  step: number;
  live: boolean;
  final: boolean;
}

export interface Ran {
  what: { ts: string; event: string; text: string; summary: string; device: string; limit_bytes: number | null; requested_bytes: number | null; largest_hole_bytes: number | null; grew: Grower[] | null; largest: Grower[] | null; } | null;
  minute: { name: string; t: number[]; bytes: number[]; }[] | null;
}

export interface Grower {
  scope: string;
  pid: number;
  name: string;
  bytes: number;
  grown_bytes: number;
}

export interface Flame {
  file: string;
  device: number;
  live: number;
  root: Burned | null;
  error?: string;
}

export interface Burned {
  name: string;
  file?: string;
  line?: number;
  bytes: number;
  before?: number;
  blocks: number;
  children?: Burned[];
}

export interface NativeLine {
  site: string;
  called: string;
  bytes: number;
  half: number;
  grown: number;
}

export interface NativeBefore {
  pid: number;
  since: string;
  bytes: number;
  own: number;
  unseen: string;
}

export interface Native {
  lines: NativeLine[];
  root: Burned | null;
  unknown: NativeBefore[];
}

export interface HeatRow {
  rank: number;
  node: string;
  id: string;
  count: number;
  odd: boolean;
}

export interface Heat {
  job: string;
  ranks: number;
  rows: HeatRow[];
  width: number;
  columns: number;
  low: number;
  high: number;
  cells: string;
  odd: { kind: string; rank: number; memory?: string; node: string; since_step: number; z: number; z_low: number; z_high: number; excess: number; pace: number; pace_low: number; pace_high: number; last_step: number; peer_last_step: number; id: string; text: string; }[];
  warnings: string[];
  missing: string[];
  middle: (number | null)[];
}

export interface Said {
  output: string;
  cut: boolean;
  results: { process: { pid: number; start_ticks: number; rank: number; alive: boolean; torch: boolean; agent: boolean; framework: boolean; argv: string; }; outcome: string; value: string; exception: string; elapsed_ns: number; took_ns: number; began: boolean; place?: string; error?: { message: string; hint?: string; kind?: string; }; }[];
  failure: { message: string; hint?: string; kind?: string; } | null;
  exception: string;
  value: string;
}

export interface Held {
  version: string;
  written: number;
  answers: Record<string, unknown>;
  series: Record<string, Columns[]>;
  left_out: number;
  where: Where[];
  flame: Flame | null;
}

export interface Device {
  device: number;
  name?: string;
  first: number;
  events: number;
  allocs: number;
  from: number;
  to: number;
  peak: number;
  peak_bytes: number;
  peak_reserved: number;
  end_bytes: number;
  before_bytes: number;
  before_known: boolean;
  segments: number;
  ooms: number[];
}

export interface Shot {
  key: string;
  name: string;
  origin: string;
  state: string;
  read: number;
  total: number;
  failure?: { message: string; hint?: string; kind?: string; };
  format?: string;
  cut?: string;
  devices: Device[];
}

export interface StackFrame {
  name: string;
  file: string;
  line: number;
  own: boolean;
  frame: number;
}

export interface Block {
  id: number;
  bytes: number;
  from: number;
  to: number;
  made: boolean;
  freed: boolean;
  began: number;
  ended: number;
  addr?: string;
  use: string;
  site: string;
  frames?: StackFrame[];
  attached?: string[];
}

export interface Moment {
  event: number;
  t: number;
  action: string;
  live: number;
  reserved: number;
  count: number;
  blocks: Block[];
  uses: { name: string; bytes: number; blocks: number; }[];
}

export interface Run {
  at: number;
  bytes: number;
  state: string;
  blocks: number;
  site?: string;
}

export interface Segment {
  address: string;
  bytes: number;
  used: number;
  kind: string;
  stream: number;
  expandable: boolean;
  holes: number;
  largest_hole: number;
  runs: Run[];
}

export interface Segments {
  segments: Segment[];
  left: number;
  bytes: number;
  free_bytes: number;
  holes: number;
  largest_hole: number;
  rounding_bytes: number;
  rest_bytes: number;
}

export interface Delta {
  name: string;
  name_a?: string;
  bytes: [number, number];
  blocks: [number, number];
  changed_bytes: number;
}

export interface Deltas {
  requested_bytes: [number, number];
  sites: Delta[] | null;
  sites_not_listed: number;
  categories: Delta[] | null;
}

export interface Diff {
  device_a: number;
  device_b: number;
  peak: Deltas;
  end: Deltas;
}
