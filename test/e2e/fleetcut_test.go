package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"
)

// TestFleetCutOff: a node whose process is killed at any moment and whose network is cut, while its training goes on.
// The training never notices, and each of its steps is in the lake once.
func TestFleetCutOff(t *testing.T) {
	env.Long(t, "a cluster in network namespaces, with kills and cuts")
	t.Parallel()
	python := env.Torch(t).Path
	kills, cut := env.Times(3, 20), time.Duration(env.Times(3, 60))*time.Second
	m := newMachines(t, 2)
	boss, w, addr := newWorld(t), newWorld(t), m.addrs[0]+":4222"
	name, rest := m.in(0, "memgauge", "hub", "--listen", addr)
	hub := boss.start(name, rest...)
	token := filepath.Join(boss.home, "state", "hub", "join.token")
	until(t, "the hub's token", func() bool { return exists(token) })
	startNode := func() *background {
		name, rest := m.in(1, "memgauge", "node", "--join", addr, "--token-file", token, "--name", "n1")
		return w.start(name, rest...)
	}
	state := func() string {
		list, _ := filepath.Glob(filepath.Join(w.home, "state", "sessions", "*", "ship.json"))
		if len(list) == 0 {
			return ""
		}
		text, _ := os.ReadFile(list[0])
		return string(text)
	}
	over := filepath.Join(w.home, "over")
	run := w.start("memgauge", "run", "--quiet", "--name", "steady", "--", python, script(t, "steady.py"), over)
	until(t, "steps", func() bool { return strings.Contains(run.out.String(), "going") })
	node := startNode() // which looks for rows at once, and then every half minute
	for range kills {
		until(t, "rows to be shipped", func() bool { return strings.Contains(state(), "python.steps") })
		time.Sleep(rand.N(time.Second)) // it is killed at any moment
		if err := node.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		node.wait(t)
		node = startNode()
	}
	link := func(to string) {
		if out, err := exec.Command("ip", "-n", m.names[0], "link", "set", "port1", to).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	link("down")
	time.Sleep(cut)
	link("up")
	w.file("over", "")
	if code := run.wait(t); code != 0 {
		t.Fatalf("the training ended with %d\n%s", code, run.err)
	}
	until(t, "all rows to be shipped", func() bool { return strings.Contains(state(), `"done": true`) })
	if err := hub.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	hub.wait(t)
	_, made, _ := strings.Cut(strings.TrimSpace(run.out.String()), "made ")
	w.hasSteps(made, "lake="+filepath.Join(boss.home, "state", "hub", "lake"), "steady")
	t.Logf("%s steps, %d kills, a cut of %s", made, kills, cut)
}

// hasSteps wants as many steps as were made in each place, each once.
func (w *world) hasSteps(made string, places ...string) {
	w.t.Helper()
	n, err := strconv.ParseInt(made, 10, 64)
	if err != nil {
		w.t.Fatal(err)
	}
	want := fmt.Sprintf("n,steps,sum\n%d,%d,%d\n", n, n, n*(n+1)/2)
	for _, where := range places {
		r := w.do("memgauge", where, "query", "-f", "csv", "SELECT count(*) AS n, count(DISTINCT step) AS steps, "+
			"sum(step) AS sum FROM python.steps WHERE NOT inference")
		if r.code != 0 || r.stdout != want {
			w.t.Errorf("%s: %+v, want %q", where, r, want)
		}
	}
}
