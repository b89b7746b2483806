package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/test/env"
)

func TestRunLeavesTheCommandAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := filepath.Join(w.home, "s")
	cmd := w.command("memgauge", "run", "--session", s, "--", "sh", "-c", `cat; echo err >&2; exit 7`)
	cmd.Stdin = strings.NewReader("in\x00out")
	r := w.finish(cmd)
	if r.stdout != "in\x00out" || r.code != 7 {
		t.Errorf("stdout %q, exit %d; want the command's own", r.stdout, r.code)
	}
	lines := strings.Split(strings.TrimSuffix(r.stderr, "\n"), "\n")
	if lines[0] != "err" || len(lines) > 4 || !strings.Contains(r.stderr, "exit 7") || !strings.Contains(r.stderr, s) {
		t.Errorf("stderr %q; want the command's own and at most three lines", r.stderr)
	}
	if q := w.do("memgauge", "run", "--quiet", "--", "true"); q.stderr != "" || q.code != 0 {
		t.Errorf("--quiet: exit %d, stderr %q", q.code, q.stderr)
	}
}

func TestRunPassesSignalsAndExitCodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for sig, want := range map[syscall.Signal]string{syscall.SIGKILL: "killed by SIGKILL",
		syscall.SIGSEGV: "killed by SIGSEGV"} {
		r := w.do("memgauge", "run", "--", "sh", "-c", fmt.Sprintf("kill -%d $$", sig))
		if r.code != 128+int(sig) || !strings.Contains(r.stderr, want) {
			t.Errorf("%v: exit %d, stderr %q", sig, r.code, r.stderr)
		}
		if out := w.mg("list", "-a"); !strings.Contains(out, want) {
			t.Errorf("list -a does not say %q:\n%s", want, out)
		}
	}
	if r := w.do("memgauge", "run", "--", "no-such-program"); r.code != 127 || r.stdout != "" {
		t.Errorf("no such program: exit %d", r.code)
	}
	if r := w.do("memgauge", "run", "--", "/etc/passwd"); r.code != 126 {
		t.Errorf("not executable: exit %d", r.code)
	}
}

// A signal to memgauge run alone is passed on; one from the keyboard goes to the whole process group and must reach the
// command once.
func TestRunDeliversASignalOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	script := w.file("count.py", `
import signal, sys, time
n = 0
def on(sig, frame):
    global n
    n += 1
for s in (signal.SIGINT, signal.SIGTERM):
    signal.signal(s, on)
print("ready", flush=True)
deadline = time.monotonic() + 60
while not n and time.monotonic() < deadline:
    time.sleep(.01)
time.sleep(.3)   # a second delivery would come now
print("got", n, flush=True)
`)
	b := w.start("memgauge", "run", "--quiet", "--", "python3", script)
	until(t, "the script", func() bool { return strings.Contains(b.out.String(), "ready") })
	_ = b.Process.Signal(syscall.SIGTERM)
	if code := b.wait(t); code != 0 || !strings.Contains(b.out.String(), "got 1\n") {
		t.Errorf("TERM to run: exit %d, %q", code, b.out.String())
	}
	out, code := onTerminal(t, w, []string{"run", "--quiet", "--", "python3", script}, typed{"ready", "\x03"})
	if code != 0 || !strings.Contains(out, "got 1") {
		t.Errorf("Ctrl-C: exit %d, %q", code, out)
	}
}

// typed is what is typed once something new has been printed.
type typed struct{ after, keys string }

// onTerminal runs memgauge on a terminal of its own, and types.
func onTerminal(t *testing.T, w *world, args []string, script ...typed) (string, int) {
	t.Helper()
	master, slave := openPTY(t)
	defer master.Close()
	cmd := w.command("memgauge", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	out := &env.Buffer{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			_, _ = out.Write(b[:n])
			if err != nil {
				return // EIO: the last process on the terminal has ended
			}
		}
	}()
	seen := 0
	for _, s := range script {
		until(t, "the program on the terminal to print "+s.after, func() bool {
			at := strings.Index(out.String()[seen:], s.after)
			if at >= 0 {
				seen += at + len(s.after)
			}
			return at >= 0
		})
		if _, err := master.WriteString(s.keys); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait()
	<-done
	return out.String(), exitCode(cmd.ProcessState)
}

func openPTY(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		env.Missing(t, "pty", err.Error())
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	size := &unix.Winsize{Row: 24, Col: 80}
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, size); err != nil {
		t.Fatal(err)
	}
	return master, slave
}

func TestRunRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	full := filepath.Dir(w.file("full/x", ""))
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"run"}, 2, "requires at least 1 arg"},
		{[]string{"run", "--budget", "200%", "--", "true"}, 2, "--budget"},
		{[]string{"run", "--trace", "some", "--", "true"}, 2, "--trace"},
		{[]string{"run", "--max-disk", "1KiB", "--", "true"}, 2, "--max-disk"},
		{[]string{"run", "--name", "4711", "--", "true"}, 2, "PID"},
		{[]string{"run", "--session", full, "--", "true"}, 1, "not empty"},
		{[]string{"frobnicate"}, 2, "not a command"},
		{[]string{"query", "--session", filepath.Join(w.home, "nowhere"), "SELECT 1"}, 1, "no such session"},
		{[]string{"987654321", "query", "SELECT 1"}, 1, "no such session"},
		{[]string{"query", "SELECT 1"}, 1, "no such session"},
	} {
		r := w.do("memgauge", c.args...)
		if r.code != c.code || !strings.Contains(r.stderr, c.want) || r.stdout != "" {
			t.Errorf("memgauge %s: exit %d, stdout %q, stderr %q; want exit %d and %q", strings.Join(c.args, " "),
				r.code, r.stdout, r.stderr, c.code, c.want)
		}
	}
}

func TestHomeThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.file("state", "a file where the home should be")
	r := w.do("memgauge", "run", "--", "sh", "-c", "echo started")
	if r.code != 1 || r.stdout != "" || !strings.Contains(r.stderr, "hint: set MEMGAUGE_HOME") {
		t.Errorf("exit %d, stdout %q, stderr %q: the command must not start, and the user must know why", r.code,
			r.stdout, r.stderr)
	}
}

// What a program without torch and a program that isn't Python leave: a session that can be asked, with no steps in it.
func TestPrograms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pkg := w.file("pkg/__main__.py", "import time; print('hello from pkg', __name__); time.sleep(.6)")
	sh := w.file("train.sh", "#!/bin/sh\necho shell\nexec python3 -m pkg\n")
	for name, args := range map[string][]string{"module": {"python3", "-m", "pkg"}, "script": {sh},
		"file": {"python3", filepath.Dir(pkg)}, "no-python": {"sleep", "0.01"}} {
		s := filepath.Join(w.home, name)
		r := w.do("memgauge", append([]string{"run", "--session", s, "--name", name, "--"}, args...)...)
		if r.code != 0 {
			t.Errorf("%s: exit %d: %s", name, r.code, r.stderr)
		}
		if n := w.number(s, "SELECT count(*) FROM python.steps"); n != 0 {
			t.Errorf("%s: %v steps", name, n)
		}
		want := 1.0
		if name == "no-python" {
			want = 0
		}
		if n := w.number(s, "SELECT count(*) FROM memgauge.processes"); n != want {
			t.Errorf("%s: %v processes, want %v", name, n, want)
		}
	}
}

func TestInterpretersThatDoNotWantUs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	script := w.file("quiet.py", "import sys, time; time.sleep(.5); print([m for m in sys.modules if 'memgauge' in m])")
	for _, flag := range []string{"-E", "-I", "-S"} {
		r := w.do("memgauge", "run", "--quiet", "--", "python3", flag, script)
		if r.stdout != "[]\n" || r.stderr != "" || r.code != 0 {
			t.Errorf("python3 %s: exit %d, %q, %q", flag, r.code, r.stdout, r.stderr)
		}
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Fatal(err)
	}
}
