package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/record/session"
	"github.com/memgauge/memgauge/test/env"
)

// oneCollector waits until the session has exactly one collector that is not old, and gives its PID.
func oneCollector(t *testing.T, session string, old int) int {
	t.Helper()
	pid := 0
	until(t, "a collector", func() bool {
		pids := collectors(session)
		if len(pids) == 1 && pids[0] != old {
			pid = pids[0]
		}
		return pid != 0
	})
	return pid
}

// answering waits for the collector that has the session: one that was started while the killed one still held the
// session's lock ends again.
func (w *world) answering(session string, old int) (pid int) {
	w.t.Helper()
	until(w.t, "a collector that answers", func() bool {
		if w.do("memgauge", "query", "--session", session, "SELECT 1").code != 0 {
			return false
		}
		pids := collectors(session)
		if len(pids) == 1 && pids[0] != old {
			pid = pids[0]
		}
		return pid != 0
	})
	return pid
}

// statusKiB is a line of /proc/PID/status.
func statusKiB(t *testing.T, pid int, name string) (n int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), name+":")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatalf("%s of %d: %v", name, pid, err)
	}
	return n
}

// endless is a question of one call that takes a minute, in little memory, and that DuckDB can't interrupt.
const endless = "SELECT levenshtein(repeat('a', n), repeat('b', n)) FROM (SELECT 150000 + range AS n FROM range(1))"

// A question that can't be stopped costs the process that runs it, and no record.
func TestQuestionThatCannotBeStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, session, ledger := w.ledgerRun(0, 1<<30)
	w.number(session, "SELECT count(*) FROM python.steps")
	if r := w.do("memgauge", "query", "--session", session, "--timeout", "300ms", endless); r.code != 124 {
		t.Errorf("exit %d, want 124: %s", r.code, r.stderr)
	}
	until(t, "the collector to start anew", func() bool {
		log, err := os.ReadFile(filepath.Join(session, "collector.log"))
		return err == nil && strings.Contains(string(log), "starts anew")
	})
	w.number(session, "SELECT count(*) FROM python.steps")
	kill(t, trainerPID(t, run))
	run.wait(t)
	w.checkLedger(session, ledger)
	if r := w.do("memgauge", "query", "--session", session, "--timeout", "300ms", endless); r.code != 124 {
		t.Errorf("of a finished session: exit %d, want 124: %s", r.code, r.stderr)
	}
}

// Questions that ask for more memory than there may be get an error, several at once too; the collector stays within
// its bound and loses no record.
func TestQuestionsCannotTakeTheMemory(t *testing.T) {
	env.Long(t, "questions that take all the memory they get, at once")
	t.Parallel()
	w := newWorld(t)
	run, session, ledger := w.ledgerRun(0, 1<<30)
	pid := oneCollector(t, session, 0)
	var wg sync.WaitGroup
	for _, sql := range []string{"SELECT len(range(500000000))", "SELECT len(range(400000000))",
		"SELECT max(len(l)) FROM (SELECT list(range) l FROM range(100000000))",
		"SELECT len(repeat('x', 2000000000))"} {
		wg.Go(func() {
			r := w.do("memgauge", "query", "--session", session, "--timeout", "20s", sql)
			if r.code == 0 || r.stdout != "" {
				t.Errorf("%s: exit %d, %s%s", sql, r.code, r.stdout, r.stderr)
			}
			t.Logf("%s: exit %d %s", sql, r.code, r.stderr)
		})
	}
	wg.Wait()
	if got := collectors(session); len(got) == 1 && got[0] == pid {
		peak := statusKiB(t, pid, "VmHWM")
		t.Logf("the collector had %d MiB at most", peak>>10)
		if peak > 1400<<10 {
			t.Errorf("the collector took %d MiB", peak>>10)
		}
	} else {
		t.Errorf("the collector was %d, now %v: it should have lived", pid, got)
	}
	w.number(session, "SELECT count(*) FROM python.steps")
	kill(t, trainerPID(t, run))
	run.wait(t)
	w.checkLedger(session, ledger)
}

