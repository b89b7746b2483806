-- The first tables: what a training under observation writes. Physical tables lie in schema store, compact and in base
-- units (bytes, ns, µs); what users ask are the views in python and memgauge. See docs/formats/database.md.
CREATE SCHEMA store;
CREATE SCHEMA python;
CREATE SCHEMA memgauge;

-- In schema main: DuckDB 1.5.4 can't replay its log when an enum lies in a schema that the same log creates.
-- Both in alphabetical order, so that sorting and comparing give what they would give for VARCHAR.
CREATE TYPE main.stage AS ENUM ('post backward', 'post forward', 'post step', 'pre backward', 'pre forward', 'pre step');
CREATE TYPE main.device AS ENUM (
  'cpu', 'cuda:0', 'cuda:1', 'cuda:10', 'cuda:100', 'cuda:101', 'cuda:102', 'cuda:103', 'cuda:104',
  'cuda:105', 'cuda:106', 'cuda:107', 'cuda:108', 'cuda:109', 'cuda:11', 'cuda:110', 'cuda:111', 'cuda:112',
  'cuda:113', 'cuda:114', 'cuda:115', 'cuda:116', 'cuda:117', 'cuda:118', 'cuda:119', 'cuda:12', 'cuda:120',
  'cuda:121', 'cuda:122', 'cuda:123', 'cuda:124', 'cuda:125', 'cuda:126', 'cuda:13', 'cuda:14', 'cuda:15',
  'cuda:16', 'cuda:17', 'cuda:18', 'cuda:19', 'cuda:2', 'cuda:20', 'cuda:21', 'cuda:22', 'cuda:23', 'cuda:24',
  'cuda:25', 'cuda:26', 'cuda:27', 'cuda:28', 'cuda:29', 'cuda:3', 'cuda:30', 'cuda:31', 'cuda:32', 'cuda:33',
  'cuda:34', 'cuda:35', 'cuda:36', 'cuda:37', 'cuda:38', 'cuda:39', 'cuda:4', 'cuda:40', 'cuda:41', 'cuda:42',
  'cuda:43', 'cuda:44', 'cuda:45', 'cuda:46', 'cuda:47', 'cuda:48', 'cuda:49', 'cuda:5', 'cuda:50', 'cuda:51',
  'cuda:52', 'cuda:53', 'cuda:54', 'cuda:55', 'cuda:56', 'cuda:57', 'cuda:58', 'cuda:59', 'cuda:6', 'cuda:60',
  'cuda:61', 'cuda:62', 'cuda:63', 'cuda:64', 'cuda:65', 'cuda:66', 'cuda:67', 'cuda:68', 'cuda:69', 'cuda:7',
  'cuda:70', 'cuda:71', 'cuda:72', 'cuda:73', 'cuda:74', 'cuda:75', 'cuda:76', 'cuda:77', 'cuda:78',
  'cuda:79', 'cuda:8', 'cuda:80', 'cuda:81', 'cuda:82', 'cuda:83', 'cuda:84', 'cuda:85', 'cuda:86', 'cuda:87',
  'cuda:88', 'cuda:89', 'cuda:9', 'cuda:90', 'cuda:91', 'cuda:92', 'cuda:93', 'cuda:94', 'cuda:95', 'cuda:96',
  'cuda:97', 'cuda:98', 'cuda:99');

CREATE TABLE store.migrations (number BIGINT NOT NULL, name VARCHAR NOT NULL, checksum VARCHAR NOT NULL, ts TIMESTAMP NOT NULL);
CREATE TABLE store.names (id INTEGER NOT NULL, text VARCHAR NOT NULL);
CREATE TABLE store.cursors (ring_id UBIGINT NOT NULL, file VARCHAR NOT NULL, seq UBIGINT NOT NULL, done BOOLEAN NOT NULL);
-- How far retention came: rows of the table that are older than done_until were thinned to that level.
CREATE TABLE store.retention (name VARCHAR NOT NULL, level INTEGER NOT NULL, done_until TIMESTAMP NOT NULL);

-- One compression for each column, the one that DuckDB chooses nearly always: trying all of them at every checkpoint
-- takes a quarter of appending.
CREATE TABLE store.trace (
  ts TIMESTAMP NOT NULL USING COMPRESSION bitpacking, pid INTEGER NOT NULL USING COMPRESSION rle,
  rank INTEGER USING COMPRESSION rle, world_size INTEGER USING COMPRESSION rle,
  step BIGINT NOT NULL USING COMPRESSION rle, micro_step INTEGER NOT NULL USING COMPRESSION rle,
  seq INTEGER NOT NULL USING COMPRESSION bitpacking,
  module VARCHAR USING COMPRESSION dictionary, stage main.stage NOT NULL USING COMPRESSION bitpacking,
  device main.device NOT NULL USING COMPRESSION rle,
  allocated BIGINT USING COMPRESSION bitpacking, max_allocated BIGINT USING COMPRESSION bitpacking,
  cached BIGINT USING COMPRESSION bitpacking, max_cached BIGINT USING COMPRESSION bitpacking,
  allocated_delta BIGINT USING COMPRESSION bitpacking, max_allocated_delta BIGINT USING COMPRESSION bitpacking,
  offset_ns BIGINT USING COMPRESSION bitpacking, duration_ns BIGINT USING COMPRESSION bitpacking);

