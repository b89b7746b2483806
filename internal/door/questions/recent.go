package questions

import (
	"fmt"
	"strings"
)

// Row is a reading of any kind, so that one statement and one answer carry what is new in all tables. Unknown is -1.
type Row struct {
	K    string `json:"k"`
	T    int64  `json:"t"` // µs since the epoch
	ID   int64  `json:"id"`
	Name string `json:"name"`
	Text string `json:"text"`
	A    int64  `json:"a"`
	B    int64  `json:"b"`
	C    int64  `json:"c"`
	D    int64  `json:"d"`
	E    int64  `json:"e"`
	F    int64  `json:"f"`
	G    int64  `json:"g"`
	H    int64  `json:"h"`
}

// kind is a table's share of the statement: %[1]s is the condition on ts, %[2]d the bucket in µs.
type kind struct{ name, sql string }

// Of a bucket the fullest reading stands for all, with every class as it was at that moment; of steps the lowest.
var kinds = []kind{
	{"m", `SELECT 'm' AS k, v.t AS t, pid AS id, '' AS name, '' AS text, v.a AS a, v.b AS b, v.c AS c, v.d AS d,
		v.e AS e, v.f AS f, v.g AS g, v.h AS h FROM (SELECT pid, arg_max(struct_pack(t := epoch_us(ts),
		a := coalesce(` + Anonymous + `, -1), b := coalesce(file, -1), c := coalesce(shmem, -1),
		d := coalesce(swap, -1), e := coalesce(` + HeapInUse + `, -1), f := rss,
		g := coalesce(((cpu_user + cpu_system) * 1e6)::BIGINT, -1), h := coalesce(` + HeapFree + `, -1)), rss) AS v
		FROM process.memory
		WHERE rss IS NOT NULL AND %[1]s GROUP BY pid, epoch_us(ts) // %[2]d)`},
	{"s", `SELECT 's', max(epoch_us(ts)), pid, '', '', max(step), coalesce(min(anon), -1),
		coalesce(min(heap_in_use), -1), coalesce((max(duration / steps) * 1e6)::BIGINT, -1), -1, -1, -1, -1
		FROM python.steps WHERE %[1]s GROUP BY pid, epoch_us(ts) // %[2]d`},
	{"d", `SELECT 'd', max(epoch_us(ts)), pid, device::VARCHAR, '', coalesce(min(allocated), -1),
		coalesce(max(reserved), -1), coalesce(max(max_allocated), -1), -1, -1, -1, -1, -1
		FROM python.step_devices WHERE %[1]s GROUP BY pid, device, epoch_us(ts) // %[2]d`},
	{"c", `SELECT 'c', v.t, 0, path, '', v.a, v.b, v.c, v.d, v.e, v.f, v.g, -1 FROM (SELECT path,
		arg_max(struct_pack(t := epoch_us(ts), a := current, b := coalesce(limit_bytes, -1), c := coalesce(anon, -1),
		d := coalesce(file, -1), e := coalesce(shmem, -1), f := coalesce(kernel, -1),
		g := coalesce(inactive_file, -1)), current) AS v FROM cgroup.memory WHERE current IS NOT NULL AND %[1]s
		GROUP BY path, epoch_us(ts) // %[2]d)`},
	{"h", `SELECT 'h', v.t, 0, '', '', v.a, v.b, v.c, v.d, -1, -1, -1, -1 FROM (SELECT
		arg_min(struct_pack(t := epoch_us(ts), a := total, b := available, c := coalesce(swap_total, -1),
		d := coalesce(swap_free, -1)), available) AS v FROM host.memory WHERE available IS NOT NULL AND %[1]s
		GROUP BY epoch_us(ts) // %[2]d)`},
	{"g", `SELECT 'g', v.t, device_id, v.n, '', v.a, v.b, v.c, v.d, v.e, -1, -1, -1 FROM (SELECT device_id,
		arg_max(struct_pack(t := epoch_us(ts), n := coalesce(name, ''), a := used_bytes,
		b := coalesce(total_bytes, -1), c := coalesce(gpu_util_pct, -1), d := coalesce(temperature_c, -1),
		e := coalesce(power_w::BIGINT, -1)), used_bytes) AS v FROM gpu.utilization
		WHERE used_bytes IS NOT NULL AND %[1]s GROUP BY device_id, epoch_us(ts) // %[2]d)`},
	{"p", `SELECT 'p', t, pid, '', '', max(total)::BIGINT, -1, -1, -1, -1, -1, -1, -1 FROM (
		SELECT pid, max(epoch_us(ts)) OVER (PARTITION BY pid, epoch_us(ts) // %[2]d) AS t,
		sum(used_bytes) OVER (PARTITION BY pid, ts) AS total FROM gpu.processes
		WHERE in_job AND used_bytes IS NOT NULL AND %[1]s) GROUP BY pid, t`},
	{"e", `SELECT 'e', epoch_us(ts), coalesce(pid, 0), name, coalesce(text, ''), -1, -1, -1, -1, -1, -1, -1, -1 FROM (
		SELECT * FROM memgauge.events WHERE ` + TheirEvents + ` AND %[1]s ORDER BY ts DESC LIMIT 2000)`},
}

// overlap: rows of another process may be stored a little later than newer ones.
const overlap = 2e6 // µs

// Recent are the readings of all kinds since those of each that were read last (µs since the epoch, by kind), in
// buckets of so many µs. Of a kind that has none yet they are all, and where something was read before, those with a
// time.
func Recent(since map[string]int64, begun bool, bucket int64) Of[Row] {
	list := make([]string, len(kinds))
	for i, k := range kinds {
		cond := "true"
		if at := since[k.name]; at > 0 {
			cond = fmt.Sprintf("ts > make_timestamp(%d)", at-overlap)
		} else if begun {
			cond = "ts IS NOT NULL"
		}
		list[i] = fmt.Sprintf(k.sql, cond, bucket)
	}
	return Of[Row]("SELECT * FROM (" + strings.Join(list, "\nUNION ALL ") + ") ORDER BY t")
}
