package ask

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/sock"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/record/session"
)

// stalled asks for an answer that can't come, and wants to be told why, and what to do.
func stalled(t *testing.T, b api.Session, hint string) {
	t.Helper()
	for what, err := range map[string]error{
		"leak":  func() error { _, err := b.Leak(t.Context(), api.LeakRequest{}); return err }(),
		"query": b.Query(t.Context(), api.QueryRequest{SQL: "SELECT 1", Format: "csv"}, io.Discard),
	} {
		if !errors.Is(err, ErrStalled) || !strings.Contains(remedy.Of(err), hint) {
			t.Errorf("%s: %v, hint %q", what, err, remedy.Of(err))
		}
	}
}

// TestStoppedCollector: who asks one that was stopped is told so, and is answered when it goes on.
func TestStoppedCollector(t *testing.T) {
	s := going(t)
	b := connect(t, s)
	defer b.Close()
	if n, _ := countSteps(t, b); n != "0" {
		t.Errorf("%s steps", n)
	}
	pid := collectorPID(t, s)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
	stalled(t, b, "kill -CONT")
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if n, _ := countSteps(t, b); n != "0" {
		t.Errorf("%s steps", n)
	}
}

// TestHungCollector: so is who asks one that takes questions and answers none.
func TestHungCollector(t *testing.T) {
	defer func(before time.Duration) { silent = before }(silent)
	silent = 100 * time.Millisecond
	s := create(t)
	l, err := sock.Listen(s.Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	lock, err := s.Lock(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	defer func() {
		if err := s.SetEnd(session.End{State: "exited"}); err != nil {
			t.Error(err)
		}
	}()
	b := connect(t, s)
	defer b.Close()
	stalled(t, b, "kill -9")
}
