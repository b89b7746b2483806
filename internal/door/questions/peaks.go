package questions

import "github.com/memgauge/memgauge/internal/judge/detect"

// Raised are the phases of trainings in which a memory rose higher than before, with what it did otherwise, and those
// in which memory ran out: no end of the phase is known, nor a step after it. Device peaks name the device at the
// text's end. detect.Peaks judges them.
const Raised Of[detect.Raised] = `WITH told AS (
	SELECT ts, pid, coalesce(rank, -1) AS rank, code, a, b, name,
		regexp_extract(text, ' \((cuda:[0-9]+)\)$', 1) AS device, regexp_replace(text, ' \(cuda:[0-9]+\)$', '') AS text
	FROM memgauge.events WHERE name = 'peak' OR name = 'phase'),
 raised AS (SELECT *, false AS ran_out FROM told WHERE name = 'peak'
	UNION ALL SELECT * REPLACE (coalesce((SELECT 'cuda:' || o.b FROM memgauge.events o WHERE o.name = 'oom' AND
		o.pid = p.pid AND o.b >= 0 AND o.ts >= p.ts ORDER BY o.ts LIMIT 1), '') AS device), true
	FROM told p WHERE name = 'phase'
	AND NOT EXISTS (FROM memgauge.events o WHERE o.name = 'phase over' AND o.pid = p.pid AND o.ts >= p.ts)
	AND NOT EXISTS (FROM python.steps s WHERE s.pid = p.pid AND s.ts > p.ts)
	AND EXISTS (FROM memgauge.events o WHERE o.name IN ('oom', 'oom_kill') AND coalesce(o.pid, p.pid) = p.pid
		AND o.ts >= p.ts)),
 highest AS (SELECT pid, '' AS device, max(max_rss) AS bytes FROM python.steps GROUP BY pid
	UNION ALL SELECT pid, device, max(max_allocated) FROM python.step_devices GROUP BY ALL),
 inside AS (SELECT pid, if(device LIKE 'cuda%', device, '') AS device, count(DISTINCT step) AS looked,
		max(if(device LIKE 'cuda%', allocated, cached)) * 1048576 AS bytes
	FROM python.torch_trace WHERE step > 2 GROUP BY ALL),
 ends AS (SELECT ts, pid, '' AS device, rss AS held FROM python.steps
	UNION ALL SELECT ts, pid, device, allocated FROM python.step_devices)
SELECT epoch_us(r.ts) AS t, r.pid, r.rank, r.device, coalesce(r.code, '') AS phase, r.text, r.ran_out,
	coalesce((SELECT max(s.step) FROM python.steps s WHERE s.pid = r.pid AND s.ts <= r.ts), 0) AS step,
	coalesce(r.a, 0) AS peak, coalesce(r.b, 0) AS before,
	greatest(coalesce(r.a, 0), coalesce(h.bytes, 0))::BIGINT AS highest,
	coalesce((SELECT median(e.held) FROM ends e WHERE e.pid = r.pid AND e.device = r.device AND e.ts > r.ts), 0)::BIGINT
		AS level,
	coalesce(i.bytes, 0)::BIGINT AS inside, coalesce(i.looked, 0) AS looked
FROM raised r LEFT JOIN highest h ON h.pid = r.pid AND h.device = r.device
LEFT JOIN inside i ON i.pid = r.pid AND i.device = r.device ORDER BY r.ts LIMIT 1000`
