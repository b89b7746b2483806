package e2e

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"
)

// kills is how often each kill test kills: in the long lane enough to meet every phase of a drain.
func kills() int { return env.Times(3, 100) }

// ledgerRun starts a trainer that writes numbered records and a ledger of them.
func (w *world) ledgerRun(i, records int) (run *background, session, ledger string) {
	w.t.Helper()
	script, err := filepath.Abs("testdata/ledger.py")
	if err != nil {
		w.t.Fatal(err)
	}
	session = filepath.Join(w.home, fmt.Sprintf("s%d", i))
	ledger = session + ".ledger"
	run = w.start("memgauge", "run", "--quiet", "--session", session, "--", "python3", script, ledger,
		strconv.Itoa(records), "0.0001")
	until(w.t, "the trainer", func() bool { return strings.Contains(run.out.String(), "pid ") })
	return run, session, ledger
}

func trainerPID(t *testing.T, run *background) int {
	t.Helper()
	var pid int
	if _, err := fmt.Sscanf(run.out.String(), "pid %d", &pid); err != nil {
		t.Fatalf("no pid in %q", run.out.String())
	}
	return pid
}

// checkLedger demands every record that the ledger names, each once, and at most the one more that was published while
// the process was killed before it could write its ledger.
func (w *world) checkLedger(session, ledger string) {
	w.t.Helper()
	b, err := os.ReadFile(ledger)
	if err != nil || len(b) < 8 {
		b = make([]byte, 8) // killed before its first record
	}
	want := float64(binary.LittleEndian.Uint64(b))
	row := w.rows(session,
		`SELECT count(*) n, count(DISTINCT step) d, coalesce(max(step), 0) m, count(*) FILTER (rss <> step) bad,
		(SELECT coalesce(sum(records), 0)::BIGINT FROM memgauge.drops) lost FROM python.steps`)[0]
	n := row["n"].(float64)
	if n != row["d"] || n != row["m"] || row["bad"] != 0.0 || row["lost"] != 0.0 || n != want && n != want+1 {
		w.t.Errorf("the ledger has %v records, the database %v", want, row)
	}
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
		t.Fatal(err)
	}
}

// pause is a random time in which the writer and the collector get to a random place.
func pause(longest time.Duration) { time.Sleep(rand.N(longest)) }

func TestKilledTrainerLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range kills() {
		run, session, ledger := w.ledgerRun(i, 1<<30)
		pause(150 * time.Millisecond)
		kill(t, trainerPID(t, run))
		if code := run.wait(t); code != 137 {
			t.Fatalf("run: exit %d, want 137", code)
		}
		w.checkLedger(session, ledger)
	}
	if out := w.mg("list", "-a"); strings.Count(out, "killed by SIGKILL") != kills() {
		t.Errorf("list -a:\n%s", out)
	}
}

// The collector is killed again and again under one trainer, which must neither notice nor lose a record.
func TestKilledCollectorLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	records := 40_000
	run, session, ledger := w.ledgerRun(0, records)
	for range kills() {
		pause(60 * time.Millisecond)
		for _, pid := range collectors(session) {
			kill(t, pid)
		}
		// it may still meet the dying one: then it asks a new one by itself
		if got := w.do("memgauge", "query", "--session", session, "SELECT count(*) FROM python.steps"); got.code != 0 {
			t.Errorf("a query after the kill: %+v", got)
		}
	}
	if code := run.wait(t); code != 0 || !strings.Contains(run.out.String(), "done") {
		t.Errorf("the trainer was disturbed: exit %d, %q", code, run.out.String())
	}
	w.checkLedger(session, ledger)
	if n := w.number(session, "SELECT max(step) FROM python.steps"); n != float64(records) {
		t.Errorf("%v records of %d", n, records)
	}
}

func TestEverythingKilledAtOnceLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range kills() {
		run, session, ledger := w.ledgerRun(i, 1<<30)
		pause(150 * time.Millisecond)
		pids := append([]int{run.Process.Pid, trainerPID(t, run)}, collectors(session)...)
		for _, pid := range pids {
			kill(t, pid)
		}
		run.wait(t)
		w.checkLedger(session, ledger)
	}
	if out := w.mg("list", "-a"); strings.Count(out, "lost") != kills() {
		t.Errorf("list -a does not say that the sessions were lost:\n%s", out)
	}
}
