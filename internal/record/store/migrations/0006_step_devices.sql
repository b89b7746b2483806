-- Every device's allocator at the end of each step that it was read at. python.steps goes on to show the fullest one; what it shows of
-- the host does not depend on devices.
CREATE TABLE store.step_devices (
  ts TIMESTAMP NOT NULL, pid INTEGER NOT NULL, rank INTEGER, step BIGINT NOT NULL, steps INTEGER NOT NULL,
  inference BOOLEAN NOT NULL, device main.device NOT NULL, allocated BIGINT, max_allocated BIGINT, reserved BIGINT,
  max_reserved BIGINT);

-- Sessions of before have the fullest device only.
INSERT INTO store.step_devices
  SELECT ts, pid, rank, step, steps, inference, device, allocated, max_allocated, reserved, max_reserved
  FROM store.steps WHERE device <> 'cpu';

CREATE VIEW python.step_devices AS SELECT
  ts, pid, rank, step, steps, inference, device, allocated, max_allocated, reserved, max_reserved
  FROM store.step_devices;

-- Programs without steps are judged by time: their rates are by second, and start_step and end_step are seconds.
CREATE OR REPLACE VIEW memgauge.findings AS SELECT
  ts, judgement, run_verdict, verdict, class, memory, nullif(device, '') AS device, pid, rank, worker,
  CASE WHEN NOT by_time THEN rate / 1048576 END AS rate_mb_per_step, rate_low / 1048576 AS rate_low,
  rate_high / 1048576 AS rate_high, by_time, start_step, end_step, grown, noise, p, readings, reason,
  nullif(site, '') AS site, nullif(holder, '') AS holder, nullif(held, '') AS held, evidence, advice,
  nullif(limit_name, '') AS limit_name, seconds_to_limit, seconds_low, seconds_high,
  CASE WHEN by_time THEN rate / 1048576 END AS rate_mb_per_second
  FROM store.findings;
