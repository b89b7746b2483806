package observe

import (
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/record/session"
)

// TestPendingIsNoError: a collector that still has the session when nobody should wait any longer finishes it by
// itself, and the command's end says so.
func TestPendingIsNoError(t *testing.T) {
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	s, err := session.Create(session.Options{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetEnd(session.End{Ended: time.Now(), State: "exited"}); err != nil {
		t.Fatal(err)
	}
	lock, err := s.TryLock(true)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if sum, pending, err := finish(t.Context(), s, time.Millisecond); err != nil || !pending || sum.Steps != 0 {
		t.Errorf("%+v, pending %t, %v", sum, pending, err)
	}
}