CREATE TABLE store.steps (
  ts TIMESTAMP NOT NULL, pid INTEGER NOT NULL, rank INTEGER, world_size INTEGER,
  step BIGINT NOT NULL, steps INTEGER NOT NULL, duration_ns BIGINT, sampled BOOLEAN NOT NULL, inference BOOLEAN NOT NULL,
  device main.device NOT NULL, allocated BIGINT, max_allocated BIGINT, reserved BIGINT, max_reserved BIGINT,
  rss BIGINT, anon BIGINT, max_rss BIGINT, heap_in_use BIGINT, heap_held BIGINT, py_blocks BIGINT,
  gc_collections BIGINT, gc_full BIGINT, agent_ns BIGINT);

CREATE TABLE store.events (
  ts TIMESTAMP NOT NULL, pid INTEGER, rank INTEGER, name VARCHAR NOT NULL, text VARCHAR NOT NULL, a BIGINT, b BIGINT);

CREATE TABLE store.overhead (
  ts TIMESTAMP NOT NULL, pid INTEGER, rank INTEGER, part VARCHAR NOT NULL, ns BIGINT NOT NULL, count BIGINT NOT NULL,
  steps BIGINT NOT NULL, covered_ns BIGINT NOT NULL, gap BIGINT, measured BOOLEAN NOT NULL);

CREATE TABLE store.drops (
  ts TIMESTAMP NOT NULL, pid INTEGER, source VARCHAR NOT NULL, reason VARCHAR NOT NULL, records BIGINT NOT NULL,
  detail VARCHAR NOT NULL);

CREATE TABLE store.processes (
  pid INTEGER NOT NULL, start_ticks BIGINT NOT NULL, ppid INTEGER, parent INTEGER, rank INTEGER, local_rank INTEGER,
  world_size INTEGER, started TIMESTAMP, ended TIMESTAMP, ending VARCHAR NOT NULL, argv VARCHAR NOT NULL,
  cwd VARCHAR NOT NULL, executable VARCHAR NOT NULL, python VARCHAR NOT NULL, agent VARCHAR NOT NULL);

-- 2^-20 is exact in a DOUBLE: no size below 8 PiB loses a byte.
CREATE VIEW python.torch_trace AS SELECT
  epoch_us(ts) AS timestamp, ts, pid, rank, world_size, step, step AS local_step, step AS global_step, micro_step, seq,
  module, stage, device,
  allocated * 9.5367431640625e-7::DOUBLE AS allocated, max_allocated * 9.5367431640625e-7::DOUBLE AS max_allocated,
  cached * 9.5367431640625e-7::DOUBLE AS cached, max_cached * 9.5367431640625e-7::DOUBLE AS max_cached,
  allocated_delta * 9.5367431640625e-7::DOUBLE AS allocated_delta,
  max_allocated_delta * 9.5367431640625e-7::DOUBLE AS max_allocated_delta,
  offset_ns / 1e9::DOUBLE AS time_offset, duration_ns / 1e9::DOUBLE AS duration, true AS sampled
  FROM store.trace;

CREATE VIEW python.steps AS SELECT
  ts, pid, rank, world_size, step, steps, duration_ns / 1e9::DOUBLE AS duration, sampled, inference, device,
  allocated, max_allocated, reserved, max_reserved, rss, anon, max_rss, heap_in_use, heap_held, py_blocks,
  gc_collections, gc_full, agent_ns
  FROM store.steps;

CREATE VIEW memgauge.events AS SELECT ts, pid, rank, name, text, a, b FROM store.events;

CREATE VIEW memgauge.overhead AS SELECT
  ts, pid, rank, part, ns, count, steps, covered_ns, ns / nullif(covered_ns, 0) AS share, gap, measured
  FROM store.overhead;

CREATE VIEW memgauge.drops AS SELECT ts, pid, source, reason, records, detail FROM store.drops;

CREATE VIEW memgauge.processes AS SELECT
  pid, start_ticks, ppid, parent, rank, local_rank, world_size, started, ended, ending, argv, cwd, executable, python, agent
  FROM store.processes;
