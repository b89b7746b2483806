package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
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

// On a full disk questions are answered from what was stored, and say that something is missing: while the job runs,
// after it, and with whatever of ours having been killed. When there is room again nothing is lost.
func TestDiskFullAnswersAllTheSame(t *testing.T) {
	t.Parallel()
	env.Root(t)
	w := newWorld(t)
	disk := filepath.Join(w.home, "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	smallDisk(t, disk, "24m")
	session, ledger := filepath.Join(disk, "s"), filepath.Join(w.home, "ledger")
	run := w.start("memgauge", "run", "--quiet", "--session", session, "--", "python3", script(t, "ledger.py"), ledger,
		"1000000000", "0.0001")
	until(t, "the trainer", func() bool { return strings.Contains(run.out.String(), "pid ") })
	until(t, "rows", func() bool { return w.number(session, "SELECT count(*) FROM python.steps") > 100 })
	free := fillUp(t, disk)
	count := func(when string) {
		t.Helper()
		r := w.do("memgauge", "query", "--session", session, "-f", "csv",
			"SELECT count(*) > 100 AS some FROM python.steps")
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

// A session on a file system that can't be written to is read as it is.
func TestReadOnlySessionAnswers(t *testing.T) {
	t.Parallel()
	env.Root(t)
	w := newWorld(t)
	disk := filepath.Join(w.home, "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	smallDisk(t, disk, "64m")
	session := filepath.Join(disk, "s")
	run := w.start("memgauge", "run", "--quiet", "--session", session, "--", "python3", script(t, "ledger.py"),
		filepath.Join(w.home, "ledger"), "1000000000", "0.0001")
	until(t, "the trainer", func() bool { return strings.Contains(run.out.String(), "pid ") })
	until(t, "rows", func() bool { return w.number(session, "SELECT count(*) FROM python.steps") > 100 })
	for _, pid := range append([]int{run.Process.Pid, trainerPID(t, run)},
		append(keepers(session), collectors(session)...)...) {
		kill(t, pid)
	}
	run.wait(t)
	until(t, "the collector's end", func() bool { return len(collectors(session)) == 0 })
	until(t, "who was killed to have closed its files", func() bool {
		return syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "") == nil
	})
	if n := w.number(session, "SELECT count(*) FROM python.steps"); n < 100 {
		t.Errorf("%v rows", n)
	}
}

// Who asks from another container than the job's does not take a live job for a finished one, whose rings may go.
func TestAnotherPIDNamespaceLeavesRingsAlone(t *testing.T) {
	t.Parallel()
	env.Root(t)
	w := newWorld(t)
	run, session, ledger := w.ledgerRun(0, 1<<30)
	rings := func() int {
		list, _ := filepath.Glob(filepath.Join(session, "rings", "*.ring"))
		return len(list)
	}
	before := rings()
	for _, pid := range append([]int{run.Process.Pid}, collectors(session)...) {
		kill(t, pid)
	}
	bin := filepath.Join(w.home, "bin", "memgauge")
	r := w.do("unshare", "-p", "-f", "--mount-proc", bin, "query", "--session", session, "SELECT 1")
	if after := rings(); before == 0 || after != before {
		t.Errorf("%d rings before, %d after: exit %d %s%s", before, after, r.code, r.stdout, r.stderr)
	}
	kill(t, trainerPID(t, run))
	run.wait(t)
	w.checkLedger(session, ledger)
}
