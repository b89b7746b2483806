package e2e

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
)

// A training by hand that holds a list and waits for a word to end.
const held = `
import os, time
losses = [0.5] * 1000
while not os.path.exists("end"):
    time.sleep(0.01)
`

// TestOneDoor asks a live session everything in both ways there are: from this machine, and through its collector, as
// whoever is elsewhere would. Both answer the same. What a finished session can't be asked it refuses with a remedy.
func TestOneDoor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := filepath.Join(w.home, "s")
	w.file("held.py", held)
	run := w.start("memgauge", "run", "--quiet", "--session", dir, "--", "python3", "held.py")
	until(t, "the agent", func() bool { return w.do("memgauge", dir, "eval", "len(losses)").code == 0 })
	target, err := ask.At(dir)
	if err != nil {
		t.Fatal(err)
	}
	here, err := target.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	there := api.NewClient(filepath.Join(dir, "api.sock"))
	defer there.Close()
	for name, s := range map[string]api.Session{"here": here, "collector": there} {
		t.Run(name, func(t *testing.T) {
			askEverything(t, s, dir)
			interruptEval(t, s)
		})
	}
	w.file("end", "")
	if code := run.wait(t); code != 0 {
		t.Fatalf("exit %d", code)
	}
	over, err := target.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer over.Close()
	askFinished(t, over)
}

func askEverything(t *testing.T, s api.Session, dir string) {
	ctx := t.Context()
	about, err := s.About(ctx)
	if err != nil || about.Dir != dir || !about.Live || about.Version != api.Version || about.PID == 0 {
		t.Errorf("about: %+v, %v", about, err)
	}
	if end, err := s.End(ctx); err != nil || !end.Live || end.Known {
		t.Errorf("end: %+v, %v", end, err)
	}
	list, err := s.Processes(ctx, api.ProcessesRequest{Frameworks: true})
	if err != nil || len(list) != 1 || !list[0].Alive || !list[0].Agent || list[0].Framework {
		t.Fatalf("processes: %+v, %v", list, err)
	}
	var csv bytes.Buffer
	q := api.QueryRequest{SQL: "SELECT count(*) AS n FROM memgauge.processes", Format: "csv"}
	if err := s.Query(ctx, q, &csv); err != nil || csv.String() != "n\n1\n" {
		t.Errorf("query: %q, %v", csv.String(), err)
	}
	if tables, err := s.Tables(ctx, false); err != nil || len(tables) < 10 {
		t.Errorf("%d tables, %v", len(tables), err)
	}
	if sum, err := s.Summary(ctx); err != nil || len(sum.PIDs) != 1 {
		t.Errorf("summary: %+v, %v", sum, err)
	}
	var events []string
	err = s.Events(ctx, api.EventsRequest{}, func(e api.Event) error { events = append(events, e.Name); return nil })
	if err != nil || len(events) == 0 || events[0] != "start" {
		t.Errorf("events: %q, %v", events, err)
	}
	if r, err := s.Leak(ctx, api.LeakRequest{}); err != nil || r.Verdict == "leak" {
		t.Errorf("leak: %+v, %v", r, err)
	}
	if r, err := s.OOM(ctx, api.OOMRequest{}); err != nil || r.Tool != "oom" || len(r.Devices) == 0 {
		t.Errorf("oom: %+v, %v", r, err)
	}
	if where, err := s.Where(ctx); err != nil || where.Host.Charged == nil || len(where.Processes) == 0 {
		t.Errorf("where: %+v, %v", where, err)
	}
	if r, err := s.Census(ctx, api.CensusRequest{}); err != nil || len(r.Censuses) != 1 || r.Censuses[0].Error != nil {
		t.Errorf("census: %+v, %v", r, err)
	}
	askProcess(t, s, list[0])
}

