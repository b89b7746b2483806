package tui

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/questions"
)

// reader asks a session for what is new. One read is under way at a time.
type reader struct {
	s        api.Session
	since    map[string]int64 // µs: the newest of each kind of row
	begun    bool
	ticks    int
	judgment int64 // the newest that was read
}

// batch is what one read has found.
type batch struct {
	rows     []row
	bucket   int64 // µs
	tree     []treeRow
	findings []questions.Finding
	end      api.End
}

// row is a reading of any kind, so that one statement and one answer carry what is new in all tables. Unknown is -1.
type row struct {
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
}

type treeRow struct {
	PID      int    `json:"pid"`
	PPID     int    `json:"ppid"`
	Rank     int    `json:"rank"`
	Role     string `json:"role"`
	Command  string `json:"command"`
	Started  int64  `json:"started"`
	LastSeen int64  `json:"last_seen"`
	Ended    bool   `json:"ended"`
}

const treeSQL = `SELECT pid, coalesce(ppid, 0) AS ppid, coalesce(rank, -1) AS rank, coalesce(role, '') AS role,
	coalesce(nullif(command, ''), comm, '') AS command, coalesce(epoch_us(started), 0) AS started,
	coalesce(epoch_us(last_seen), 0) AS last_seen, coalesce(ended, false) AS ended
	FROM process.tree ORDER BY first_seen LIMIT 4096`

// spanSQL is the time that the tables cover.
const spanSQL = `SELECT coalesce(min(a), 0) AS a, coalesce(max(b), 0) AS b FROM (
	SELECT min(epoch_us(ts)) AS a, max(epoch_us(ts)) AS b FROM process.memory
	UNION ALL SELECT min(epoch_us(ts)), max(epoch_us(ts)) FROM python.steps
	UNION ALL SELECT min(epoch_us(ts)), max(epoch_us(ts)) FROM host.memory)`

// part is a table's share of the statement: %[1]s is the condition on ts, %[2]d the bucket in µs.
type part struct{ kind, sql string }

// Of a bucket the fullest reading stands for all, with every class as it was at that moment; of steps the lowest.
var parts = []part{
	{"m", `SELECT 'm' AS k, v.t AS t, pid AS id, '' AS name, '' AS text, v.a AS a, v.b AS b, v.c AS c, v.d AS d,
		v.e AS e, v.f AS f, v.g AS g FROM (SELECT pid, arg_max(struct_pack(t := epoch_us(ts), a := coalesce(anon, -1),
		b := coalesce(file, -1), c := coalesce(shmem, -1), d := coalesce(swap, -1), e := coalesce(heap_in_use, -1),
		f := rss, g := coalesce(((cpu_user + cpu_system) * 1e6)::BIGINT, -1)), rss) AS v FROM process.memory
		WHERE rss IS NOT NULL AND %[1]s GROUP BY pid, epoch_us(ts) // %[2]d)`},
	{"s", `SELECT 's', max(epoch_us(ts)), pid, '', '', max(step), coalesce(min(anon), -1),
		coalesce(min(heap_in_use), -1), coalesce((max(duration / steps) * 1e6)::BIGINT, -1), -1, -1, -1
		FROM python.steps WHERE %[1]s GROUP BY pid, epoch_us(ts) // %[2]d`},
	{"d", `SELECT 'd', max(epoch_us(ts)), pid, device::VARCHAR, '', coalesce(min(allocated), -1),
		coalesce(max(reserved), -1), coalesce(max(max_allocated), -1), -1, -1, -1, -1
		FROM python.step_devices WHERE %[1]s GROUP BY pid, device, epoch_us(ts) // %[2]d`},
	{"c", `SELECT 'c', v.t, 0, path, '', v.a, v.b, v.c, v.d, v.e, v.f, v.g FROM (SELECT path,
		arg_max(struct_pack(t := epoch_us(ts), a := current, b := coalesce(limit_bytes, -1), c := coalesce(anon, -1),
		d := coalesce(file, -1), e := coalesce(shmem, -1), f := coalesce(kernel, -1),
		g := coalesce(inactive_file, -1)), current) AS v FROM cgroup.memory WHERE current IS NOT NULL AND %[1]s
		GROUP BY path, epoch_us(ts) // %[2]d)`},
	{"h", `SELECT 'h', v.t, 0, '', '', v.a, v.b, v.c, v.d, -1, -1, -1 FROM (SELECT
		arg_min(struct_pack(t := epoch_us(ts), a := total, b := available, c := coalesce(swap_total, -1),
		d := coalesce(swap_free, -1)), available) AS v FROM host.memory WHERE available IS NOT NULL AND %[1]s
		GROUP BY epoch_us(ts) // %[2]d)`},
	{"g", `SELECT 'g', v.t, device_id, v.n, '', v.a, v.b, v.c, v.d, v.e, -1, -1 FROM (SELECT device_id,
		arg_max(struct_pack(t := epoch_us(ts), n := coalesce(name, ''), a := used_bytes,
		b := coalesce(total_bytes, -1), c := coalesce(gpu_util_pct, -1), d := coalesce(temperature_c, -1),
		e := coalesce(power_w::BIGINT, -1)), used_bytes) AS v FROM gpu.utilization
		WHERE used_bytes IS NOT NULL AND %[1]s GROUP BY device_id, epoch_us(ts) // %[2]d)`},
	{"p", `SELECT 'p', t, pid, '', '', max(total)::BIGINT, -1, -1, -1, -1, -1, -1 FROM (
		SELECT pid, max(epoch_us(ts)) OVER (PARTITION BY pid, epoch_us(ts) // %[2]d) AS t,
		sum(used_bytes) OVER (PARTITION BY pid, ts) AS total FROM gpu.processes
		WHERE in_job AND used_bytes IS NOT NULL AND %[1]s) GROUP BY pid, t`},
	{"e", `SELECT 'e', epoch_us(ts), coalesce(pid, 0), name, coalesce(text, ''), -1, -1, -1, -1, -1, -1, -1 FROM (
		SELECT * FROM memgauge.events WHERE name <> 'eval begin' AND %[1]s ORDER BY ts DESC LIMIT 2000)`},
}

