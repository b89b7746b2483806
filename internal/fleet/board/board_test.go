package board

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/quota"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/fleet/skew"
	"github.com/memgauge/memgauge/internal/fleet/skew/simulate"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/test/frames"
)

var began = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// row is one of a table, by column.
type row map[string]any

func batch(table, node string, first uint64, rows ...row) frame.Batch {
	fields := frames.Fields(table)
	return frame.Batch{Header: frame.Header{Job: "j", Node: node, Rank: -1, Session: "s-" + node, Table: table,
		First: first, Count: len(rows)}, Rows: frames.Rows(fields, len(rows), func(f frame.Field, k int) any {
		if v := rows[k][f.Name]; v != nil {
			return v
		}
		return map[string]any{"job": "j", "node": node}[f.Name]
	})}
}

func step(rank, pid, n int, at time.Time, held float64) row {
	return row{"rank": rank, "pid": pid, "step": n, "steps": 1, "inference": false, "device": "cuda:0", "ts": at,
		"allocated": int(held)}
}

// TestBoardJudgesAsGrids: what frames tell, in pieces and twice, is judged as the same values are in one grid.
func TestBoardJudgesAsGrids(t *testing.T) {
	for _, kind := range []skew.Kind{skew.Leak, skew.Lagging, ""} {
		f := simulate.New(3, kind, 32, 400)
		in := skew.Input{Memory: skew.NewGrid(), Time: skew.NewGrid()}
		held, ends := map[skew.Unit][]float64{}, map[skew.Unit][]float64{}
		note := func(into map[skew.Unit][]float64) func(skew.Unit, int64, float64) {
			return func(u skew.Unit, _ int64, v float64) { into[u] = append(into[u], v) }
		}
		f.Each(note(held), note(ends), func(skew.Unit, int64, float64) {})
		b := New(nowhere)
		for u, values := range held {
			var rows []row
			for k, v := range values {
				at := began.Add(time.Duration(ends[u][k] * float64(time.Second))).Truncate(time.Microsecond)
				rows = append(rows, step(u.Rank, 100+u.Rank, k+1, at, v))
				in.Memory.Add(u, int64(k+1), float64(int(v)))
				in.Time.Add(u, int64(k+1), float64(at.UnixMicro())/1e6)
			}
			for half := range 2 {
				part := batch("python.steps", u.Node, uint64(200*half+1),
					rows[200*half:min(len(rows), 200*half+200)]...)
				b.Take([]frame.Batch{part, part}, began)
			}
		}
		list := b.Judge(began, nil)
		if len(list) != 1 || !list[0].Whole || len(list[0].Each) != 32 {
			t.Fatalf("%s: %+v", kind, list)
		}
		if want := skew.Judge(in); !reflect.DeepEqual(sorted(list[0].Skew.Findings), sorted(want.Findings)) ||
			(kind != "") != list[0].Found() {
			t.Errorf("%s: %+v\nwant %+v", kind, list[0].Skew.Findings, want.Findings)
		}
	}
}

// nowhere: nobody knows where nodes are.
func nowhere(string) string { return "" }

func sorted(list []skew.Finding) (text []string) {
	for _, f := range list {
		text = append(text, fmt.Sprintf("%s %d %s %d %.6g", f.Kind, f.Rank, f.Node, f.Since, f.Excess))
	}
	slices.Sort(text)
	return text
}

// job fills a board with n steps, one a second, of eight ranks on two nodes, of which one stops where stops says.
func job(b *Board, n int, stops func(rank int) int) {
	for node := range 2 {
		name := fmt.Sprintf("n%d", node)
		var rows, hosts []row
		for k := 1; k <= n; k++ {
			at := began.Add(time.Duration(k) * time.Second)
			hosts = append(hosts, row{"ts": at, "total": 1 << 40, "available": 1 << 39})
			for r := 4 * node; r < 4*node+4; r++ {
				if last := stops(r); last == 0 || k <= last {
					rows = append(rows, step(r, 100+r, k, at, 1e9))
				}
			}
		}
		b.Take([]frame.Batch{batch("host.memory", name, 1, hosts...), batch("python.steps", name, 1, rows...)}, began)
	}
}

