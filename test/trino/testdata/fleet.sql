-- One file for both engines: what runs on one machine runs on a thousand. Each result has an order.
-- name: leak_slope
SELECT rank, CAST(round(regr_slope(allocated, step)) AS bigint) AS bytes_per_step FROM python.steps
WHERE job = 'llama' GROUP BY rank ORDER BY 2 DESC, 1 LIMIT 5;
-- name: odd_rank
WITH r AS (SELECT rank, avg(allocated) AS a FROM python.steps WHERE job = 'llama' AND step >= 100 GROUP BY rank),
z AS (SELECT avg(a) AS m, stddev_samp(a) AS s FROM r)
SELECT rank, round((a - m) / s, 6) AS z FROM r, z ORDER BY 2 DESC, 1 LIMIT 3;
-- name: peak_per_node
SELECT node, max(max_allocated) AS peak, count(*) AS n FROM python.steps GROUP BY node ORDER BY node;
-- name: growth
WITH d AS (SELECT rank, step, allocated - lag(allocated) OVER (PARTITION BY rank ORDER BY step) AS delta FROM python.steps)
SELECT rank, max(delta) AS most, count(delta) AS n FROM d GROUP BY rank ORDER BY rank;
-- name: hours
SELECT date, hour, count(*) AS n, min(step) AS first_step, max(ts) AS last_ts FROM python.steps
GROUP BY date, hour ORDER BY date, hour;
-- name: types
SELECT job, node, rank, ts, step, duration, sampled, device, allocated FROM python.steps
WHERE step <= 2 ORDER BY rank, step;
-- name: seed_growth
WITH memory_trend AS (SELECT step, max(allocated) AS peak_memory, LAG(max(allocated)) OVER (ORDER BY step) AS prev_peak
FROM python.steps GROUP BY step)
SELECT step, peak_memory, prev_peak, peak_memory - prev_peak AS growth FROM memory_trend
WHERE peak_memory > prev_peak ORDER BY step LIMIT 10;
-- name: joined
SELECT s.rank, count(*) AS n, count(m.rss) AS with_memory FROM python.steps s
LEFT JOIN process.memory m ON m.job = s.job AND m.node = s.node AND m.pid = s.pid GROUP BY s.rank ORDER BY s.rank;
-- name: global_schema
SELECT max(step) AS last_step, count(DISTINCT rank) AS n FROM global.steps;
-- name: global_catalog
SELECT max(step) AS last_step, count(DISTINCT node) AS n FROM global.python.steps;
