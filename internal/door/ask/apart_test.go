package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
)

// hostile take more memory than there may be, or can't be stopped.
var hostile = []string{"SELECT repeat('x', 900000000)", "SELECT sum(length(repeat('x', 1500000000)))",
	"SELECT [repeat('x', 900000000) FOR x IN range(3)]", "SELECT string_agg(repeat('x', 100000000), '') FROM range(20)",
	"SELECT list(repeat('x', 30000000)) FROM range(100)"}

// endless is one call that takes a minute, which DuckDB can't interrupt.
const endless = "SELECT levenshtein(repeat('a', n), repeat('b', n)) FROM (SELECT 150000 + range AS n FROM range(1))"

// resident is this process's memory, in KiB.
func resident(t *testing.T) (kib int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib
}

// Of a finished session that is asked apart, hostile questions cost neither this process nor the next question, and
// what answered them is gone in the end.
func TestApartSurvivesHostileQuestions(t *testing.T) {
	s := orphan(t, 7)
	door := Target{s: s}.Apart().Open()
	apartOf := func() *apart { return door.(*opened).db.(*apart) }
	honest := func() {
		t.Helper()
		var out strings.Builder
		q := api.QueryRequest{SQL: "SELECT count(*) FROM python.steps", Format: "csv"}
		if err := door.Query(t.Context(), q, &out); err != nil || !strings.HasSuffix(out.String(), "\n7\n") {
			t.Errorf("an honest question: %q, %v", out.String(), err)
		}
	}
	honest()
	before := resident(t)
	first := apartOf().cell.PID()
	for range 2 {
		var all sync.WaitGroup
		for _, sql := range hostile {
			all.Go(func() {
				q := api.QueryRequest{SQL: sql, Format: "csv", Timeout: 20 * time.Second}
				if err := door.Query(t.Context(), q, io.Discard); err == nil {
					t.Errorf("%s: no error", sql)
				}
			})
		}
		all.Wait()
		honest()
	}
	short := api.QueryRequest{SQL: endless, Format: "csv", Timeout: 300 * time.Millisecond}
	if err := door.Query(t.Context(), short, io.Discard); !errors.Is(err, api.ErrTimeout) {
		t.Errorf("a question that can't be stopped: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := door.Query(ctx, short, io.Discard); !errors.Is(err, api.ErrCanceled) {
		t.Errorf("a question that was called off: %v", err)
	}
	honest()
	if sum, err := door.Outcome(t.Context()); err != nil || sum.Steps != 7 || sum.Verdict == "" {
		t.Errorf("the outcome: %+v, %v", sum, err)
	}
	if grown := resident(t) - before; grown > 300<<10 {
		t.Errorf("this process grew by %d MiB", grown>>10)
	}
	last := apartOf().cell.PID()
	if err := door.Close(); err != nil {
		t.Error(err)
	}
	for _, pid := range []int{first, last} {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d: %v, want it gone", pid, err)
		}
	}
}