// TestStopped: a rank has stopped where its node goes on to tell of itself, and not where the node's rows are yet to
// come.
func TestStopped(t *testing.T) {
	b := New(nowhere)
	job(b, 300, func(rank int) int { return map[int]int{5: 200}[rank] })
	list := b.Judge(began, nil)
	if len(list) != 1 || len(list[0].Skew.Findings) != 1 || list[0].Skew.Findings[0].Kind != skew.Lagging ||
		list[0].Skew.Findings[0].Rank != 5 {
		t.Errorf("one that stopped: %+v", list)
	}
	b = New(nowhere)
	job(b, 100, func(int) int { return 0 })
	more := func(node string, rank, from, to int) {
		var rows, hosts []row
		for k := from; k <= to; k++ {
			at := began.Add(time.Duration(k) * time.Second)
			if hosts = append(hosts, row{"ts": at, "total": 1 << 40, "available": 1 << 39}); rank >= 0 {
				rows = append(rows, step(rank, 100+rank, k, at, 1e9))
			}
		}
		b.Take([]frame.Batch{batch("host.memory", node, uint64(from), hosts...)}, began)
		if rank >= 0 {
			b.Take([]frame.Batch{batch("python.steps", node, uint64(1000*rank+from), rows...)}, began)
		}
	}
	for rank := 4; rank < 8; rank++ {
		more("n1", rank, 101, 500)
	}
	if list = b.Judge(began, nil); len(list[0].Skew.Findings) > 0 {
		t.Errorf("rows that are yet to come: %+v", list[0].Skew.Findings)
	}
	more("n0", -1, 101, 500)
	if p := b.jobs["j"]["n0"]; p.stopped(0, true) || !p.stopped(0, false) {
		t.Error("a rank whose node tells of itself for minutes has stopped, unless the node is behind")
	}
}

// TestOwnVerdict: the newest judgement of a session counts, once, with what it says of a leak.
func TestOwnVerdict(t *testing.T) {
	b := New(nowhere)
	job(b, 100, func(int) int { return 0 })
	says := func(judgement int, verdict string, rank int) row {
		return row{"ts": began, "judgement": judgement, "run_verdict": verdict, "verdict": verdict, "memory": "device",
			"device": "cuda:0", "pid": 100 + rank, "rank": rank, "by_time": false, "rate_mb_per_step": 8.0,
			"start_step": 40, "unit": "step", "site": "train.py:48", "holder": "__main__.all_losses",
			"advice": "store loss.item()"}
	}
	first := batch("memgauge.findings", "n1", 1, says(1, "healthy", 6))
	second := batch("memgauge.findings", "n1", 2, says(2, "leak", 6), says(2, "healthy", 7))
	b.Take([]frame.Batch{first, second, second, first}, began)
	list := b.Judge(began, nil)
	if len(list) != 1 || list[0].Verdict != detect.Leak || len(b.jobs["j"]["n1"].own["s-n1"].list) != 2 {
		t.Fatalf("%+v", list)
	}
	r := list[0].Each[6]
	if r.Verdict != detect.Leak || r.Site == nil || *r.Site != "train.py:48" || r.Since == nil || *r.Since != 40 ||
		*r.Pace != 8<<20 || *r.Memory != "cuda:0 of rank 6" {
		t.Errorf("%+v", r)
	}
	if list[0].Each[7].Verdict != detect.Healthy || list[0].Each[0].Verdict != detect.Undecided {
		t.Errorf("%+v", list[0].Each)
	}
}

// TestRestart: the processes of a launcher's second attempt begin anew, all of them, and rows of the first that come
// late don't count.
func TestRestart(t *testing.T) {
	b := New(nowhere)
	job(b, 100, func(int) int { return 0 })
	again := began.Add(time.Hour)
	begin := func(rank int) row { return step(rank, 900+rank, 1, again.Add(-time.Duration(rank)*time.Second), 5e9) }
	b.Take([]frame.Batch{batch("python.steps", "n0", 401, begin(0)),
		batch("python.steps", "n0", 301, step(0, 100, 101, began.Add(101*time.Second), 1e9),
			step(1, 101, 101, began.Add(101*time.Second), 1e9))}, began)
	p := b.jobs["j"]["n0"]
	if v := b.Judge(began, nil); len(v) != 1 || v[0].Whole || p.in.Memory.Len() != 1 {
		t.Errorf("of four ranks one has begun anew: %d, %+v", p.in.Memory.Len(), v)
	}
	b.Take([]frame.Batch{batch("python.steps", "n0", 402, begin(1), begin(2), begin(3))}, began)
	if v := b.Judge(began, nil); len(v) != 1 || !v[0].Whole || p.in.Memory.Len() != 4 || p.ranks[0].step != 1 ||
		p.ranks[0].held != 5e9 {
		t.Errorf("all have begun anew: %d, %+v", p.in.Memory.Len(), v)
	}
}

// TestLateStart: a board that has not seen a rank's first step does not say that it has all of a job.
func TestLateStart(t *testing.T) {
	b := New(nowhere)
	b.Take([]frame.Batch{batch("python.steps", "n0", 5000, step(0, 1, 5000, began, 1e9))}, began)
	if v := b.Judge(began, nil); len(v) != 1 || v[0].Whole {
		t.Errorf("%+v", v)
	}
}

