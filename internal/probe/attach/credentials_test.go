package attach

import (
	"fmt"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"
)

// TestCredentials: our threads, and threads that they start, handle the signal by which the C library changes every
// thread's credentials. A thread that blocked it made a setuid wait for ever, with Python's lock held.
func TestCredentials(t *testing.T) {
	for _, py := range pythons(t) {
		if !hasCtypes(t, py) {
			continue // a minimal build
		}
		t.Run(py.Name(), func(t *testing.T) {
			p := start(t, py, "testdata/credentials.py")
			inject(t, p, "import _thread, time\n_thread.start_new_thread(time.sleep, (1000,))")
			for range 3 {
				if got := answer(t, p); got != "done" {
					t.Errorf("it says %q", got)
				}
			}
		})
	}
}

// TestCredentialsMeanwhile attaches to a program in which another thread changes its credentials all the time.
func TestCredentialsMeanwhile(t *testing.T) {
	p := start(t, env.Python{Path: env.Program(t, "python3")}, "testdata/credentials.py", "hammer")
	for range env.Times(40, 1000) {
		inject(t, p, "result = 'here'")
	}
	if got := answer(t, p); got != "done" {
		t.Errorf("it says %q", got)
	}
}

// answer sends an empty line and waits for one.
func answer(t *testing.T, p *target) string {
	t.Helper()
	hung := time.AfterFunc(time.Minute, func() { p.Process.Kill() })
	defer hung.Stop()
	if _, err := fmt.Fprintln(p.in); err != nil {
		t.Fatal(err)
	}
	return p.line(t)
}

func TestReservedSignals(t *testing.T) {
	for libc, want := range map[string][2]uint64{
		"libc.so.6":                           {^uint64(1<<31 | 1<<32), ^uint64(1 << 32)},
		"libpthread-2.31.so, libc-2.31.so":    {^uint64(1<<31 | 1<<32), ^uint64(1 << 32)},
		"ld-musl-x86_64.so.1, libmimalloc.so": {^uint64(1<<31 | 1<<32 | 1<<33), ^uint64(1 << 33)},
	} {
		if r := reservedBy(libc); r.inThread() != want[0] || r.inChain() != want[1] {
			t.Errorf("%s: %#x and %#x, want %#x", libc, r.inThread(), r.inChain(), want)
		}
	}
}
