package e2e

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
)

// Without an ENDPOINT the tools look at the only live session, as leak does, and say so; --machine looks at the
// machine.
func TestToolsLookAtTheOnlyLiveSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sleeper := func(name string) *background {
		p := w.start("memgauge", "run", "--quiet", "--name", name, "--", "python3", "-c",
			"import time; print('begins', flush=True); time.sleep(600)")
		until(t, "the program", func() bool { return strings.Contains(p.out.String(), "begins") })
		until(t, "its agent", func() bool { return w.do("memgauge", name, "eval", "1").code == 0 })
		t.Cleanup(func() {
			_ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL)
			<-p.done
		})
		return p
	}
	sleeper("only")
	var d struct {
		Session *string
		Devices map[string]struct {
			Statistics struct {
				Fragmentation *float64 `json:"avg_fragmentation"`
			}
		}
	}
	ask := func(args ...string) result {
		t.Helper()
		r := w.do("memgauge", append(args, "--json")...)
		d.Session = nil
		if err := json.Unmarshal([]byte(r.stdout), &d); err != nil {
			t.Fatalf("%v: exit %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
		return r
	}
	for _, args := range [][]string{{"oom"}, {"fragment"}, {"profile"}, {"monitor", "--duration", "0.5"}} {
		r := ask(args...)
		if d.Session == nil || *d.Session != "only" || !strings.Contains(r.stderr, "session only, the only live one") {
			t.Errorf("%v: %v\n%s", args, d.Session, r.stderr)
		}
		if args[0] == "profile" && d.Devices["host"].Statistics.Fragmentation == nil {
			t.Error("profile: no fragmentation of a process that can be asked")
		}
	}
	if ask("oom", "--duration", "0.3", "--interval", "0.1", "--machine"); d.Session != nil {
		t.Errorf("--machine: the session %s", *d.Session)
	}
	sleeper("second")
	if r := ask("oom", "--duration", "0.3", "--interval", "0.1"); d.Session != nil ||
		!strings.Contains(r.stderr, "2 live sessions, so the whole machine") {
		t.Errorf("two sessions: %v\n%s", d.Session, r.stderr)
	}
	if r := w.do("memgauge", "fragment"); r.code != 2 || !strings.Contains(r.stderr, "only") ||
		!strings.Contains(r.stderr, "second") {
		t.Errorf("fragment of two sessions: exit %d\n%s", r.code, r.stderr)
	}
}
