package analyse

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/record/store"
)

// sourceFile makes a file of so many lines, in which kept has a bound, and that is older than the run.
func sourceFile(t testing.TB, path string, lines int) string {
	t.Helper()
	text := "def f(self):\n    if len(kept) < 300:\n        kept.append(x)\n" +
		strings.Repeat("    self.rows[x] = [g(y) for y in self.inputs if len(y) > 3]  # of the loop\n", lines)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, time.UnixMicro(begin-1e9)); err != nil {
		t.Fatal(err)
	}
	return path
}

// holders are censuses of a training in a large framework: most of what they saw is the framework's.
func holders(program, library string, censuses, rows int) *model.Batch {
	b := &model.Batch{Samples: model.Samples{Memory: []model.ProcessMemory{{Time: begin, PID: 7, Rank: -1}}}}
	for c := 1; c <= censuses; c++ {
		for i := range rows {
			site, name := fmt.Sprintf("%s:%d", library, i%4000+4), fmt.Sprintf("Trainer.train().self.part%d.kept", i)
			if i%3 == 0 {
				site, name = program+":3", fmt.Sprintf("main().part%d.kept", i)
			}
			b.Objects = append(b.Objects, model.ObjectGroup{Time: stepTime(c * 20), PID: 7, Rank: -1, Census: int64(c),
				Step: int64(c * 20), Evidence: "container", Type: "list", Count: 1, Delta: 1, Length: int64(c),
				Bytes: int64(c) * kib, Holder: name, Site: site})
		}
	}
	return b
}

func framework(t testing.TB, censuses, rows int) *store.DB {
	t.Helper()
	dir := t.TempDir()
	program := sourceFile(t, filepath.Join(dir, "train.py"), 300)
	library := sourceFile(t, filepath.Join(dir, "lib/site-packages/transformers/trainer.py"), 4757)
	return stored(t, cudaRun(900, 64*kib, 0), holders(program, library, censuses, rows))
}

