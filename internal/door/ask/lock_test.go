package ask

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/record/session"
)

// A recovery that takes longer than the patience with a lock does not fail who waits for it, as long as it gets on; one
// that hangs does.
func TestLockIsWaitedForWhileItsHolderGetsOn(t *testing.T) {
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	s, err := session.Create(session.Options{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Database(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const patience = 400 * time.Millisecond // twenty times what the holder takes to get on, for a busy machine
	holder, err := s.TryLock(true)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { // a recovery that takes more than twice as long
		defer close(done)
		defer holder.Release()
		tick := time.NewTicker(patience / 20)
		defer tick.Stop()
		for i := range 50 {
			<-tick.C
			// later each time, however coarse the file system's clock
			stored := time.Now().Add(time.Duration(i+1) * time.Second)
			if err := os.Chtimes(s.Database(), stored, stored); err != nil {
				t.Error(err)
			}
		}
	}()
	lock, err := lockBusy(context.Background(), s, false, patience, never)
	<-done
	if err != nil {
		t.Fatalf("waiting for a recovery that got on: %v", err)
	}
	defer lock.Release()
	if _, err := lockBusy(context.Background(), s, true, patience, never); !errors.Is(err, session.ErrLocked) {
		t.Errorf("of a holder that does nothing: %v", err)
	}
}

// Who has recovered a session and reads it, slowly, keeps nobody waiting who came to recover it too.
func TestLockThatIsNeedlessMeanwhile(t *testing.T) {
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	s, err := session.Create(session.Options{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	reader, err := s.TryLock(false)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Release()
	looks := 0
	lock, err := lockBusy(context.Background(), s, true, time.Hour, func() bool { looks++; return looks == 3 })
	if lock != nil || err != nil {
		t.Errorf("lock %v, %v after %d looks; want none, and no error", lock, err, looks)
	}
}

// A judgement writes nothing for as long as it takes: its CPU time shows that it gets on. Who waits is told for what.
func TestLockIsWaitedForWhileItsHolderComputes(t *testing.T) {
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	s, err := session.Create(session.Options{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	holder, err := s.TryLock(true)
	if err != nil {
		t.Fatal(err)
	}
	holder.Say("judges\x1b[2J")
	told := make(chan string, 9)
	ctx := Telling(context.Background(), func(line string) {
		told <- line
		holder.Release()
	})
	done := make(chan struct{})
	go func() { // the CPU time of this process grows until the lock is had
		defer close(done)
		for n := 0; ; n++ {
			if _, ok := s.Holder(); !ok {
				return
			}
		}
	}()
	// shorter than the time until the wait is told, much longer than a clock tick
	lock, err := lockBusy(ctx, s, false, sayAfter*4/5, never)
	if err != nil {
		holder.Release()
		t.Fatalf("waiting for a holder that computes: %v", err)
	}
	<-done
	lock.Release()
	want := fmt.Sprintf("waiting for process %d, which judges", os.Getpid())
	if line := <-told; !strings.HasPrefix(line, want) || strings.Contains(line, "\x1b") || len(told) > 0 {
		t.Errorf("told %q, want %q and no more", line, want)
	}
}
