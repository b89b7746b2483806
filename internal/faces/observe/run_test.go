package observe

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/probe/proc"
	"github.com/memgauge/memgauge/internal/record/session"
)

const patience = time.Minute // a busy machine's, with what takes some 100 ms

// shell is a run of a shell's command, with sessions of the test's own.
func shell(t *testing.T, script string) RunOptions {
	t.Helper()
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	return options(t, "sh", "-c", script)
}

// start starts a run; its collector has ended when the test has.
func start(t *testing.T, o RunOptions) *Run {
	t.Helper()
	r, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		await(t, func() bool {
			tree, err := proc.New("/proc").Tree(os.Getpid())
			return err == nil && len(tree) == 1 // us alone
		})
	})
	return r
}

// TestRun: how a command ended is told, and is in its session.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		script, how string
		code        int
	}{
		{"exit 0", "exit 0", 0},
		{"exit 7", "exit 7", 7},
		{"kill -TERM $$", "killed by SIGTERM", 143},
		{"kill -KILL $$", "killed by SIGKILL", 137},
	} {
		t.Run(c.how, func(t *testing.T) {
			r := start(t, shell(t, c.script))
			end := r.Wait(t.Context())
			if end.How != c.how || end.Code != c.code || end.Trouble != nil || end.Peak <= 0 {
				t.Errorf("%+v", end)
			}
			if end.Session.Name == "" || end.Session.Endpoint != end.Session.Name || end.Session.Dir != r.session.Dir {
				t.Errorf("session %+v", end.Session)
			}
			if e, ok, err := r.session.End(); err != nil || !ok || e.String() != c.how {
				t.Errorf("end.json: %+v, %v, %v", e, ok, err)
			}
		})
	}
}

// TestRunHasItsEnvironment: the command finds the session, its output is the one that it was given, and neither a
// context that ends nor a signal that the command takes ends the run.
func TestRunHasItsEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	o := shell(t, `trap 'echo "$MEMGAUGE_RUNTIME"; exit 5' USR1; echo ready; while :; do sleep 0.01; done`)
	o.Dir, o.Stdout = filepath.Join(t.TempDir(), "mine"), out
	r := start(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended := make(chan Ended)
	go func() { ended <- r.Wait(ctx) }()
	await(t, func() bool { return strings.Contains(read(t, path), "ready") })
	if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	end := <-ended
	if end.Code != 5 || end.Trouble != nil || end.Session.Endpoint != o.Dir {
		t.Errorf("%+v", end)
	}
	if text := read(t, path); text != "ready\n"+o.Dir+"\n" {
		t.Errorf("output %q", text)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func await(t *testing.T, done func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) { // a process of its own does it
		if time.Now().After(until) {
			t.Fatal("nothing came of it")
		}
	}
}

// TestForwarded: what somebody sends to end, stop or tell the command something is its own.
func TestForwarded(t *testing.T) {
	for sig := syscall.Signal(1); sig <= lastSignal; sig++ {
		switch sig {
		case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT,
			syscall.SIGWINCH, 64:
			if !forwarded(sig) {
				t.Errorf("%v is kept back", sig)
			}
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCHLD, syscall.SIGURG, syscall.SIGSEGV, 32, 33:
			if forwarded(sig) {
				t.Errorf("%v is passed on", sig)
			}
		}
	}
}

// TestRef: a session in the default home is named by its name, another one by its directory.
func TestRef(t *testing.T) {
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	here, err := session.Create(session.Options{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "b")
	there, err := session.Create(session.Options{Name: "b", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if ref := refTo(here); ref != (Ref{"a", here.Dir, "a"}) {
		t.Errorf("%+v", ref)
	}
	if ref := refTo(there); ref != (Ref{"b", dir, dir}) {
		t.Errorf("%+v", ref)
	}
}