const (
	// buckets of what is read first: more than the columns of dots of any terminal.
	buckets = 2000
	// overlap: rows of another process may be stored a little later than newer ones.
	overlap = 2e6 // µs
	// fresh is the bucket of what is new: a screen that changes once a second shows no more.
	fresh = 200_000 // µs
	// slowEvery is how many reads pass between those of what changes slowly: the tree and the verdicts.
	slowEvery = 5
)

// read asks for what is new. A session whose collector has ended is opened anew.
func (r *reader) read(ctx context.Context) (batch, error) {
	b, err := r.once(ctx)
	if errors.Is(err, api.ErrBroken) {
		_ = r.s.Close()
		b, err = r.once(ctx)
	}
	return b, err
}

// once reads at first everything, in buckets.
func (r *reader) once(ctx context.Context) (b batch, err error) {
	b.bucket = fresh
	if !r.begun {
		var span []struct {
			A int64 `json:"a"`
			B int64 `json:"b"`
		}
		if span, err = api.Rows[struct {
			A int64 `json:"a"`
			B int64 `json:"b"`
		}](ctx, r.s, spanSQL); err != nil {
			return b, err
		}
		b.bucket = max(1, (span[0].B-span[0].A)/buckets)
		r.since = map[string]int64{}
	}
	if b.rows, err = api.Rows[row](ctx, r.s, r.statement(b.bucket)); err != nil {
		return b, err
	}
	for _, x := range b.rows {
		r.since[x.K] = max(r.since[x.K], x.T)
	}
	if r.ticks%slowEvery == 0 {
		if err := r.readSlow(ctx, &b); err != nil {
			return b, err
		}
	}
	r.ticks++
	r.begun = true
	b.end, err = r.s.End(ctx)
	return b, err
}

func (r *reader) readSlow(ctx context.Context, b *batch) (err error) {
	if b.tree, err = api.Rows[treeRow](ctx, r.s, treeSQL); err != nil {
		return err
	}
	b.findings, err = api.Ask(ctx, r.s, questions.Findings(r.judgment))
	for _, f := range b.findings {
		r.judgment = max(r.judgment, f.Number)
	}
	return err
}

func (r *reader) statement(bucket int64) string {
	list := make([]string, len(parts))
	for i, p := range parts {
		cond := "true"
		if since := r.since[p.kind]; since > 0 {
			cond = fmt.Sprintf("ts > make_timestamp(%d)", since-overlap)
		} else if r.begun {
			cond = "ts IS NOT NULL"
		}
		list[i] = fmt.Sprintf(p.sql, cond, bucket)
	}
	return "SELECT * FROM (" + strings.Join(list, "\nUNION ALL ") + ") ORDER BY t"
}
