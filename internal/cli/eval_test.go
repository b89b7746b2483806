package cli

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/agent"
	"github.com/memgauge/memgauge/internal/session"
	"github.com/memgauge/memgauge/internal/wire"
)

func TestEvalChoose(t *testing.T) {
	p := func(pid, rank int, alive bool) session.Process {
		return session.Process{Pid: session.Pid{PID: pid}, Rank: rank, Alive: alive, Torch: true}
	}
	all := []session.Process{p(10, 0, false), p(11, 1, true), p(12, 2, true), p(13, -1, true)}
	check := func(o evalOptions, target session.Target, want ...int) {
		t.Helper()
		got, err := o.choose(all, target)
		var pids []int
		for _, p := range got {
			pids = append(pids, p.PID)
		}
		if len(pids) != len(want) || (err != nil) != (len(want) == 0) {
			t.Fatalf("choose %+v, %+v: %v, %v; want %v", o, target, pids, err, want)
		}
		for i := range want {
			if pids[i] != want[i] {
				t.Errorf("choose %+v, %+v: %v, want %v", o, target, pids, want)
			}
		}
	}
	none := session.Target{Rank: -1}
	check(evalOptions{rank: -1}, none, 11)
	check(evalOptions{rank: 2}, none, 12)
	check(evalOptions{rank: 0}, none) // it has ended
	check(evalOptions{rank: -1, pid: 13}, none, 13)
	check(evalOptions{rank: -1, pid: 99}, none)
	check(evalOptions{rank: -1, all: true}, none, 11, 12) // 13 has no rank: it is their launcher
	check(evalOptions{rank: -1}, session.Target{Rank: 2}, 12)
	check(evalOptions{rank: 1}, session.Target{Rank: 2}, 11)
	check(evalOptions{rank: -1}, session.Target{Rank: -1, PID: 13}, 13)
	check(evalOptions{rank: -1}, session.Target{Rank: -1, PID: 99}, 11) // the command's shell, say
	all = []session.Process{p(20, -1, true), p(21, -1, true), p(22, 0, true)}
	all[1].Torch, all[2].Torch = false, false
	check(evalOptions{rank: -1, all: true}, none, 20) // with a worker that has its trainer's rank
	all[0].Torch = false
	all[2].Rank = -1
	check(evalOptions{rank: -1, all: true}, none, 20, 21, 22) // processes without torch
	all = []session.Process{p(10, 0, false)}
	check(evalOptions{rank: -1}, none)
}

func TestEvalFailures(t *testing.T) {
	check := func(r evalResult, limit time.Duration, code int) {
		t.Helper()
		err := r.failure(limit)
		var exit *exitError
		if code == 0 && err != nil || code != 0 && (!errors.As(err, &exit) || exit.code != code) {
			t.Errorf("%+v: %v, want exit %d", r, err, code)
		}
	}
	of := func(o wire.Outcome, took time.Duration) evalResult {
		return evalResult{Result: agent.Result{Outcome: o, Elapsed: took, Began: true}, took: took}
	}
	check(of(wire.OutcomeFine, 0), 0, 0)
	check(of(wire.OutcomeException, 0), 0, exitFailed)
	check(of(wire.OutcomeTimeout, time.Second), time.Second, exitTimeout)
	check(of(wire.OutcomeInterrupted, time.Second), time.Minute, exitInterrupted)
	check(of(wire.OutcomeGoesOn, 11*time.Second), 10*time.Second, exitTimeout)
	check(of(wire.OutcomeGoesOn, 2*time.Second), 10*time.Second, exitInterrupted)
	several := []evalResult{of(wire.OutcomeFine, 0), of(wire.OutcomeTimeout, time.Second), of(wire.OutcomeException, 0)}
	var exit *exitError
	if err := worst(several, time.Second); !errors.As(err, &exit) || exit.code != exitFailed {
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
