package rootdir_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/rootdir"
)

// TestUnlockOfACopy: a lock that was given back is free, also while a child that is being started has a copy of the
// descriptor.
func TestUnlockOfACopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := rootdir.EditFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first, second := open(), open()
	defer second.Close()
	if err := rootdir.TryLock(first, true); err != nil {
		t.Fatal(err)
	}
	if err := rootdir.TryLock(second, false); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Fatalf("a lock that somebody has: %v", err)
	}
	inherited, err := unix.Dup(int(first.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	if err := rootdir.Unlock(first); err != nil {
		t.Fatal(err)
	}
	if err := rootdir.TryLock(second, true); err != nil {
		t.Errorf("after it was given back: %v", err)
	}
}