func askProcess(t *testing.T, s api.Session, p api.Process) {
	ctx := t.Context()
	var chosen []api.Process
	printed := map[bool]string{}
	out := api.EvalOutput{Chosen: func(list []api.Process) error { chosen = list; return nil },
		Print: func(_ int, stderr bool, text []byte) error { printed[stderr] += string(text); return nil }}
	r, err := s.Eval(ctx, api.EvalRequest{Place: api.Main, Timeout: time.Minute,
		Code: "import sys; print('x' * 100000); print('oops', file=sys.stderr); len(losses)"}, out)
	if err != nil || len(r.Results) != 1 || r.Results[0].Value != "1000" || r.Results[0].Outcome != api.Fine ||
		len(chosen) != 1 || chosen[0].PID != p.PID || len(printed[false]) != 100001 ||
		!strings.HasPrefix(printed[true], "oops\n") {
		t.Errorf("eval: %+v of %+v, %v; printed %d bytes and %q", r, chosen, err, len(printed[false]), printed[true])
	}
	r, err = s.Eval(ctx, api.EvalRequest{Place: api.Main, Timeout: time.Minute, Code: "1/0"}, out)
	if err != nil || r.Results[0].Outcome != api.Exception ||
		!strings.Contains(r.Results[0].Exception, "ZeroDivision") {
		t.Errorf("eval of 1/0: %+v, %v", r, err)
	}
	full := errors.New("full")
	out.Print = func(int, bool, []byte) error { return full }
	r, err = s.Eval(ctx, api.EvalRequest{Place: api.Main, Timeout: time.Minute, Code: "print(1)"}, out)
	if err == nil && r.Results[0].Error == nil {
		t.Errorf("of a printer that takes nothing: %+v", r)
	}
	if _, err := s.Eval(ctx, api.EvalRequest{Choice: api.Choice{PID: 1}, Place: api.Main}, out); err == nil ||
		!strings.Contains(err.Error(), "no live process with pid 1") {
		t.Errorf("of another process: %v", err)
	}
	stacks, err := s.Backtrace(ctx, api.BacktraceRequest{Locals: true})
	if err != nil || len(stacks.Processes) != 1 || stacks.Processes[0].Error != nil ||
		stacks.Processes[0].Threads[0].Name != "MainThread" || len(stacks.Processes[0].Threads[0].Frames) == 0 {
		t.Errorf("backtrace: %+v, %v", stacks, err)
	}
	if b, err := s.Blocks(ctx, api.BlocksRequest{Device: "host"}); err != nil || len(b.Allocators) != 1 ||
		b.Allocators[0].State.Held == 0 {
		t.Errorf("blocks: %+v, %v", b, err)
	}
	if _, err := s.Snapshot(ctx, api.SnapshotRequest{Timeout: time.Minute}, nil); err == nil {
		t.Error("a program without PyTorch wrote a snapshot")
	}
	rec, err := s.Record(ctx, api.RecordRequest{On: true, Entries: 10, Stacks: "python", Timeout: time.Minute})
	if err != nil || len(rec.Processes) != 1 || rec.Processes[0].Error == nil {
		t.Errorf("record: %+v, %v", rec, err)
	}
}

// interruptEval: code whose caller gives up is interrupted, and the caller hears that it was.
func interruptEval(t *testing.T, s api.Session) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := api.EvalOutput{Print: func(int, bool, []byte) error { cancel(); return nil }}
	r, err := s.Eval(ctx, api.EvalRequest{Place: api.Main, Timeout: time.Minute,
		Code: "import time\nprint('began', flush=True)\nwhile True: time.sleep(0.01)"}, out)
	if err != nil || len(r.Results) != 1 || r.Results[0].Outcome != api.Interrupted {
		t.Errorf("%+v, %v", r, err)
	}
}

func askFinished(t *testing.T, s api.Session) {
	ctx := t.Context()
	if end, err := s.End(ctx); err != nil || end.Live || end.Text != "exit 0" || end.Ended.IsZero() {
		t.Errorf("end: %+v, %v", end, err)
	}
	if sum, err := s.Outcome(ctx); err != nil || sum.Verdict == "" {
		t.Errorf("outcome: %+v, %v", sum, err)
	}
	var events []string
	take := func(e api.Event) error { events = append(events, e.Name); return nil }
	err := s.Events(ctx, api.EventsRequest{Follow: true}, take)
	if err != nil || len(events) < 2 {
		t.Errorf("events of a session that is over: %q, %v", events, err)
	}
	if where, err := s.Where(ctx); err != nil || !strings.Contains(where.Of, "when it held most") {
		t.Errorf("where: %+v, %v", where, err)
	}
	if r, err := s.OOM(ctx, api.OOMRequest{}); err != nil || r.Tool != "oom" {
		t.Errorf("oom: %+v, %v", r, err)
	}
	_, eval := s.Eval(ctx, api.EvalRequest{Place: api.Main, Code: "1"}, api.EvalOutput{})
	_, stacks := s.Backtrace(ctx, api.BacktraceRequest{})
	_, census := s.Census(ctx, api.CensusRequest{})
	for what, err := range map[string]error{"eval": eval, "backtrace": stacks, "census": census} {
		if err == nil || !strings.Contains(err.Error(), "no observed process of the session is alive") {
			t.Errorf("%s of a session that is over: %v", what, err)
		}
	}
}
