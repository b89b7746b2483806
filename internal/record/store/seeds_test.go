package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
)

// seen is a row as a user sees it, made from the model by hand.
type seen struct {
	step, seq                               int64
	module, stage                           string
	alloc, maxAlloc, cached, delta, seconds float64 // NaN is NULL
}

const oracleSteps = 130 // more than the 100 that the longest window of the statements looks back

var stageNames = []string{"pre forward", "post forward", "pre step", "post step", "pre backward", "post backward"}

// oracleTrace is a trace without ties, and what a user must see of it.
func oracleTrace() (b model.Batch, rows []seen) {
	b.Names = moduleNames()
	mb := func(n int64) float64 {
		if n == model.Null {
			return math.NaN()
		}
		return float64(n) / (1 << 20)
	}
	for i := range int64(oracleSteps * perStep) {
		r := traceRow(i, -1)
		r.Allocated += i     // no two alike
		if r.Module%5 == 0 { // some vary from step to step
			r.Allocated += (r.Step * 7 % 40) << 20
		}
		b.Trace = append(b.Trace, r)
		s := seen{step: r.Step, seq: int64(r.Seq), module: b.Names[r.Module-1].Text, stage: stageNames[r.Stage],
			alloc: mb(r.Allocated), maxAlloc: mb(r.MaxAllocated), cached: mb(r.Cached), delta: mb(r.AllocatedDelta),
			seconds: math.NaN()}
		if r.DurationNS != model.Null {
			s.seconds = float64(r.DurationNS) / 1e9
		}
		rows = append(rows, s)
	}
	return b, rows
}