func stored(t testing.TB, batches ...*model.Batch) *store.DB {
	t.Helper()
	db, err := store.Open(context.Background(), store.Options{Path: filepath.Join(t.TempDir(), "session.duckdb")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for _, b := range batches {
		if err := db.Append(context.Background(), b); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// TestSourcesAreReadOnce counts the work of a verdict: the program's file is read and parsed once, however often the
// session is judged and however many rows of censuses name it; a package's file never.
func TestSourcesAreReadOnce(t *testing.T) {
	db, sources := framework(t, 3, 60), &Sources{}
	looks := 0
	for again := range 3 {
		in, err := Load(t.Context(), db, Options{Sources: sources})
		if err != nil {
			t.Fatal(err)
		}
		if sources.parsed != 1 || len(sources.files) != 1 {
			t.Errorf("%d files parsed at judgement %d", sources.parsed, again+1)
		}
		for _, o := range sources.files {
			if again > 0 && o.looks != looks {
				t.Errorf("%d looks at lines, after %d", o.looks, looks)
			}
			looks = o.looks
		}
		want := detect.Bound{Kind: detect.Bounded, Items: 300}
		if b := in.Processes[0].Bounds["main().part0.kept"]; b != want || looks > 20 {
			t.Errorf("%+v after %d looks, want %+v", b, looks, want)
		}
	}
}

// TestBoundsOfWhatTensorsLieIn: a census that was cut short has no row of the container.
func TestBoundsOfWhatTensorsLieIn(t *testing.T) {
	program := sourceFile(t, filepath.Join(t.TempDir(), "train.py"), 3)
	b := &model.Batch{Samples: model.Samples{Memory: []model.ProcessMemory{{Time: begin, PID: 7, Rank: -1}}}}
	for holder, site := range map[string]string{"main().kept[*][*]": program + ":3", "fit().kept[*].x": program + ":5",
		"main().x": program + ":3"} {
		b.Tensors = append(b.Tensors, model.TensorGroup{Time: stepTime(20), PID: 7, Rank: -1, Census: 1, Step: 20,
			Holder: holder, Site: site, Role: "other", Device: "cpu", Count: 40, Bytes: 40 * kib})
	}
	in, err := Load(t.Context(), stored(t, cudaRun(900, 64*kib, 0), b), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]detect.Bound{"main().kept": {Kind: detect.Bounded, Items: 300},
		"fit().kept": {Kind: detect.Bounded, Items: 300}}
	if got := in.Processes[0].Bounds; !maps.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestSourceThatSaysNothing: a program's file may be gone, changed since the run began, or kept from who judges. The
// verdict goes without it, and by what the program's other files say.
func TestSourceThatSaysNothing(t *testing.T) {
	for how, spoil := range map[string]func(path string) error{
		"gone":    os.Remove,
		"changed": func(path string) error { return os.Chtimes(path, time.Time{}, time.Now()) },
		"no file": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		dir := t.TempDir()
		program := sourceFile(t, filepath.Join(dir, "train.py"), 3)
		other := sourceFile(t, filepath.Join(dir, "data.py"), 3)
		if err := spoil(program); err != nil {
			t.Fatal(err)
		}
		for beside, want := range map[string]detect.Bound{program: {}, other: {Kind: detect.Bounded, Items: 300}} {
			db, sources := stored(t, cudaRun(9, 0, 0), holders(program, beside, 3, 6)), &Sources{}
			for range 2 {
				in, err := Load(t.Context(), db, Options{Sources: sources})
				if err != nil {
					t.Fatalf("%s: %v", how, err)
				}
				if b := in.Processes[0].Bounds["main().part0.kept"]; b != want {
					t.Errorf("%s, beside %s: %+v, want %+v", how, filepath.Base(beside), b, want)
				}
			}
		}
	}
}

// TestPatternsAreCompiledOnce: none is made while something is judged.
func TestPatternsAreCompiledOnce(t *testing.T) {
	for _, dir := range []string{".", "../../judge/detect"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(err)
		}
		for _, path := range files {
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					ast.Inspect(fn, func(n ast.Node) bool {
						if s, ok := n.(*ast.SelectorExpr); ok && strings.HasSuffix(s.Sel.Name, "Compile") {
							t.Errorf("%s: a pattern is compiled in %s", set.Position(s.Pos()), fn.Name)
						}
						return true
					})
				}
			}
		}
	}
}

// BenchmarkJudgeHolders judges a session with 10,000 rows of holders: at first, and again while it lives.
func BenchmarkJudgeHolders(b *testing.B) {
	db := framework(b, 25, 400)
	for name, sources := range map[string]func() *Sources{
		"first": func() *Sources { return &Sources{} },
		"again": func() func() *Sources { s := &Sources{}; return func() *Sources { return s } }(),
	} {
		b.Run(name, func(b *testing.B) {
			used := cpuTime(b)
			for b.Loop() {
				if _, err := Judge(b.Context(), db, Options{Sources: sources()}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((cpuTime(b)-used).Seconds()*1e3/float64(b.N), "cpu-ms/op")
		})
	}
}

// dayOf makes rows of some steps of 0.25 s with a reading a second.
func dayOf(from, to int) *model.Batch {
	batch := &model.Batch{}
	for i := from + 1; i <= to; i++ {
		now, heap := begin+int64(i)*250_000, 600*mib+jitter(i)
		batch.Steps = append(batch.Steps, model.Step{Time: now, PID: 7, Rank: -1, World: -1, Step: int64(i),
			Steps: 1, DurationNS: 250e6, RSS: heap + 900*mib, Anon: heap + 300*mib, MaxRSS: model.Null,
			HeapInUse: heap, HeapHeld: heap + 200*mib, PyBlocks: 1e6})
		if i%4 == 0 {
			batch.Samples.Memory = append(batch.Samples.Memory, model.ProcessMemory{Time: now, PID: 7, Rank: -1,
				RSS: heap + 900*mib, Anon: heap + 300*mib, VMSize: 4 * gib})
			batch.Samples.Hosts = append(batch.Samples.Hosts, model.HostMemory{Time: now, Total: 64 * gib,
				Available: 50*gib - heap})
			batch.Samples.Cgroups = append(batch.Samples.Cgroups, model.CgroupMemory{Time: now, Path: "/job",
				Current: heap + gib, Limit: 32 * gib})
		}
	}
	return batch
}

// BenchmarkJudgeDay judges a day of steps, as in a session that lives: ten seconds of it come between two judgements,
// and storing them is not counted.
func BenchmarkJudgeDay(b *testing.B) {
	db, sources := stored(b), &Sources{}
	const day, part, between = 86_400 * 4, 21_600, 40
	steps := 0
	add := func(n int) {
		if err := db.Append(b.Context(), dayOf(steps, steps+n)); err != nil {
			b.Fatal(err)
		}
		steps += n
	}
	for steps < day {
		add(part)
	}
	for _, name := range []string{"first", "again"} {
		b.Run(name, func(b *testing.B) {
			used := time.Duration(0)
			for b.Loop() {
				if add(between); name == "first" {
					sources = &Sources{}
				}
				before := cpuTime(b)
				if _, err := Judge(b.Context(), db, Options{Sources: sources}); err != nil {
					b.Fatal(err)
				}
				used += cpuTime(b) - before
			}
			b.ReportMetric(used.Seconds()*1e3/float64(b.N), "cpu-ms/op")
		})
	}
}

// cpuTime is what this process has used of all cores: on a machine that others use too, wall time says little.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
