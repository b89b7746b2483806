package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

const (
	fleetSteps = 500
	leakyRank  = 3 // the second of the node n2
)

// TestFleetNamesTheRankThatLeaks: a training of three machines with two ranks each, in namespaces with addresses of
// their own, one rank of which leaks. One question to the hub names that rank, its node and its line, also after the
// hub was killed; a machine that is gone is named.
func TestFleetNamesTheRankThatLeaks(t *testing.T) {
	env.Long(t, "a cluster: hub, nodes and a job's ranks for most of a minute")
	t.Parallel()
	python := env.Torch(t).Path
	m := newMachines(t, 4) // the hub's and three nodes
	boss, addr := newWorld(t), m.addrs[0]+":4222"
	onHub := func(args ...string) result {
		name, rest := m.in(0, append([]string{"memgauge"}, args...)...)
		return boss.do(name, rest...)
	}
	startHub := func() *background {
		name, rest := m.in(0, "memgauge", "hub", "--listen", addr)
		return boss.start(name, rest...)
	}
	hub := startHub()
	token := filepath.Join(boss.home, "state", "hub", "join.token")
	until(t, "the hub's token", func() bool { return exists(token) })

	over := filepath.Join(boss.home, "over")
	daemons, runs := map[string]*background{}, []*background{}
	for i, node := range []string{"n1", "n2", "n3"} {
		w := newWorld(t)
		w.env = append(w.env, "GLOO_SOCKET_IFNAME=eth0")
		run := []string{"memgauge", "run", "--quiet"}
		if node == "n2" { // without a daemon: the run itself answers
			run = append(run, "--hub", addr, "--token-file", token, "--node", node, "--job", "llama")
		} else {
			name, rest := m.in(i+1, "memgauge", "node", "--join", "nats://"+addr, "--token-file", token, "--name", node,
				"--job", "llama")
			daemons[node] = w.start(name, rest...)
		}
		run = append(run, "--", python, "-m", "torch.distributed.run", "--nnodes", "3", "--nproc-per-node", "2",
			"--node-rank", fmt.Sprint(i), "--master-addr", m.addrs[1], "--master-port", "29400", script(t, "ranks.py"),
			fmt.Sprint(fleetSteps), fmt.Sprint(leakyRank), over)
		name, rest := m.in(i+1, run...)
		runs = append(runs, w.start(name, rest...))
	}
	for _, r := range runs {
		until(t, "two ranks to make their steps", func() bool {
			select {
			case <-r.done:
				t.Fatalf("the training ended\n%s%s", r.out, r.err)
			default:
			}
			return strings.Count(r.out.String(), fmt.Sprintf("made %d", fleetSteps)) == 2
		})
	}
	namesTheRank(t, onHub)

	if err := hub.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	hub.wait(t)
	startHub()
	until(t, "all nodes at the next hub", func() bool {
		r := onHub("hub", "status", "--strict", "--json")
		return r.code == 0 && strings.Count(r.stdout, `"up": true`) == len(runs)
	})
	namesTheRank(t, onHub)

	refusesTheRest(t, onHub)
	missesTheNode(t, daemons["n3"], onHub)
	boss.file("over", "")
	for _, r := range runs {
		if code := r.wait(t); code != 0 {
			t.Errorf("a training ended with %d\n%s", code, r.err)
		}
	}
}

// missesTheNode kills n3, which must then be named.
func missesTheNode(t *testing.T, n3 *background, onHub func(...string) result) {
	t.Helper()
	if err := n3.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	n3.wait(t)
	r := onHub("hub", "--strict", "list", "-a")
	if r.code != 1 || !strings.Contains(r.stderr, "node n3 is missing") || !strings.Contains(r.stdout, "n1") {
		t.Errorf("a node that was killed: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// refusesTheRest asks what nobody may.
func refusesTheRest(t *testing.T, onHub func(...string) result) {
	t.Helper()
	r := onHub("hub", "query", "SELECT * FROM read_text('/etc/passwd')")
	if r.code != 1 || r.stdout != "" {
		t.Errorf("a query that reads files: exit %d, %q", r.code, r.stdout)
	}
	if r = onHub("hub", "node=n1", "eval", "1"); r.code != 1 {
		t.Errorf("eval that nobody allowed: exit %d, %q", r.code, r.stdout)
	}
}

// namesTheRank wants one rank to leak, by its own verdict and among its peers, with its node and its line.
func namesTheRank(t *testing.T, onHub func(...string) result) {
	t.Helper()
	var doc struct {
		Jobs []struct {
			Verdict, Text string
			FirstNode     string `json:"first_node"`
			Skew          json.RawMessage
			Ranks         []struct {
				Rank         int
				Node         string
				Verdict      string
				Odd          []string
				Holder, Site *string
			}
		}
		Sessions []struct{ Node string }
		Missing  []any
	}
	var r result
	defer func() {
		if t.Failed() {
			t.Logf("the last answer: exit %d\n%s%s", r.code, r.stdout, r.stderr)
		}
	}()
	until(t, "a verdict on every rank", func() bool { // the newest steps are drained within a second or two
		r = onHub("job=llama", "leak", "--json")
		return r.code == 3
	})
	if err := json.Unmarshal([]byte(r.stdout), &doc); err != nil {
		t.Fatalf("%v\n%s%s", err, r.stdout, r.stderr)
	}
	if len(doc.Jobs) != 1 || len(doc.Sessions) != 3 || len(doc.Missing) != 0 || len(doc.Jobs[0].Ranks) != 6 {
		t.Fatalf("%d jobs, %d sessions, missing %v\n%s", len(doc.Jobs), len(doc.Sessions), doc.Missing, r.stdout)
	}
	job := doc.Jobs[0]
	for _, v := range job.Ranks {
		if leaks := v.Rank == leakyRank; (v.Verdict == "leak") != leaks || slices.Contains(v.Odd, "leak") != leaks ||
			len(v.Odd) > 1 {
			t.Errorf("rank %d on %s: %s, odd %v\n%s", v.Rank, v.Node, v.Verdict, v.Odd, job.Skew)
		}
	}
	odd := job.Ranks[leakyRank]
	if odd.Rank != leakyRank || odd.Node != "n2" || odd.Holder == nil || odd.Site == nil ||
		!strings.Contains(*odd.Holder, "all_losses") || !strings.Contains(*odd.Site, "ranks.py:") {
		t.Errorf("what holds it is not named: %+v", odd)
	}
	if job.FirstNode != "n2" {
		t.Errorf("it began on %q", job.FirstNode)
	}
	text := onHub("hub", "leak")
	for _, want := range []string{fmt.Sprintf("ank %d on n2", leakyRank), "all_losses", "ranks.py:"} {
		if text.code != 3 || !strings.Contains(text.stdout, want) {
			t.Errorf("exit %d, no %q\n%s%s", text.code, want, text.stdout, text.stderr)
		}
	}
	t.Log(job.Text)
}