// statement is one that must run as it stands.
type statement struct {
	sql   string
	later bool
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// seedStatements are all SQL of the Probing documents: the sql blocks, and the queries of shell blocks.
func seedStatements(t *testing.T) (all []statement) {
	query := regexp.MustCompile(`(?s)\bquery "(.*?)"`)
	block := regexp.MustCompile("(?s)```(\\w+)\n(.*?)```")
	for _, doc := range []string{"seeds/probing-memory-analysis.en.md", "seeds/probing-memory-leak-example.zh-CN.md"} {
		for _, m := range block.FindAllStringSubmatch(readFile(t, doc), -1) {
			switch m[1] {
			case "sql":
				all = append(all, statement{sql: m[2]})
			case "bash":
				for _, q := range query.FindAllStringSubmatch(m[2], -1) {
					all = append(all, statement{sql: q[1]})
				}
			}
		}
	}
	return all
}

func factStatements(t *testing.T) (all []statement) {
	later := false
	for line := range strings.Lines(readFile(t, "sql/facts.sql")) {
		line = strings.TrimSpace(line)
		switch {
		case line == "-- later":
			later = true
		case line != "" && !strings.HasPrefix(line, "--"):
			all = append(all, statement{strings.TrimSuffix(line, ";"), later})
			later = false
		}
	}
	return all
}

func TestStatementsThatMustRun(t *testing.T) {
	seeds, facts := seedStatements(t), factStatements(t)
	if len(seeds) != 9 || len(facts) != 19 {
		t.Fatalf("found %d statements in the seeds and %d in facts.sql, want 9 and 19", len(seeds), len(facts))
	}
	batch, rows := oracleTrace()
	db := open(t, Options{})
	batch.Samples = oracleSamples()
	add(t, db, &batch)
	if err := db.SetBacktrace(context.Background(), someStacks); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, s := range append(seeds, facts...) {
		key := strings.ToLower(strings.Join(strings.Fields(s.sql), " "))
		key = strings.TrimSuffix(key, ";")
		if s.later {
			_, err := tryAsk(context.Background(), db, s.sql)
			if !errors.Is(err, ErrNoTable) || !strings.HasPrefix(err.Error(), "no such table: ") {
				t.Errorf("%s\nerror %v, want one that says there is no such table", s.sql, err)
			}
			continue
		}
		name, want := oracleFor(t, key)
		used[name] = true
		compareRows(t, s.sql, ask(t, db, s.sql), want(rows))
	}
	for name := range oracles {
		if !used[name] {
			t.Errorf("no statement is checked by the oracle for %q", name)
		}
	}
}

// oracleFor finds the computation by a piece of text that only its statements contain.
func oracleFor(t *testing.T, sql string) (string, func([]seen) [][]any) {
	t.Helper()
	var found []string
	for piece := range oracles {
		if strings.Contains(sql, piece) {
			found = append(found, piece)
		}
	}
	if len(found) != 1 {
		t.Fatalf("oracles %q fit this statement, want exactly one:\n%s", found, sql)
	}
	return found[0], oracles[found[0]]
}

// someStacks replaces what is there, so that a second one who asks sees nothing of the first one's.
var someStacks = []model.Backtrace{
	{Time: 1e15, PID: 7, Rank: -1, TID: 7, Name: "Main", Func: "T.fit", File: "/job/train's.py", Line: 48,
		Kind: model.FramePython},
	{Time: 1e15, PID: 7, Rank: -1, TID: 7, Name: "Main", Depth: 1, Func: "<module>", File: "/job/a.py", Line: 9,
		Kind: model.FramePython},
	{Time: 1e15, PID: 8, Rank: 1, Name: "a\x00b", Func: "sleeping in futex", Kind: model.FrameKernel},
}

func compareRows(t *testing.T, sql string, got, want [][]any) {
	t.Helper()
	if len(want) == 0 {
		t.Errorf("the oracle expects no rows, so it checks nothing:\n%s", sql)
	}
	if len(got) != len(want) {
		t.Errorf("%d rows, want %d:\n%s", len(got), len(want), sql)
		return
	}
	for i := range want {
		if !slices.EqualFunc(got[i], want[i], same) {
			t.Errorf("row %d is %v, want %v:\n%s", i, got[i], want[i], sql)
			return
		}
	}
}

// same compares values; sums of floats depend on their order, so they may differ in the last digits.
func same(a, b any) bool {
	x, okx := a.(float64)
	y, oky := b.(float64)
	if okx && oky {
		return math.Abs(x-y) <= 1e-9*math.Max(1, math.Abs(y))
	}
	if oky && math.IsNaN(y) {
		return a == nil
	}
	return fmt.Sprint(a) == fmt.Sprint(b)
}

// group collects rows by key, in the order of keys.
func group[K cmp.Ordered](rows []seen, key func(seen) K) (keys []K, groups map[K][]seen) {
	groups = map[K][]seen{}
	for _, r := range rows {
		groups[key(r)] = append(groups[key(r)], r)
	}
	return slices.Sorted(maps.Keys(groups)), groups
}

func byStep(r seen) int64         { return r.step }
func byModuleStage(r seen) string { return r.module + "\x00" + r.stage }

func alloc(r seen) float64   { return r.alloc }
func seconds(r seen) float64 { return r.seconds }

// values are those of a column that are not NULL.
func values(rows []seen, of func(seen) float64) (v []float64) {
	for _, r := range rows {
		if x := of(r); !math.IsNaN(x) {
			v = append(v, x)
		}
	}
	return v
}

// The aggregates give NaN (NULL) where there is nothing.
func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

func top(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	return slices.Max(v)
}

func bottom(v []float64) float64 { return slices.Min(v) }

func deviation(v []float64) float64 {
	m, sum := mean(v), 0.0
	for _, x := range v {
		sum += (x - m) * (x - m)
	}
	return math.Sqrt(sum / float64(len(v)-1))
}

func where(rows []seen, keep func(seen) bool) (out []seen) {
	for _, r := range rows {
		if keep(r) {
			out = append(out, r)
		}
	}
	return out
}

// last keeps the newest n steps.
func last(rows []seen, n int64) []seen {
	return where(rows, func(r seen) bool { return r.step > oracleSteps-n })
}

// perGroup makes a row of each group; nil leaves the group out.
func perGroup[K cmp.Ordered](rows []seen, key func(seen) K, row func([]seen) []any) (out [][]any) {
	keys, groups := group(rows, key)
	for _, k := range keys {
		if r := row(groups[k]); r != nil {
			out = append(out, r)
		}
	}
	return out
}

// descending sorts by a column and cuts.
func descending(rows [][]any, column, limit int) [][]any {
	slices.SortStableFunc(rows, func(a, b []any) int { return cmp.Compare(b[column].(float64), a[column].(float64)) })
	return rows[:min(limit, len(rows))]
}

const all = math.MaxInt

// growth is the peak of each step that is higher than the one before.
func growth(rows []seen, row func(step int64, peak, before float64) []any) (out [][]any) {
	before := math.NaN()
	for _, g := range perGroup(rows, byStep, func(g []seen) []any { return []any{g[0].step, top(values(g, alloc))} }) {
		if peak := g[1].(float64); peak > before {
			out = append(out, row(g[0].(int64), peak, before))
			before = peak
		} else {
			before = peak
		}
	}
	return out
}

// oracles answer the statements by plain loops, by a piece of the statement's text.
var oracles = map[string]func([]seen) [][]any{
	"mem_used_pct, gpu_util_pct": gpuOracle,
	"from cpu.utilization":       wchanOracle,
	"python.backtrace order by depth": func([]seen) [][]any {
		return [][]any{{"T.fit", "/job/train's.py", int64(48), int64(0)}, {"sleeping in futex", nil, nil, int64(0)},
			{"<module>", "/job/a.py", int64(9), int64(1)}}
	},
	"python.backtrace where depth": func([]seen) [][]any {
		return [][]any{{"T.fit", "/job/train's.py", int64(48)}, {"sleeping in futex", nil, nil}}
	},
	"min(allocated) as min_memory_mb": func(rows []seen) [][]any {
		return perGroup(rows, byStep, func(g []seen) []any {
			v := values(g, alloc)
			return []any{g[0].step, mean(v), top(v), bottom(v)}
		})
	},
	"as memory_growth_mb": func(rows []seen) [][]any {
		return perGroup(last(rows, 10), byStep, func(g []seen) []any {
			if v := values(g, alloc); top(v)-bottom(v) > 50 {
				return []any{g[0].step, top(v) - bottom(v)}
			}
			return nil
		})
	},
	"avg(allocated) as avg_memory, count(*)": func(rows []seen) [][]any {
		return descending(perGroup(rows, byModuleStage, func(g []seen) []any {
			return []any{g[0].module, g[0].stage, mean(values(g, alloc)), len(g)}
		}), 2, 10)
	},
	"peak_memory - prev_peak as growth": func(rows []seen) [][]any {
		return growth(rows, func(step int64, peak, before float64) []any {
			return []any{step, peak, before,
				peak - before}
		})
	},
	"peak - prev_peak as growth": func(rows []seen) [][]any {
		return growth(rows, func(step int64, peak, before float64) []any { return []any{step, peak, peak - before} })
	},
	"avg(max_allocated) as avg_peak": func(rows []seen) [][]any {
		return descending(perGroup(last(rows, 1), func(r seen) string { return r.stage }, func(g []seen) []any {
			return []any{g[0].stage, mean(values(g, alloc)),
				mean(values(g, func(r seen) float64 { return r.maxAlloc })),
				mean(values(g, func(r seen) float64 { return r.cached }))}
		}), 2, all)
	},
	"as memory_variance": func(rows []seen) [][]any {
		return descending(perGroup(rows, byModuleStage, func(g []seen) []any {
			v := values(g, alloc)
			if deviation(v) <= spreadLimit {
				return nil
			}
			return []any{g[0].module, g[0].stage, deviation(v), top(v) - bottom(v)}
		}), 2, all)
	},
	"max(allocated) as peak_memory_mb from": func(rows []seen) [][]any {
		return perGroup(rows, byStep, func(g []seen) []any { return []any{g[0].step, top(values(g, alloc))} })
	},
	"max(step) - 100": func(rows []seen) [][]any {
		return perGroup(last(rows, 100), byStep, func(g []seen) []any {
			return []any{g[0].step, mean(values(g, alloc)), top(values(g, alloc))}
		})
	},
	"select * from python.torch_trace limit 10": firstRows,
	"where step >= 5 order by step desc": func(rows []seen) [][]any {
		return newestFirst(where(rows, func(r seen) bool { return r.step >= 5 }))
	},
	"where local_step > 1 and duration > 0": func(rows []seen) [][]any {
		return newestFirst(where(rows, func(r seen) bool { return r.step > 1 && r.seconds > 0 }))
	},
	"max(duration) as max_duration": func(rows []seen) [][]any {
		rows = where(last(rows, 10), func(r seen) bool { return r.seconds > 0 })
		return descending(perGroup(rows, byModuleStage, func(g []seen) []any {
			return []any{g[0].module, g[0].stage, len(g), mean(values(g, seconds)), top(values(g, seconds))}
		}), 3, 10)
	},
	"as memory_rank": func(rows []seen) (out [][]any) {
		rows = last(rows, 5)
		for i, r := range rows { // rows are in the order of step and seq; the answer's order is the rank's
			prev, next, rank := math.NaN(), math.NaN(), 1
			if i > 0 {
				prev = rows[i-1].alloc
			}
			if i+1 < len(rows) {
				next = rows[i+1].alloc
			}
			for _, other := range rows {
				if other.alloc > r.alloc {
					rank++
				}
			}
			out = append(out, []any{r.step, r.alloc, prev, next, rank})
		}
		slices.SortFunc(out, func(a, b []any) int { return cmp.Compare(a[4].(int), b[4].(int)) })
		return out
	},
	"as optimizer_time": func(rows []seen) [][]any {
		return perGroup(last(rows, 5), byStep, func(g []seen) []any {
			forward, optimizer := 0.0, 0.0
			for _, r := range g {
				switch r.stage {
				case "post forward":
					forward += r.seconds
				case "post step":
					optimizer += r.seconds
				}
			}
			return []any{g[0].step, forward, optimizer}
		})
	},
	"like '%attention%'": func(rows []seen) [][]any {
		rows = where(rows, func(r seen) bool {
			return strings.Contains(r.module, "attention") || strings.Contains(r.module, "attn")
		})
		return descending(perGroup(rows, func(r seen) string { return r.module }, func(g []seen) []any {
			return []any{g[0].module, mean(values(g, seconds)), mean(values(g, alloc))}
		}), 1, all)
	},
	"count(*) as calls": func(rows []seen) [][]any {
		rows = where(rows, func(r seen) bool { return r.stage == "post forward" || r.stage == "post step" })
		return descending(perGroup(rows, byModuleStage, func(g []seen) []any {
			return []any{g[0].module, g[0].stage, mean(values(g, seconds)), len(g)}
		}), 2, 10)
	},
	"max(allocated_delta) as max_delta_mb": func(rows []seen) [][]any {
		return perGroup(rows, byStep, func(g []seen) []any {
			return []any{g[0].step, mean(values(g, alloc)), top(values(g, func(r seen) float64 { return r.delta }))}
		})
	},
}

// spreadLimit is the statement's: HAVING stddev(allocated) > 10.
const spreadLimit = 10

func newestFirst(rows []seen) (out [][]any) {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b seen) int {
		return cmp.Or(cmp.Compare(b.step, a.step),
			cmp.Compare(a.seq, b.seq))
	})
	for _, r := range rows {
		out = append(out, []any{r.step, r.module, r.stage, r.seconds, r.alloc})
	}
	return out
}

// firstRows is every column of the first rows.
func firstRows(rows []seen) (out [][]any) {
	for i, r := range rows[:10] {
		m := traceRow(int64(i), -1)
		maxDelta := math.NaN()
		if m.MaxAllocatedDelta != model.Null {
			maxDelta = float64(m.MaxAllocatedDelta) / (1 << 20)
		}
		out = append(out, []any{m.Time, model.Time(m.Time), 4000, 0, 1, r.step, r.step, r.step, 0, r.seq, r.module,
			r.stage, "cpu",
			r.alloc, r.maxAlloc, r.cached, float64(m.MaxCached) / (1 << 20), r.delta, maxDelta,
			float64(m.OffsetNS) / 1e9, r.seconds, true})
	}
	return out
}
