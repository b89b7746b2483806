package observe

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/probe/attach"
	"github.com/memgauge/memgauge/internal/record/session"
)

// sleeper is a process that is no Python's.
func sleeper(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	return cmd.Process.Pid
}

// noProcess is a number that no process has: pid_max is at most 2^22 (proc(5)).
const noProcess = 1<<22 + 1

// TestNothingToAttachTo: the error says what is in the way, and no session is left.
func TestNothingToAttachTo(t *testing.T) {
	home := t.TempDir()
	t.Setenv("MEMGAUGE_HOME", home)
	settings := options(t, "").Settings
	for _, c := range []struct {
		name string
		pid  int
		want error
	}{
		{"no process", noProcess, attach.ErrNoProcess},
		{"no Python", sleeper(t), attach.ErrNotPython},
	} {
		for _, children := range []bool{false, true} {
			o := AttachOptions{Settings: settings, PID: c.pid, Children: children, Timeout: "10s"}
			_, err := Attach(t.Context(), o)
			if !errors.Is(err, c.want) || !strings.HasPrefix(err.Error(), "attach: process "+strconv.Itoa(c.pid)) ||
				remedy.Of(err) == "" {
				t.Errorf("%s: %v; hint %q", c.name, err, remedy.Of(err))
			}
		}
	}
	if left, err := filepath.Glob(filepath.Join(home, "sessions", "*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestWrongAttach: what is wrong is told before anything is made.
func TestWrongAttach(t *testing.T) {
	settings := options(t, "").Settings
	for _, o := range []AttachOptions{{Settings: settings, Timeout: "never"}, {Timeout: "10s"}} {
		_, err := Attach(t.Context(), o)
		var wrong *OptionError
		if !errors.As(err, &wrong) || !strings.HasPrefix(err.Error(), "attach: --") {
			t.Errorf("%v", err)
		}
	}
}

// TestNothingToDetachFrom: the error names the process, not its descendants.
func TestNothingToDetachFrom(t *testing.T) {
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	for _, children := range []bool{false, true} {
		err := Detach(t.Context(), DetachOptions{PID: os.Getpid(), Children: children, Timeout: "10s"})
		if err == nil || err.Error() != "detach: process "+strconv.Itoa(os.Getpid())+" is not observed" ||
			remedy.Of(err) == "" {
			t.Errorf("%v; hint %q", err, remedy.Of(err))
		}
	}
}

// TestReach: what is known of a process before it is entered.
func TestReach(t *testing.T) {
	dir, pid := t.TempDir(), sleeper(t)
	if !sees(pid, dir) {
		t.Errorf("a child of ours does not see %s", dir)
	}
	if sees(pid, filepath.Join(dir, "missing")) || sees(noProcess, dir) {
		t.Error("what is not there is seen")
	}
	if uid := effectiveUID(pid); uid != os.Geteuid() {
		t.Errorf("its user: %d", uid)
	}
	if uid := effectiveUID(noProcess); uid != -1 {
		t.Errorf("nobody's user: %d", uid)
	}
	await(t, func() bool { return slices.Equal(commandLine(pid), []string{"sleep", "600"}) }) // once it has called exec
	if got := commandLine(noProcess); !slices.Equal(got, []string{"pid " + strconv.Itoa(noProcess)}) {
		t.Errorf("nobody's command: %q", got)
	}
}

// TestMakeRing: a process of our own gets a file, which is never one that is there; another's gets memory that is
// sealed, and the file refers to it.
func TestMakeRing(t *testing.T) {
	dir, pid := t.TempDir(), sleeper(t)
	ring, err := makeRing(dir, session.Pid{PID: pid, Start: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	st, err := ring.Stat()
	if err != nil || st.Mode().Perm() != 0o600 || st.Size() != 0 || ring.Name() != filepath.Join(dir,
		strconv.Itoa(pid)+".7.1.ring") {
		t.Errorf("%s: %v, %v", ring.Name(), st, err)
	}
	if again, err := makeRing(dir, session.Pid{PID: pid, Start: 7}); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second one of the name: %v, %v", again, err)
	}
	theirs, err := makeRing(dir, session.Pid{PID: noProcess, Start: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	reference, err := os.Stat(filepath.Join(dir, strconv.Itoa(noProcess)+".7.1.ring"))
	memory, merr := theirs.Stat()
	if err != nil || merr != nil || os.SameFile(reference, memory) || reference.Size() >= memory.Size() {
		t.Errorf("reference %v, memory %v, %v, %v", reference, memory, err, merr)
	}
}
