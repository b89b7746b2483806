package ask

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
)

func TestEvalChoose(t *testing.T) {
	p := func(pid, rank int, alive bool) api.Process {
		return api.Process{PID: pid, Rank: rank, Alive: alive, Torch: true, Agent: true}
	}
	all := []api.Process{p(10, 0, false), p(11, 1, true), p(12, 2, true), p(13, -1, true)}
	check := func(o app.Which, target ask.Target, want ...int) {
		t.Helper()
		got, err := api.Choose(all, o.Choice(target), false)
		var pids []int
		for _, p := range got {
			pids = append(pids, p.PID)
		}
		if !slices.Equal(pids, want) || (err != nil) != (len(want) == 0) {
			t.Errorf("choose %+v, %+v: %v, %v; want %v", o, target, pids, err, want)
		}
	}
	none := ask.Target{Rank: -1}
	check(app.Which{Rank: -1}, none, 11)
	check(app.Which{Rank: 2}, none, 12)
	check(app.Which{Rank: 0}, none) // it has ended
	check(app.Which{Rank: -1, Pid: 13}, none, 13)
	check(app.Which{Rank: -1, Pid: 99}, none)
	check(app.Which{Rank: -1, All: true}, none, 11, 12) // 13 has no rank: it is their launcher
	check(app.Which{Rank: -1}, ask.Target{Rank: 2}, 12)
	check(app.Which{Rank: 1}, ask.Target{Rank: 2}, 11)
	check(app.Which{Rank: -1}, ask.Target{Rank: -1, PID: 13}, 13)
	check(app.Which{Rank: -1}, ask.Target{Rank: -1, PID: 99}, 11) // the command's shell, say
	all = []api.Process{p(20, -1, true), p(21, -1, true), p(22, 0, true)}
	all[1].Torch, all[2].Torch = false, false
	check(app.Which{Rank: -1, All: true}, none, 20) // with a worker that has its trainer's rank
	all[0].Torch = false
	all[2].Rank = -1
	check(app.Which{Rank: -1, All: true}, none, 20, 21, 22) // processes without torch
	all = []api.Process{p(10, 0, false)}
	check(app.Which{Rank: -1}, none)
}

func TestEvalFailures(t *testing.T) {
	code := func(err error) int { return (&commands{&app.App{Stderr: io.Discard}}).Report(err) }
	check := func(r api.EvalResult, limit time.Duration, want int) {
		t.Helper()
		if err := evalFailure(&r, limit); code(err) != want {
			t.Errorf("%+v: %v, want exit %d", r, err, want)
		}
	}
	of := func(o api.Outcome, took time.Duration) api.EvalResult {
		return api.EvalResult{Outcome: o, Elapsed: took, Began: true, Took: took}
	}
	check(of(api.Fine, 0), 0, 0)
	check(of(api.Exception, 0), 0, app.ExitFailed)
	check(of(api.TimedOut, time.Second), time.Second, app.ExitTimeout)
	check(of(api.Interrupted, time.Second), time.Minute, app.ExitInterrupted)
	check(of(api.Blocked, 11*time.Second), 10*time.Second, app.ExitTimeout)
	check(of(api.Blocked, 2*time.Second), 10*time.Second, app.ExitInterrupted)
	several := []api.EvalResult{of(api.Fine, 0), of(api.TimedOut, time.Second), of(api.Exception, 0)}
	if err := worst(several, time.Second); code(err) != app.ExitFailed {
		t.Errorf("worst of a timeout and an exception: %v", err)
	}
	if err := worst(several[:1], time.Second); err != nil {
		t.Errorf("worst of a success: %v", err)
	}
}

func TestPrefixer(t *testing.T) {
	var out bytes.Buffer
	var mu sync.Mutex
	p := &prefixer{mu: &mu, w: &out, head: "[rank 1] "}
	for _, s := range []string{"a", "b\nc\n\nd", ""} {
		if n, err := p.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatal(n, err)
		}
	}
	p.flush()
	p.flush()
	if want := "[rank 1] ab\n[rank 1] c\n[rank 1] \n[rank 1] d\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	out.Reset()
	if _, err := p.Write([]byte(strings.Repeat("x", 3*maxPartial))); err != nil || len(p.rest) >= maxPartial {
		t.Errorf("a line without end: %d bytes wait, %v", len(p.rest), err)
	}
}