// An attached session's collector that is killed comes back by itself, and so does one whose keeper was killed before
// it.
func TestAttachedSessionKeepsACollector(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.program(env.CPythons(t)[0].Path, script(t, "loop.py"), "sleep", "STOP")
	name := w.attach(p.pid)
	dirs, _ := filepath.Glob(filepath.Join(w.home, "state", "sessions", "*"))
	if len(dirs) != 1 {
		t.Fatalf("sessions %v of %s", dirs, name)
	}
	first := oneCollector(t, dirs[0], 0)
	begun := time.Now()
	kill(t, first)
	second := oneCollector(t, dirs[0], first)
	t.Logf("back after %s", time.Since(begun))
	kill(t, second)
	if out := w.mg("list"); !strings.Contains(out, "running") {
		t.Errorf("list:\n%s", out)
	}
	third := w.answering(dirs[0], second)
	keeper := keepers(dirs[0])
	if len(keeper) != 1 {
		t.Fatalf("keepers %v", keeper)
	}
	t.Logf("the keeper has %d KiB of its own", statusKiB(t, keeper[0], "RssAnon"))
	kill(t, keeper[0])
	until(t, "another keeper", func() bool { now := keepers(dirs[0]); return len(now) == 1 && now[0] != keeper[0] })
	kill(t, third)
	fourth := oneCollector(t, dirs[0], third)

	// A collector that a client has started is no child of the keeper's.
	keeper = keepers(dirs[0])
	if err := syscall.Kill(keeper[0], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	kill(t, fourth)
	w.mg("list")
	fifth := w.answering(dirs[0], fourth)
	kill(t, keeper[0])
	until(t, "another keeper", func() bool { now := keepers(dirs[0]); return len(now) == 1 && now[0] != keeper[0] })
	kill(t, fifth)
	oneCollector(t, dirs[0], fifth)
	p.end(t)
}

// keepers finds the processes that see to it that the session has a collector.
func keepers(dir string) []int {
	return running(func(line string) bool { return line == "collector\x00--keep\x00--session\x00"+dir+"\x00" })
}

// A session that no collector can observe is never said to run.
func TestListTellsOfUnobservedSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, session, _ := w.ledgerRun(0, 1<<30)
	pid := oneCollector(t, session, 0)
	trainer := trainerPID(t, run)
	kill(t, run.Process.Pid)
	if err := os.WriteFile(filepath.Join(session, "broken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(session, "broken"), filepath.Join(session, "session.duckdb")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(session, "session.duckdb"), []byte(strings.Repeat("no database ", 4096)),
		0o600); err != nil {
		t.Fatal(err)
	}
	kill(t, pid)
	out := w.mg("list")
	if !strings.Contains(out, "not observed") || strings.Contains(out, "running") {
		t.Errorf("list:\n%s", out)
	}
	kill(t, trainer)
}

// No statement and no output of ours reaches a ring that a trainer has mapped, nor any other file of a session.
func TestHostileSQLAgainstALiveTrainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, session, ledger := w.ledgerRun(0, 1<<30)
	rings, _ := filepath.Glob(filepath.Join(session, "rings", "*.ring"))
	if len(rings) == 0 {
		t.Fatal("no ring")
	}
	ran := 0
	for _, target := range append(rings, filepath.Join(session, "session.json")) {
		for _, sql := range []string{"EXPLAIN ANALYZE COPY (SELECT 1) TO 'TARGET'",
			"EXPLAIN/**/ANALYZE/**/COPY (SELECT 1) TO 'TARGET'", "COPY (SELECT 1) TO 'TARGET'",
			"FROM enable_logging/**/(storage := 'file', storage_path := 'TARGET')", "FROM read_text('TARGET')",
			"FROM query('COPY (SELECT 1) TO ''TARGET''')"} {
			if r := w.do("memgauge", "query", "--session", session,
				strings.ReplaceAll(sql, "TARGET", target)); r.code != 1 || r.stdout != "" {
				t.Errorf("%s: exit %d, %s%s", sql, r.code, r.stdout, r.stderr)
			}
			ran++
		}
		if r := w.do("memgauge", "query", "--session", session, "-f", "csv", "-o", target, "SELECT 1"); r.code == 0 {
			t.Errorf("an answer was written to %s", target)
		}
		ran++
	}
	kill(t, trainerPID(t, run))
	if code := run.wait(t); code != 137 {
		t.Errorf("the trainer ended with %d, want our kill's 137", code)
	}
	w.checkLedger(session, ledger)
	t.Logf("%d hostile acts", ran)
}

// A ring that is refused is told of once. It does not make every later command recover the session.
func TestRefusedRingIsRecoveredOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := filepath.Join(w.home, "s")
	w.mg("run", "--quiet", "--session", dir, "--", "python3", "-c", "pass")
	s, err := session.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the collector's end", func() bool { // it would answer for the session, and know nothing of the ring
		lock, err := s.TryLock(true)
		if err == nil {
			lock.Release()
		}
		return err == nil
	})
	if err := os.WriteFile(filepath.Join(dir, "rings", "1.2.3.ring"), []byte("no ring"), 0o600); err != nil {
		t.Fatal(err)
	}
	told := "SELECT count(*) FROM memgauge.drops WHERE reason LIKE '%damaged%'"
	if n := w.number(dir, told); n != 1 {
		t.Errorf("the damaged ring is told of %v times", n)
	}
	lock, err := s.TryLock(false) // as another reader holds it: who wants to recover can't
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if n := w.number(dir, told); n != 1 {
		t.Errorf("the second time the damaged ring is told of %v times", n)
	}
	w.mg("report", "--session", dir, "--json")
}
