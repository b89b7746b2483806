package e2e

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// joined makes a world a node of the hub: its own home, as another computer has it.
func joined(t *testing.T, w *world, name, addr, token string) *background {
	t.Helper()
	return w.start("memgauge", "node", "--join", "nats://"+addr, "--token-file", token, "--name", name,
		"--job", "llama")
}

// TestFleetNamesTheNodeThatLeaks: of three machines one has a leak. One question to the hub names it with what holds
// the memory, also after the hub was killed; a machine that is gone is named.
func TestFleetNamesTheNodeThatLeaks(t *testing.T) {
	python := env.Torch(t).Path
	boss, addr := newWorld(t), "127.0.0.1:"+freePort(t)
	hub := boss.start("memgauge", "hub", "--listen", addr)
	token := filepath.Join(boss.home, "state", "hub", "join.token")
	until(t, "the hub's token", func() bool { return exists(token) })
	names, nodes := []string{"n1", "n2", "n3"}, map[string]*background{}
	for _, name := range names {
		w := newWorld(t)
		kind := "fixed"
		if name == "n2" {
			kind = "leaky"
		}
		nodes[name] = joined(t, w, name, addr, token)
		r := w.do("memgauge", "run", "--quiet", "--", python, script(t, "patterns.py"), "losses", kind)
		if r.code != 0 {
			t.Fatalf("exit %d\n%s", r.code, r.stderr)
		}
	}
	leakyNode(t, boss)

	if err := hub.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	hub.wait(t)
	boss.start("memgauge", "hub", "--listen", addr)
	until(t, "all nodes at the next hub", func() bool {
		r := boss.do("memgauge", "hub", "status", "--strict", "--json")
		return r.code == 0 && strings.Count(r.stdout, `"up": true`) == len(names)
	})
	leakyNode(t, boss)

	r := boss.do("memgauge", "hub", "query", "SELECT * FROM read_text('/etc/passwd')")
	if r.code != 1 || r.stdout != "" {
		t.Errorf("a query that reads files: exit %d, %q", r.code, r.stdout)
	}
	if r = boss.do("memgauge", "hub", "node=n1", "eval", "1"); r.code != 1 {
		t.Errorf("eval that nobody allowed: exit %d, %q", r.code, r.stdout)
	}
	if err := nodes["n3"].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	nodes["n3"].wait(t)
	r = boss.do("memgauge", "hub", "--strict", "list", "-a")
	if r.code != 1 || !strings.Contains(r.stderr, "node n3 is missing") || !strings.Contains(r.stdout, "n1") {
		t.Errorf("a node that was killed: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// leakyNode wants one verdict of a leak, and that it is n2's.
func leakyNode(t *testing.T, boss *world) {
	t.Helper()
	r := boss.do("memgauge", "hub", "job=llama", "leak", "--json")
	var doc struct {
		Sessions []struct {
			Node   string
			Answer struct {
				Verdict  string
				Findings []struct{ Verdict, Holder, Site string }
			}
		}
		Missing []any
	}
	if err := json.Unmarshal([]byte(r.stdout), &doc); err != nil || r.code != 3 {
		t.Fatalf("exit %d, %v\n%s%s", r.code, err, r.stdout, r.stderr)
	}
	if len(doc.Sessions) != 3 || len(doc.Missing) != 0 {
		t.Errorf("%d sessions answered, missing %v", len(doc.Sessions), doc.Missing)
	}
	for _, s := range doc.Sessions {
		if (s.Answer.Verdict == "leak") != (s.Node == "n2") {
			t.Errorf("node %s: %s", s.Node, s.Answer.Verdict)
		}
		if s.Node != "n2" {
			continue
		}
		if !slices.ContainsFunc(s.Answer.Findings, func(f struct{ Verdict, Holder, Site string }) bool {
			return f.Verdict == "leak" && strings.Contains(f.Holder, "all_losses") &&
				strings.Contains(f.Site, "patterns.py:")
		}) {
			t.Errorf("what holds it is not named: %+v", s.Answer.Findings)
		}
	}
}
