package owner

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/formats/wire/wiretest"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/record/session"
	"github.com/memgauge/memgauge/internal/record/store"
)

// ended makes a session of which nothing is alive any more.
func ended(t *testing.T) *session.Session {
	t.Helper()
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	s, err := session.Create(session.Options{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	s.Meta.Supervisor = session.Pid{}
	if s.Live() {
		t.Fatal("it lives")
	}
	return s
}

// ring makes the ring of a process that has ended: a process that began at the first tick has given its PID back.
func ring(t *testing.T, s *session.Session, steps int) *wiretest.Ring {
	t.Helper()
	about := wiretest.Options{PID: uint32(os.Getpid()), Start: 1, Slots: 1024, Wall: 9e15, Mono: 60e9}
	r, err := wiretest.Create(s.Rings(), about)
	if err != nil {
		t.Fatal(err)
	}
	for i := range steps {
		r.Append(&wire.Step{TS: uint64(61e9 + i*1e6), Steps: 1, Step: uint32(i + 1), Duration: 1e6})
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func open(t *testing.T, s *session.Session) *Owner {
	t.Helper()
	o, err := Open(t.Context(), s, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func closeOwner(t *testing.T, o *Owner) {
	t.Helper()
	if err := o.Close(); err != nil {
		t.Error(err)
	}
}

// answer is the result of a statement, a line for each row.
func answer(t *testing.T, o *Owner, sql string) string {
	t.Helper()
	var lines []string
	err := store.Each(t.Context(), o, sql, func(v []any) { lines = append(lines, strings.Trim(fmt.Sprint(v), "[]")) })
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return strings.Join(lines, "\n")
}

func sample(pid int32) *model.Batch {
	row := model.ProcessMemory{Time: 9e12, PID: pid, Rank: -1, RSS: 1 << 20}
	return &model.Batch{Samples: model.Samples{Memory: []model.ProcessMemory{row}}}
}

// TestFinish: what is left in rings and in memory is stored, the end is recorded once, and the database is one compact
// file.
func TestFinish(t *testing.T) {
	s := ended(t)
	ring(t, s, 100)
	o := open(t, s)
	o.Add(sample(7))
	if err := o.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if log, err := os.Stat(s.Database() + ".wal"); err == nil && log.Size() > 0 {
		t.Errorf("%d bytes are in the log, not in the database", log.Size())
	}
	closeOwner(t, o)
	end, ok, err := s.End()
	if err != nil || !ok || !end.Recorded || end.State != "lost" || end.Rows == 0 {
		t.Errorf("end %+v, %v, %v", end, ok, err)
	}
	if left, err := os.ReadDir(s.Rings()); err != nil || len(left) > 0 || s.Unfinished() {
		t.Errorf("rings %v, %v; unfinished: %v", left, err, s.Unfinished())
	}

	o = open(t, s)
	defer closeOwner(t, o)
	if err := o.Finish(t.Context()); err != nil {
		t.Errorf("a second time: %v", err)
	}
	for sql, want := range map[string]string{
		"SELECT count(*), max(step) FROM python.steps":                "100 100",
		"SELECT pid, rss FROM process.memory":                         "7 1048576",
		"SELECT count(*) FROM memgauge.events WHERE name = 'end'":     "1",
		"SELECT ending FROM memgauge.processes":                       "vanished",
		"SELECT count(DISTINCT judgement) > 0 FROM memgauge.findings": "true",
	} {
		if got := answer(t, o, sql); got != want {
			t.Errorf("%s: %q, want %q", sql, got, want)
		}
	}
}

// TestFinishKeepsTheEnd: how the command ended is for memgauge run to say, where it still could.
func TestFinishKeepsTheEnd(t *testing.T) {
	s := ended(t)
	if err := s.SetEnd(session.End{State: "exited", Code: 3, OOM: ""}); err != nil {
		t.Fatal(err)
	}
	r := ring(t, s, 1)
	r.Event(62e9, "oom", "CUDA out of memory", 1, 2)
	o := open(t, s)
	defer closeOwner(t, o)
	if err := o.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	end, _, err := s.End()
	if err != nil || end.State != "exited" || end.Code != 3 || !end.Recorded || end.OOM != session.OOMError {
		t.Errorf("end %+v, %v", end, err)
	}
}

// TestDrainTellsOfTrainers: what the rings say of processes can be asked without the database.
func TestDrainTellsOfTrainers(t *testing.T) {
	s := ended(t)
	r := ring(t, s, 5)
	r.Event(62e9, "oom", "", 1, 2)
	o := open(t, s)
	defer closeOwner(t, o)
	pid := int32(os.Getpid())
	if o.Trainers().Trains(pid) || o.Trainers().Age() != 0 {
		t.Error("it knows of a training before it has read a ring")
	}
	stats, err := o.DrainOlder(t.Context(), 0)
	if err != nil || !o.Trainers().Trains(pid) || o.Trainers().Began().IsZero() {
		t.Errorf("%+v, %v: no training is known of", stats, err)
	}
	if inUse, held := o.Trainers().Heap(pid); inUse != model.Null || held != model.Null {
		t.Errorf("a heap of %d and %d bytes that nobody has read", inUse, held)
	}
	select {
	case at := <-o.OOMs():
		if at != 9e12+2e6 {
			t.Errorf("the allocation failed at %d", at)
		}
	default:
		t.Error("nobody heard of the allocation that failed")
	}
}

// TestKeep: a verdict is stored when it differs from the one before, also from one that an earlier owner stored, and a
// leak is told once.
func TestKeep(t *testing.T) {
	s := ended(t)
	leak := detect.Report{Verdict: detect.Leak, Findings: []detect.Finding{{PID: 7, Memory: "cpu"}}}
	for range 2 {
		o := open(t, s)
		for range 2 {
			if err := o.Keep(t.Context(), leak); err != nil {
				t.Fatal(err)
			}
		}
		closeOwner(t, o)
	}
	o := open(t, s)
	defer closeOwner(t, o)
	if got := answer(t, o, "SELECT count(*), max(judgement) FROM memgauge.findings"); got != "2 2" {
		t.Errorf("findings, and the number of the last judgement: %s", got)
	}
}

// TestReadOnly: who only reads leaves the rings alone.
func TestReadOnly(t *testing.T) {
	s := ended(t)
	o := open(t, s)
	if err := o.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	closeOwner(t, o)
	ring(t, s, 3)
	o, err := Open(t.Context(), s, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeOwner(t, o)
	if svc := o.Service(); svc.Drain != nil || svc.Stacks != nil {
		t.Error("a reader drains")
	}
	if got := answer(t, o, "SELECT count(*) FROM python.steps"); got != "0" {
		t.Errorf("%s steps", got)
	}
}
