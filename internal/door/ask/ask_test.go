package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/sock"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/owner"
	"github.com/memgauge/memgauge/internal/door/service"
	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/formats/wire/wiretest"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/record/session"
)

const patience = time.Minute // a busy machine's, with what takes some 100 ms

func create(t *testing.T) *session.Session {
	t.Helper()
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	s, err := session.Create(session.Options{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// going makes a session that lives until the test has ended; so does its collector.
func going(t *testing.T) *session.Session {
	t.Helper()
	s := create(t)
	t.Cleanup(func() {
		if err := s.SetEnd(session.End{State: "exited"}); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		lock, err := s.Lock(ctx, true)
		if err != nil {
			t.Fatalf("the collector of a session that is over: %v", err)
		}
		lock.Release()
	})
	return s
}

// orphan makes a session of which nothing is alive, whose collector left steps in a ring: of a process that began at
// the first tick, and has given its PID back.
func orphan(t *testing.T, steps int) *session.Session {
	t.Helper()
	s := create(t)
	s.Meta.Supervisor = session.Pid{}
	r, err := wiretest.Create(s.Rings(), wiretest.Options{PID: uint32(os.Getpid()), Start: 1, Wall: 9e15, Mono: 60e9})
	if err != nil {
		t.Fatal(err)
	}
	for i := range steps {
		r.Append(&wire.Step{TS: uint64(61e9 + i*1e6), Steps: 1, Step: uint32(i + 1), Duration: 1e6})
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

// finish does what a collector does at the end of a session.
func finish(t *testing.T, s *session.Session) {
	t.Helper()
	o, err := owner.Open(t.Context(), s, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(o.Finish(t.Context()), o.Close()); err != nil {
		t.Fatal(err)
	}
}

func connect(t *testing.T, s *session.Session) api.Session {
	t.Helper()
	b, err := Connect(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// countSteps asks for the number of steps, and gives what is noted about the answer, too.
func countSteps(t *testing.T, b api.Session) (steps, note string) {
	t.Helper()
	const sql = "SELECT count(*) AS n FROM python.steps"
	q := api.QueryRequest{SQL: sql, Format: "csv", Note: func(s string) { note = s }}
	var out strings.Builder
	if err := b.Query(t.Context(), q, &out); err != nil {
		t.Fatal(err)
	}
	_, steps, _ = strings.Cut(strings.TrimSpace(out.String()), "\n")
	return strings.TrimSpace(steps), note
}

// TestFinishedIsOpenedInPlace: several clients read a finished session at once, without a collector, and nobody may
// write it meanwhile.
func TestFinishedIsOpenedInPlace(t *testing.T) {
	s := orphan(t, 5)
	finish(t, s)
	a, b := connect(t, s), connect(t, s)
	for _, client := range []api.Session{a, b} {
		if n, note := countSteps(t, client); n != "5" || note != "" {
			t.Errorf("%s steps, note %q", n, note)
		}
	}
	if _, err := s.TryLock(true); !errors.Is(err, session.ErrLocked) {
		t.Errorf("the right to write it, while it is read: %v", err)
	}
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		t.Error(err)
	}
	if lock, err := s.TryLock(true); err != nil {
		t.Errorf("after it was read: %v", err)
	} else {
		lock.Release()
	}
	if _, err := os.Stat(s.Log()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a collector was started: %v", err)
	}
}

// TestOrphanIsRecovered: who asks a session that lost its collector together with its processes stores what is in the
// rings.
func TestOrphanIsRecovered(t *testing.T) {
	s := orphan(t, 7)
	b := connect(t, s)
	defer b.Close()
	if n, note := countSteps(t, b); n != "7" || note != "" {
		t.Errorf("%s steps, note %q", n, note)
	}
	end, ok, err := s.End()
	if err != nil || !ok || end.State != "lost" || !end.Recorded || s.Unfinished() {
		t.Errorf("end %+v, %v, %v", end, ok, err)
	}
}

// TestLockedIsSaidInTime: who may not wait as long as the holder of the lock needs hears what is in the way.
func TestLockedIsSaidInTime(t *testing.T) {
	s := orphan(t, 1)
	holder, err := s.TryLock(true)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := Connect(ctx, s); !errors.Is(err, session.ErrLocked) {
		t.Errorf("of a session that somebody else recovers: %v", err)
	}
	if took := time.Since(began); took >= lockTimeout {
		t.Errorf("that took %v", took)
	}
}

// TestDamagedIsNamed: a database that can't be read is named, with what is wrong with it, and is left as it is.
func TestDamagedIsNamed(t *testing.T) {
	s := orphan(t, 1)
	text := []byte(strings.Repeat("no database ", 1000))
	if err := os.WriteFile(s.Database(), text, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Connect(t.Context(), s)
	const why = "damaged or no database"
	if err == nil || !strings.Contains(err.Error(), s.Database()) || !strings.Contains(err.Error(), why) {
		t.Errorf("error %v", err)
	}
	if now, err := os.ReadFile(s.Database()); err != nil || string(now) != string(text) {
		t.Errorf("it was changed: %d bytes, %v", len(now), err)
	}
	if lock, err := s.TryLock(true); err != nil {
		t.Errorf("the lock is still held: %v", err)
	} else {
		lock.Release()
	}
}

// TestCollectorIsWoken: who asks a live session without a collector starts one, a client of one that is killed has its
// successor, and the end of the session is told by it.
func TestCollectorIsWoken(t *testing.T) {
	s := going(t)
	b := connect(t, s)
	defer b.Close()
	if n, _ := countSteps(t, b); n != "0" {
		t.Errorf("%s steps", n)
	}
	killed := kill(t, s)
	if _, err := b.Summary(t.Context()); err != nil {
		t.Errorf("after its collector was killed: %v", err)
	}
	if now := collectorPID(t, s); now == killed {
		t.Errorf("nobody started another collector than %d", killed)
	}
	if _, err := Finish(t.Context(), s); err != nil {
		t.Errorf("finish: %v", err)
	}
}

func collectorPID(t *testing.T, s *session.Session) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Dir, pidFile))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// kill kills the session's collector and waits until it is gone.
func kill(t *testing.T, s *session.Session) (pid int) {
	t.Helper()
	pid = collectorPID(t, s)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lock, err := s.Lock(ctx, true)
	if err != nil {
		t.Fatal(err)
	}
	lock.Release()
	return pid
}

// TestNoCollectorCanStart: then the database is read as it is, and that is noted; where there is none, the error says
// where to look.
func TestNoCollectorCanStart(t *testing.T) {
	s := going(t)
	if err := os.WriteFile(filepath.Join(s.Dir, brokenFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Connect(t.Context(), s); err == nil || !strings.Contains(remedy.Of(err), s.Log()) {
		t.Errorf("without a database: %v; hint %q", err, remedy.Of(err))
	}
	if log, err := os.ReadFile(s.Log()); err != nil || !strings.Contains(string(log), "told not to start") {
		t.Errorf("the log says %q, %v", log, err)
	}
	o, err := owner.Open(t.Context(), s, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Load(t.Context()); err != nil { // which makes the database
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	b := connect(t, s)
	if _, note := countSteps(t, b); !strings.Contains(note, "no collector answers") {
		t.Errorf("note %q", note)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestFinishWithoutItsCollector: memgauge run has its summary also where the collector dies before it has answered.
func TestFinishWithoutItsCollector(t *testing.T) {
	s := orphan(t, 9)
	dying, err := sock.Listen(s.Socket())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := dying.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	sum, err := Finish(t.Context(), s)
	if err != nil || sum.Steps != 9 {
		t.Errorf("%+v, %v", sum, err)
	}
	dying.Close()
	<-ended
}

// ends is a collector that is killed under every question.
type ends struct {
	database
	asked int
}

func (e *ends) Query(_ context.Context, _ api.QueryRequest, w io.Writer) error {
	e.asked++
	_, _ = io.WriteString(w, "half of an ans")
	return fmt.Errorf("query: %w", api.ErrBroken)
}

func (e *ends) Leak(context.Context, api.LeakRequest) (detect.Report, error) {
	e.asked++
	return detect.Report{}, fmt.Errorf("leak: %w", api.ErrBroken)
}

func (e *ends) Close() error { return nil }

// TestWhoComesNextAnswers: a question whose collector ends under it is asked of whoever has the rows then, here of the
// finished session, and nobody who asks knows of it. What was written of an answer is forgotten first; where that can't
// be, the answer is a broken one.
func TestWhoComesNextAnswers(t *testing.T) {
	s := orphan(t, 5)
	finish(t, s)
	gone := &ends{}
	o := &opened{Job: service.Job{S: s}, db: gone}
	defer o.Close()
	if n, _ := countSteps(t, o); n != "5" || gone.asked != 1 {
		t.Errorf("%s steps, after %d questions", n, gone.asked)
	}
	o.leave(o.db)
	o.db = gone
	if _, err := o.Leak(t.Context(), api.LeakRequest{}); err != nil || gone.asked != 2 {
		t.Errorf("%v, after %d questions", err, gone.asked)
	}
	o.leave(o.db)
	o.db = gone
	var out strings.Builder
	err := o.Query(t.Context(), api.QueryRequest{SQL: "SELECT 1", Format: "csv"}, struct{ io.Writer }{&out})
	if !errors.Is(err, api.ErrBroken) || out.String() != "half of an ans" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestTheEndIsJudgedWhole: a session that has ended is judged from all that was stored of it, whoever answered before.
func TestTheEndIsJudgedWhole(t *testing.T) {
	s := orphan(t, 5)
	finish(t, s)
	o := &opened{Job: service.Job{S: s}, db: live{Client: api.NewClient(filepath.Join(t.TempDir(), "nobody"))}}
	defer o.Close()
	o.settle()
	if o.db != nil {
		t.Error("the client of its collector is still asked")
	}
	if _, err := o.Leak(t.Context(), api.LeakRequest{}); err != nil {
		t.Error(err)
	}
}

// TestRetry: only what a killed collector left unanswered is asked again, and not for ever.
func TestRetry(t *testing.T) {
	other := errors.New("no such table")
	for _, c := range []struct {
		name    string
		answers []error // the last one for ever
		asked   int     // 0: several times
		err     error
	}{
		{"answered", []error{nil}, 1, nil},
		{"refused", []error{other}, 1, other},
		{"killed once", []error{api.ErrBroken, nil}, 2, nil},
		{"its successor refuses", []error{api.ErrBroken, other}, 2, other},
		{"kills each", []error{api.ErrBroken}, 0, api.ErrBroken},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			err := Retry(t.Context(), func() error {
				asked++
				return c.answers[min(asked, len(c.answers))-1]
			})
			if !errors.Is(err, c.err) || c.asked > 0 && asked != c.asked || c.asked == 0 && asked < 2 {
				t.Errorf("asked %d times: %v", asked, err)
			}
		})
	}
}

// TestUnreadableEndIsTold: an end that can't be read is told whatever is asked of the session, and once.
func TestUnreadableEndIsTold(t *testing.T) {
	s := orphan(t, 3)
	end := filepath.Join(s.Dir, "end.json")
	if err := os.WriteFile(end, []byte(strings.Repeat(" ", 2<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, ask := range map[string]func(context.Context, api.Session) error{
		"leak": func(ctx context.Context, a api.Session) error {
			_, err := a.Leak(ctx, api.LeakRequest{})
			return err
		},
		"where": func(ctx context.Context, a api.Session) error { _, err := a.Where(ctx); return err },
	} {
		var said []string
		ctx := Telling(t.Context(), func(line string) { said = append(said, line) })
		a := Target{s: s, PID: 0, Rank: -1}.Open()
		err := ask(ctx, a)
		if err = errors.Join(err, a.Close()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if len(said) != 1 || !strings.Contains(said[0], end+": more than 1048576 bytes") {
			t.Errorf("%s said %q", what, said)
		}
	}
}
