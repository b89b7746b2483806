package wire_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/test/env"
)

// Whoever gets the descriptor can write into the ring, and nothing else: it grows by no way that the kernel has.
func TestSealedRing(t *testing.T) {
	f, reference, err := wire.SealedRing()
	if errors.Is(err, os.ErrPermission) {
		env.Missing(t, "root", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	size, fd := st.Size(), int(f.Fd())
	for what, grow := range map[string]func() error{
		"truncate":  func() error { return f.Truncate(1 << 30) },
		"cut":       func() error { return f.Truncate(1) },
		"write":     func() error { _, err := f.WriteAt(make([]byte, 1<<20), size); return err },
		"fallocate": func() error { return unix.Fallocate(fd, 0, 0, 1<<30) },
		"unseal":    func() error { _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); return err },
	} {
		if err := grow(); err == nil {
			t.Errorf("%s works", what)
		}
	}
	if err := unix.Fallocate(fd, 0, 0, size); err != nil {
		t.Errorf("allocate it in full: %v", err)
	}
	area, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	copy(area, "a record")
	path := filepath.Join(t.TempDir(), fmt.Sprintf("%d.1.1.ring", os.Getpid()))
	if err := os.WriteFile(path, reference, 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := wire.OpenRingFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	text := make([]byte, 8)
	if _, err := g.ReadAt(text, 0); err != nil || string(text) != "a record" {
		t.Errorf("read %q, %v", text, err)
	}
	if err := unix.Munmap(area); err != nil {
		t.Fatal(err)
	}
	if _, err := wire.OpenRingFile(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a ring that is gone: %v", err)
	}
	if _, err := g.ReadAt(text, 0); err != nil || string(text) != "a record" {
		t.Errorf("one that was open when it went: %q, %v", text, err)
	}
}