// TestBoardForgets: a job of which nothing comes is gone, with its ranks; a node's ranks are bounded.
func TestBoardForgets(t *testing.T) {
	b := New(nowhere)
	job(b, 10, func(int) int { return 0 })
	if v := b.Judge(began.Add(quiet), nil); len(v) != 1 {
		t.Error("it is forgotten too early")
	}
	if v := b.Judge(began.Add(quiet+1), nil); len(v) != 0 || len(b.jobs) != 0 || b.kept.Sum() != 0 {
		t.Errorf("%+v, %d bytes", v, b.kept.Sum())
	}
	var rows []row
	for r := range nodeRanks + 10 {
		rows = append(rows, step(r, r, 1, began, 1e9))
	}
	b.Take([]frame.Batch{batch("python.steps", "n0", 1, rows...)}, began)
	if ranks := len(b.jobs["j"]["n0"].ranks); ranks != nodeRanks || b.Refused() != 10 {
		t.Errorf("%d ranks, %d refused", ranks, b.Refused())
	}
}

// finds is a row of a session that leaks, with long words.
func finds(rank int) row {
	long := strings.Repeat("x", 2*maxText)
	return row{"ts": began, "judgement": 1, "run_verdict": "leak", "verdict": "leak", "memory": "device",
		"device": "cuda:0", "pid": 1, "rank": rank, "by_time": false, "rate_mb_per_step": 8.0, "start_step": 40,
		"unit": "step", "site": long, "holder": long, "advice": long}
}

// TestMadeUpNames: five thousand made-up names, jobs and sessions of one origin take a bounded memory, and neither the
// place of a node of another origin nor that of a small one of the same.
func TestMadeUpNames(t *testing.T) {
	b := New(func(node string) string { return node[:1] })
	b.kept = quota.New(4<<20, 100)
	job(b, 10, func(int) int { return 0 }) // n0 and n1
	small := batch("memgauge.findings", "x-small", 1, finds(0))
	b.Take([]frame.Batch{small}, began)
	var rows []row
	for r := range 4 {
		rows = append(rows, finds(r))
	}
	found := batch("memgauge.findings", "x", 1, rows...)
	ranks := batch("python.steps", "x", 1, step(0, 1, 1, began, 1e9), step(1, 1, 1, began, 1e9))
	for i := range 5000 {
		for _, one := range []frame.Batch{found, ranks} {
			one.Node, one.Job, one.Session = fmt.Sprint("x", i), fmt.Sprint("j", i%100), fmt.Sprint(i)
			b.Take([]frame.Batch{one}, began)
		}
		if b.kept.Sum() > 4<<20 {
			t.Fatalf("%d bytes", b.kept.Sum())
		}
	}
	sum := int64(0)
	for _, places := range b.jobs {
		for _, p := range places {
			sum += p.bytes()
		}
	}
	if sum != b.kept.Sum() || b.Refused() < 4000 {
		t.Errorf("%d bytes are there, %d counted; %d refused", sum, b.kept.Sum(), b.Refused())
	}
	for _, name := range []string{"n0", "n1", "x-small"} {
		if b.jobs["j"][name] == nil {
			t.Errorf("%s gave way", name)
		}
	}
}

// TestCosts: what a board counts is no less than the memory that it takes.
func TestCosts(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for name, fill := range map[string]func(b *Board, node string){
		"ranks": func(b *Board, node string) {
			var rows, hosts []row
			for k := range 200 {
				at := began.Add(time.Duration(k) * time.Second)
				hosts = append(hosts, row{"ts": at, "total": 1 << 40, "available": 1 << 39})
				for r := range 8 {
					one := step(r, 1, k, at, 1e9)
					one["anon"] = 1 << 30
					rows = append(rows, one)
				}
			}
			b.Take([]frame.Batch{batch("host.memory", node, 1, hosts...),
				batch("python.steps", node, 1, rows...)}, began)
		},
		"findings": func(b *Board, node string) {
			var rows []row
			for r := range 64 {
				rows = append(rows, finds(r))
			}
			b.Take([]frame.Batch{batch("memgauge.findings", node, 1, rows...)}, began)
		},
		"places": func(b *Board, node string) {
			b.Take([]frame.Batch{batch("host.memory", node, 1, row{"ts": began, "total": 2, "available": 1})}, began)
		},
	} {
		b := New(nowhere)
		before := heap()
		for i := range 30 {
			fill(b, fmt.Sprint("node-", i))
		}
		took := heap() - before
		t.Logf("%s: %d bytes, counted %d", name, took, b.kept.Sum())
		if took > b.kept.Sum() {
			t.Errorf("%s: %d bytes, and %d are counted", name, took, b.kept.Sum())
		}
		runtime.KeepAlive(b)
	}
}
