package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// screen is a terminal in tmux, which draws what a program writes as a terminal of a user does.
type screen struct {
	t    *testing.T
	w    *world
	path string // of tmux's socket
}

func newScreen(t *testing.T, w *world, wide, high int) *screen {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		env.Missing(t, "tmux", err)
	}
	s := &screen{t, w, filepath.Join(t.TempDir(), "tmux")}
	s.tmux("-f", "/dev/null", "new-session", "-d", "-s", "s", "-x", fmt.Sprint(wide), "-y", fmt.Sprint(high), "sh")
	t.Cleanup(func() { _ = s.command("kill-server").Run() })
	return s
}

func (s *screen) command(args ...string) *exec.Cmd {
	return s.w.command("tmux", append([]string{"-S", s.path}, args...)...)
}

func (s *screen) tmux(args ...string) string {
	s.t.Helper()
	out, err := s.command(args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func (s *screen) text() string { return s.tmux("capture-pane", "-p", "-t", "s") }

func (s *screen) keys(keys ...string) { s.tmux(append([]string{"send-keys", "-t", "s"}, keys...)...) }

// line types a line into the shell.
func (s *screen) line(text string) { s.keys("-l", text); s.keys("Enter") }

func (s *screen) wait(texts ...string) string {
	s.t.Helper()
	var got string
	defer func() {
		if s.t.Failed() {
			s.t.Logf("the screen has\n%s", got)
		}
	}()
	until(s.t, fmt.Sprintf("the screen to show %q", texts), func() bool {
		got = s.text()
		for _, want := range texts {
			if !strings.Contains(got, want) {
				return false
			}
		}
		return true
	})
	return got
}

// left waits for the shell, on a terminal that echoes and shows what was there before.
func (s *screen) left(mark string) {
	s.t.Helper()
	// What is typed before a program has ended is the program's.
	until(s.t, "the shell", func() bool {
		now := s.tmux("display-message", "-p", "-t", "s", "#{pane_current_command} #{alternate_on}")
		return strings.TrimSpace(now) == "sh 0"
	})
	s.line("stty -a | tr ' ' '\\n' | grep -x -e echo -e icanon | sort | tr '\\n' '-'; echo " + mark + "-end")
	s.wait("echo-icanon-" + mark + "-end")
}

const holding = "import time\nkept = []\nprint('ready', flush=True)\nwhile True:\n" +
	"    kept.append(bytearray(100000))\n    time.sleep(0.05)"

// A live session on a real terminal: the levels, code in the trainer, freezing; and the terminal after Ctrl-C, SIGTERM
// and the end of the program that was watched.
func TestTop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.start("memgauge", "run", "--name", "job", "--", "python3", "-c", holding)
	until(t, "the program", func() bool { return strings.Contains(b.out.String(), "ready") })
	until(t, "its ring", func() bool { return w.do("memgauge", "job", "eval", "1").code == 0 })
	s := newScreen(t, w, 80, 24)
	memgauge := filepath.Join(w.home, "bin", "memgauge")
	s.line(memgauge + " job top")
	s.wait("job", "running", "● live", "memory of the job", "1 process")
	s.keys("Space")
	s.wait("❚❚")
	s.keys("Space")
	s.wait("● live")
	for _, panel := range []string{"events", "findings", "who holds it"} {
		s.keys("Tab")
		s.wait(panel)
	}
	s.keys("Enter")
	s.wait("1 tensors", "main")
	s.keys("3")
	s.wait(">>>")
	s.keys("-l", "'kept' in globals(), 6 * 7")
	s.keys("Enter")
	s.wait("(True, 42)")
	s.keys("Escape") // and a key at once would be Alt with that key
	s.wait("3 or Enter")
	s.keys("2")
	s.wait("MainThread", "<module>")
	s.keys("Escape")
	s.wait("who holds it")
	s.keys("Escape")
	s.wait("this machine", "Python processes", "● running")
	s.keys("C-c")
	s.left("one")

	s.line(memgauge + " job top")
	s.wait("● live")
	out, err := exec.Command("pgrep", "-f", memgauge+" job top$").Output()
	if err != nil {
		t.Fatalf("pgrep: %v", err)
	}
	var pid int
	if _, err := fmt.Sscan(string(out), &pid); err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(pid, syscall.SIGTERM)
	s.left("two")

	s.line(memgauge + " job top")
	s.wait("● live")
	_ = syscall.Kill(b.Process.Pid, syscall.SIGINT) // run hands it on
	s.wait("■ end")
	s.keys("q")
	s.left("three")
}

// A finished session is replayed, and a frame of it goes into a pipe.
func TestTopOfAFinishedSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mg("run", "--name", "job", "--", "python3", "-c", "import time; x = bytearray(50_000_000); time.sleep(3)")
	frame := w.mg("job", "top", "--once", "--width", "100", "--height", "30")
	lines := strings.Split(strings.TrimSuffix(frame, "\n"), "\n")
	if len(lines) != 30 || !strings.Contains(lines[0], "exit 0") || strings.Contains(frame, "\x1b") {
		t.Errorf("%d lines\n%s", len(lines), frame)
	}
	s := newScreen(t, w, 80, 24)
	s.line(filepath.Join(w.home, "bin", "memgauge") + " job top --replay 0.5")
	s.wait("▶ 0.5×")
	s.keys("End")
	s.wait("■ end", "exit 0")
	s.levels()
	s.left("one")
	for args, want := range map[string]string{"top --replay 5": "needs a session", "job top --interval 1ms": "below",
		"job top --replay -1": "want 0 or more", "job top": "not a terminal", "job top extra": "unexpected argument"} {
		r := w.do("memgauge", strings.Fields(args)...)
		if r.code == 0 || !strings.Contains(r.stderr, want) || r.stdout != "" {
			t.Errorf("%s: exit %d, %q %q", args, r.code, r.stdout, r.stderr)
		}
	}
}
