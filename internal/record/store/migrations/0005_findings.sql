-- Verdicts with their evidence: docs/detect.md. A judgement is a set of rows with the same ts and number, one for each memory that
-- was judged; a new one is kept when it differs from the one before.
CREATE TABLE store.findings (
  ts TIMESTAMP NOT NULL, judgement BIGINT NOT NULL, run_verdict VARCHAR NOT NULL, verdict VARCHAR NOT NULL, class VARCHAR NOT NULL,
  memory VARCHAR NOT NULL, device VARCHAR NOT NULL, pid INTEGER NOT NULL, rank INTEGER, worker BOOLEAN NOT NULL,
  rate DOUBLE, rate_low DOUBLE, rate_high DOUBLE, by_time BOOLEAN NOT NULL, start_step BIGINT, end_step BIGINT, grown BIGINT,
  noise DOUBLE, p DOUBLE, readings BIGINT NOT NULL, reason VARCHAR NOT NULL, site VARCHAR NOT NULL, holder VARCHAR NOT NULL,
  held VARCHAR NOT NULL, evidence VARCHAR NOT NULL, advice VARCHAR NOT NULL, limit_name VARCHAR NOT NULL,
  seconds_to_limit DOUBLE, seconds_low DOUBLE, seconds_high DOUBLE);

CREATE VIEW memgauge.findings AS SELECT
  ts, judgement, run_verdict, verdict, class, memory, nullif(device, '') AS device, pid, rank, worker,
  rate / 1048576 AS rate_mb_per_step, rate_low / 1048576 AS rate_low, rate_high / 1048576 AS rate_high, by_time,
  start_step, end_step, grown, noise, p, readings, reason, nullif(site, '') AS site, nullif(holder, '') AS holder,
  nullif(held, '') AS held, evidence, advice, nullif(limit_name, '') AS limit_name, seconds_to_limit, seconds_low, seconds_high
  FROM store.findings;
