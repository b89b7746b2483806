package e2e

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// greedy take more memory than a question may.
var greedy = []string{"SELECT repeat('x', 900000000)", "SELECT sum(length(repeat('x', 1500000000 + i)))",
	"SELECT [repeat('x', 900000000 + i) FOR x IN range(3)]", "SELECT string_agg(repeat('x', 100000000 + i), '')",
	"SELECT list(repeat('x', 30000000 + i))"}

// from has the rows of a greedy question come from somewhere.
func from(sql, table string) string {
	return sql + " FROM (SELECT row_number() OVER () AS i FROM " + table + ")"
}

// children are the processes that a process has started and that run still.
func children(pid int) (list []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(b), ") ") // pid (name) state parent: proc_pid_stat(5)
		if f := strings.Fields(rest); len(f) > 1 && f[0] != "Z" && f[1] == strconv.Itoa(pid) {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			list = append(list, child)
		}
	}
	return list
}

// Questions that take all memory, one after the other and side by side, some of them called off, cost the hub nothing:
// it stays within its memory, no process of theirs stays, and the next question is answered.
func TestHostileQuestionsToTheHub(t *testing.T) {
	env.Long(t, "a cluster under questions that take all the memory they get")
	t.Parallel()
	w := newWorld(t)
	dir, addr := filepath.Join(w.home, "lake"), net.JoinHostPort("127.0.0.1", env.FreePort(t))
	makeLake(t, dir)
	hub := w.start("memgauge", "hub", "--listen", addr, "--lake", dir)
	until(t, "the hub", func() bool { return w.do("memgauge", "hub", "status").code == 0 })
	honest := func() {
		t.Helper()
		r := w.do("memgauge", "hub", "query", "-f", "csv", "SELECT count(*) AS n FROM python.steps")
		if r.code != 0 || r.stdout != "n\n3600\n" {
			t.Errorf("an honest question: %+v", r)
		}
	}
	honest()
	pid := hub.Process.Pid
	rss, data := statusKiB(t, pid, "VmRSS"), statusKiB(t, pid, "VmData")
	hostile := func(sql string) {
		r := w.do("memgauge", "hub", "query", "-f", "csv", "--timeout", "8s", "-o", "/dev/null",
			from(sql, "python.steps"))
		if r.code == 0 {
			t.Errorf("%s was answered", sql)
		}
	}
	for _, sql := range greedy {
		hostile(sql)
	}
	var all sync.WaitGroup
	for _, sql := range greedy {
		all.Go(func() { hostile(sql) })
	}
	all.Wait()
	called := w.start("memgauge", "hub", "query", "-f", "csv", "SELECT levenshtein(repeat('a', n), repeat('b', n)) "+
		"FROM (SELECT 150000 + step AS n FROM python.steps)")
	until(t, "the question to be worked on", func() bool { return len(children(pid)) > 0 })
	if err := called.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	called.wait(t)
	until(t, "its process to be gone", func() bool { return len(children(pid)) == 0 })
	honest()
	const most = 300 << 10
	if now := statusKiB(t, pid, "VmRSS"); now > rss+most {
		t.Errorf("the hub has %d MiB, and had %d", now>>10, rss>>10)
	}
	if now := statusKiB(t, pid, "VmData"); now > data+most {
		t.Errorf("the hub has mapped %d MiB, and had %d", now>>10, data>>10)
	}
	if left := children(pid); len(left) != 0 {
		t.Errorf("processes of the hub: %v", left)
	}
}

// Questions that were refused for their memory leave the collector what it needs: it gives back what they took, or
// starts anew. Rows go on being stored, and none is lost.
func TestCollectorAfterHostileQuestions(t *testing.T) {
	env.Long(t, "questions that take all the memory they get, one after the other")
	t.Parallel()
	w := newWorld(t)
	run, session, ledger := w.ledgerRun(0, 1<<30)
	oneCollector(t, session, 0)
	for range 4 {
		var all sync.WaitGroup
		for _, sql := range greedy {
			all.Go(func() {
				r := w.do("memgauge", "query", "--session", session, "--timeout", "8s", "-o", "/dev/null",
					from(sql, "range(50)"))
				if r.code == 0 {
					t.Errorf("%s was answered", sql)
				}
			})
		}
		all.Wait()
	}
	const least = 256 << 10 // KiB: twice what it starts anew for
	until(t, "the collector to have memory again", func() bool {
		pids := collectors(session)
		if len(pids) != 1 {
			return false
		}
		room := dataLimit(t, pids[0]) - statusKiB(t, pids[0], "VmData")
		return room > least
	})
	before := w.number(session, "SELECT max(step) FROM python.steps")
	until(t, "fresh rows", func() bool { return w.number(session, "SELECT max(step) FROM python.steps") > before })
	if out := w.mg("list"); !strings.Contains(out, "running") {
		t.Errorf("list:\n%s", out)
	}
	kill(t, trainerPID(t, run))
	run.wait(t)
	w.checkLedger(session, ledger)
}

// dataLimit is a process's RLIMIT_DATA in KiB; what has none, or has just ended, counts as 0.
func dataLimit(t *testing.T, pid int) int {
	t.Helper()
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits")
	_, rest, _ := strings.Cut(string(b), "Max data size")
	f := strings.Fields(rest)
	if len(f) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(f[0])
	return n >> 10
}
