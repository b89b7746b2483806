// Package e2e uses memgauge as a user does: real processes, real PyTorch, the real command line. The test binary stands
// in for memgauge when it is started under that name, so that nothing has to be built beforehand.
package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/faces/cli"
	"github.com/memgauge/memgauge/test/env"
)

func TestMain(m *testing.M) { env.Main(m, cli.Main) }

// patience is how long a test waits for something that normally takes a second: the machine is shared.
const patience = 90 * time.Second

// world is a test's own home with everything that is started in it.
type world struct {
	t    *testing.T
	home string
	env  []string

	started []*program
}

func newWorld(t *testing.T) *world {
	t.Helper()
	home := t.TempDir()
	bin := filepath.Join(home, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	env.Memgauge(t, bin)
	w := &world{t: t, home: home}
	w.env = append(os.Environ(), "MEMGAUGE_HOME="+filepath.Join(home, "state"), "PATH="+bin+":"+os.Getenv("PATH"),
		"PYTHONUNBUFFERED=1", "OMP_NUM_THREADS=1")
	t.Cleanup(w.reap)
	return w
}

// reap ends the collectors of the test's sessions, by their own pids, so that none outlives a failed test.
func (w *world) reap() {
	for _, pid := range w.collecting() {
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
	for end := time.Now().Add(patience); len(w.collecting()) > 0 &&
		time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		continue // they write into the directory that is removed next
	}
}

// settled waits until the sessions that have ended are written: a collector may outlive its command by a moment.
func (w *world) settled() {
	w.t.Helper()
	until(w.t, "the collectors' end", func() bool { return len(w.collecting()) == 0 })
}

// collecting are the collectors and keepers of sessions below the world's home.
func (w *world) collecting() []int {
	return running(func(line string) bool { return strings.Contains(line, "\x00"+w.home+"/") })
}

// running finds the collectors and keepers whose command line, with a zero byte behind each word, is one of these.
func running(these func(line string) bool) (pids []int) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		text, _ := os.ReadFile(path)
		if _, rest, _ := strings.Cut(string(text), "\x00"); strings.HasPrefix(rest, "collector\x00") && these(rest) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// collectors finds the processes that run as a session's collector.
func collectors(dir string) []int {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return running(func(line string) bool {
		args := strings.Split(line, "\x00")
		return len(args) >= 3 && args[2] == dir
	})
}

// result of a command.
type result struct {
	stdout, stderr string
	code           int // 128+n when killed by signal n
}

func (w *world) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	if name == "memgauge" {
		cmd.Path = filepath.Join(w.home, "bin", "memgauge")
		cmd.Err = nil
	}
	cmd.Env = w.env
	cmd.Dir = w.home
	return cmd
}

// do runs a command to its end.
func (w *world) do(name string, args ...string) result {
	w.t.Helper()
	return w.finish(w.command(name, args...))
}

func (w *world) finish(cmd *exec.Cmd) result {
	w.t.Helper()
	var out, errb bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errb
	cmd.WaitDelay = patience
	timer := time.AfterFunc(patience, func() {
		if cmd.Process != nil {
			_ = cmd.Process.Kill()
		}
	})
	defer timer.Stop()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("%s: %v", cmd, err)
	}
	return result{out.String(), errb.String(), exitCode(cmd.ProcessState)}
}

func exitCode(s *os.ProcessState) int {
	ws := s.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// mg runs memgauge and demands exit code 0.
func (w *world) mg(args ...string) string {
	w.t.Helper()
	r := w.do("memgauge", args...)
	if r.code != 0 {
		w.t.Fatalf("memgauge %s: exit %d\n%s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// rows asks for a query's result.
func (w *world) rows(session, sql string) []map[string]any {
	w.t.Helper()
	var rows []map[string]any
	out := w.mg("query", "--session", session, "-f", "json", sql)
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		w.t.Fatalf("query %s: %v\n%s", sql, err, out)
	}
	return rows
}

// one is the only value of a query's result.
func (w *world) one(session, sql string) any {
	w.t.Helper()
	rows := w.rows(session, sql)
	if len(rows) != 1 || len(rows[0]) != 1 {
		w.t.Fatalf("query %s: want one value, got %v", sql, rows)
	}
	for _, v := range rows[0] {
		return v
	}
	return nil
}

func (w *world) number(session, sql string) float64 {
	w.t.Helper()
	n, ok := w.one(session, sql).(float64)
	if !ok {
		w.t.Fatalf("query %s: not a number", sql)
	}
	return n
}

// background is a command that goes on while the test does something else.
type background struct {
	*exec.Cmd
	out, err *env.Buffer
	done     chan struct{}
}

func (w *world) start(name string, args ...string) *background {
	w.t.Helper()
	return w.begin(w.command(name, args...))
}

// begin is start for a command that was made already.
func (w *world) begin(cmd *exec.Cmd) *background {
	w.t.Helper()
	b := &background{Cmd: cmd, out: &env.Buffer{}, err: &env.Buffer{}, done: make(chan struct{})}
	b.Stdout, b.Stderr = b.out, b.err
	b.WaitDelay = 10 * time.Second                      // a launcher that was killed leaves ranks that hold its output
	b.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that the test's end finds the trainer too
	if err := b.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(b.done)
		_ = b.Cmd.Wait()
	}()
	w.t.Cleanup(func() {
		_ = syscall.Kill(-b.Process.Pid, syscall.SIGKILL)
		<-b.done
	})
	return b
}

// wait waits for the command's end and returns its exit code.
func (b *background) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-b.done:
		return exitCode(b.ProcessState)
	case <-time.After(patience):
		t.Fatalf("%s does not end\n%s%s", b.Cmd, b.out, b.err)
		return -1
	}
}

// until waits for a condition; polling is the only way to watch another program's progress.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// file writes a file into the world and returns its path.
func (w *world) file(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		w.t.Fatal(err)
	}
	return path
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
