package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// fillUp takes what room a disk has, and returns what gives it back.
func fillUp(t *testing.T, disk string) (free func()) {
	t.Helper()
	hog, err := os.Create(filepath.Join(disk, "hog"))
	if err != nil {
		t.Fatal(err)
	}
	for size := 64 << 10; size > 0; { // up to the last byte
		if _, err := hog.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	return func() {
		hog.Close() // an open file keeps its room
		if err := os.Remove(hog.Name()); err != nil {
			t.Fatal(err)
		}
	}
}

// On a full disk questions are answered from what was stored, and say that something is missing: while the job runs, after
// it, and with whatever of ours having been killed. When there is room again nothing is lost.
func TestDiskFullAnswersAllTheSame(t *testing.T) {
	env.Root(t)
	w := newWorld(t)
	disk := filepath.Join(w.home, "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	smallDisk(t, disk, "24m")
	session, ledger := filepath.Join(disk, "s"), filepath.Join(w.home, "ledger")
	run := w.start("memgauge", "run", "--quiet", "--session", session, "--", "python3", script(t, "ledger.py"), ledger, "1000000000", "0.0001")
	until(t, "the trainer", func() bool { return strings.Contains(run.out.String(), "pid ") })
	until(t, "rows", func() bool { return w.number(session, "SELECT count(*) FROM python.steps") > 100 })
	free := fillUp(t, disk)
	count := func(when string) {
		t.Helper()
		r := w.do("memgauge", "query", "--session", session, "-f", "csv", "SELECT count(*) > 100 AS some FROM python.steps")
		if r.code != 0 || r.stdout != "some\ntrue\n" {
			t.Errorf("%s: exit %d, %q %s", when, r.code, r.stdout, r.stderr)
		}
		t.Logf("%s: %s", when, strings.TrimSpace(r.stderr))
	}
	count("while it runs")
	for _, pid := range collectors(session) {
		kill(t, pid)
	}
	count("with its collector killed")
	pids := append(collectors(session), run.Process.Pid, trainerPID(t, run))
	for _, pid := range pids {
		kill(t, pid)
	}
	run.wait(t)
	count("with everything killed")
	free()
	w.checkLedger(session, ledger)
}
