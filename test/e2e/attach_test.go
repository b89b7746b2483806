package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"
)

// program is one that was started without memgauge.
type program struct {
	*background
	pid  int
	stop string
}

// program starts what argv says; "STOP" in it becomes the file that ends it.
func (w *world) program(argv ...string) *program {
	w.t.Helper()
	p := &program{stop: filepath.Join(w.home, fmt.Sprintf("stop%d", len(w.started)))}
	w.started = append(w.started, p)
	for i, a := range argv {
		argv[i] = strings.ReplaceAll(a, "STOP", p.stop)
	}
	p.background = w.start(argv[0], argv[1:]...)
	p.pid = p.Process.Pid
	until(w.t, "the program", func() bool { return strings.Contains(p.out.String(), "ready") })
	return p
}

// end lets the program come to its own end.
func (p *program) end(t *testing.T) (out, err string) {
	t.Helper()
	if werr := os.WriteFile(p.stop, nil, 0o600); werr != nil {
		t.Fatal(werr)
	}
	if code := p.wait(t); code != 0 {
		t.Errorf("the program ended with %d\n%s%s", code, p.out, p.err)
	}
	return p.out.String(), p.err.String()
}

// attach attaches and returns the session's name.
func (w *world) attach(pid int, args ...string) string {
	w.t.Helper()
	var doc struct{ Session string }
	out := w.mg(append([]string{"attach", "--json", "--timeout", "60s", strconv.Itoa(pid)}, args...)...)
	if err := json.Unmarshal([]byte(out), &doc); err != nil || doc.Session == "" {
		w.t.Fatalf("attach: %v\n%s", err, out)
	}
	return doc.Session
}

// ask is one value of a query's result, by the session's name.
func (w *world) ask(session, sql string) string {
	w.t.Helper()
	out := strings.Split(strings.TrimSpace(w.mg(session, "query", "-f", "csv", sql)), "\n")
	return strings.TrimSpace(out[len(out)-1])
}

// round is attach, query, eval, backtrace, detach, attach again. A program that computes and gives Python's lock up for
// some µs every 0.5 ms takes it back before who waits for it has come to a processor: that may go on for many seconds.
func (w *world) round(pid int) {
	t := w.t
	t.Helper()
	number := strconv.Itoa(pid)
	session := w.attach(pid)
	if got := w.ask(session,
		"SELECT name || ': ' || text FROM memgauge.events ORDER BY ts LIMIT 1"); got != "attach: what happened before is not known" {
		t.Errorf("the first event is %q", got)
	}
	if got := w.mg(number, "eval", "--timeout", "60s", "answer + 1"); got != "42\n" {
		t.Errorf("eval gave %q", got)
	}
	if got := w.mg(session, "backtrace", "--timeout", "60s"); !strings.Contains(got, "MainThread") ||
		!strings.Contains(got, "loop.py:") {
		t.Errorf("backtrace printed\n%s", got)
	}
	if got := w.mg("attach", number); got != fmt.Sprintf("process %s is observed already, in session %s\n", number,
		session) {
		t.Errorf("a second attach says %q", got)
	}
	if got := w.mg("detach", "--timeout", "60s", number); !strings.Contains(got, "session "+session+" is finished") {
		t.Errorf("detach says %q", got)
	}
	w.leftAlone(pid)
	if got := w.ask(session, "SELECT ending FROM memgauge.processes"); got != "detached" {
		t.Errorf("the process's end is %q", got)
	}
	if again := w.attach(pid); again == session || w.ask(again, "SELECT count(*) FROM memgauge.events") != "1" {
		t.Errorf("attached again in session %s", again)
	}
}

// leftAlone checks from outside that nothing of ours is in the process.
func (w *world) leftAlone(pid int) {
	t := w.t
	t.Helper()
	state := filepath.Join(w.home, "state")
	until(t, "the agent's files to be closed", func() bool {
		maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		clean := !bytes.Contains(maps, []byte(state))
		for _, fd := range fds {
			to, _ := os.Readlink(fd)
			clean = clean && !strings.HasPrefix(to, state)
		}
		return clean
	})
}

// Every Python, in one of the ways to be busy or blocked; in the long lane in all of them.
func TestAttach(t *testing.T) {
	t.Parallel()
	ways := []string{"compute", "sleep", "join", "event", "queue", "read", "extension", "threads"}
	pythons := append(env.CPythons(t), env.ChrootCPythons(t)...)
	for i, py := range pythons {
		for k, way := range ways {
			if k%len(pythons) != i%len(ways) && !env.InLong() {
				continue // internal/probe/attach enters all of the matrix
			}
			t.Run(py.Name()+" "+way, func(t *testing.T) {
				t.Parallel()
				attachOnce(t, py, way)
			})
		}
	}
}

func attachOnce(t *testing.T, py env.Python, way string) {
	w := newWorld(t)
	p := w.program(append(py.Argv(script(t, "loop.py")), way, "STOP")...)
	w.round(p.pid)
	if out, errs := p.end(t); out != "ready\nanswer 41\n" || errs != "" {
		t.Errorf("the program printed %q and %q", out, errs)
	}
	until(t, "the session's end", func() bool { return strings.Contains(w.mg("list", "-a"), "ended") })
}

func TestAttachDebianPythonAndVenv(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if out, err := exec.Command("/usr/bin/python3", "-m", "venv", "--without-pip",
		filepath.Join(w.home, "venv")).CombinedOutput(); err != nil {
		env.Missing(t, "venv", fmt.Sprintf("/usr/bin/python3 -m venv: %v\n%s", err, out))
	}
	for _, python := range []string{"/usr/bin/python3", filepath.Join(w.home, "venv", "bin", "python")} {
		p := w.program(python, script(t, "loop.py"), "join", "STOP")
		w.round(p.pid)
		p.end(t)
	}
}

// A training is observed from its next step on, by what it made before; its losses are those of a run that nobody saw.
func TestAttachToATraining(t *testing.T) {
	t.Parallel()
	eachTorch(t, func(t *testing.T, python string) {
		w := newWorld(t)
		progress := filepath.Join(w.home, "progress")
		alone := w.program(python, script(t, "curve.py"), "300", "0", progress)
		alone.stop = progress + ".stop"
		want, _ := alone.end(t)
		os.Remove(alone.stop)

		p := w.program(python, script(t, "curve.py"), "300", "0.01", progress)
		p.stop = progress + ".stop"
		w.stepsReach(progress, 20)
		session := w.attach(p.pid, "--trace", "all")
		until(t, "steps", func() bool { return w.steps(session) >= 20 })
		if got := w.ask(session,
			"SELECT string_agg(DISTINCT module, ' ' ORDER BY module) FROM python.torch_trace WHERE step > 3"); got != "0 1 2 3 Adam Sequential" {
			t.Errorf("modules %q", got)
		}
		if got := w.mg(session, "eval", "len(optimizer.param_groups), model[0].in_features"); got != "(1, 16)\n" {
			t.Errorf("eval gave %q", got)
		}
		if got := w.ask(session, "SELECT min(step) FROM python.steps"); got != "1" {
			t.Errorf("the first step is %s", got)
		}
		w.mg("detach", "--timeout", "60s", strconv.Itoa(p.pid))
		w.leftAlone(p.pid)
		got, errs := p.end(t)
		if got != want || errs != "" {
			t.Errorf("printed %q and %q, unobserved %q", got, errs, want)
		}
	})
}

func (w *world) stepsReach(progress string, n int) {
	w.t.Helper()
	until(w.t, "the training to come on", func() bool {
		b, _ := os.ReadFile(progress)
		done, _ := strconv.Atoi(string(b))
		return done >= n
	})
}

func (w *world) steps(session string) int {
	n, _ := strconv.Atoi(w.ask(session, "SELECT coalesce(sum(steps), 0)::BIGINT FROM python.steps"))
	return n
}

// Attached and detached again and again: nothing is left over, and the training computes the same.
func TestAttachCycles(t *testing.T) {
	env.Long(t, "a soak: attached and detached again and again")
	t.Parallel()
	cycles := env.Times(20, 300)
	w := newWorld(t)
	python := env.Torch(t).Path
	progress := filepath.Join(w.home, "progress")
	alone := w.program(python, script(t, "curve.py"), "2000", "0", progress)
	alone.stop = progress + ".stop"
	want, _ := alone.end(t)
	os.Remove(alone.stop)
	p := w.program(python, script(t, "curve.py"), "2000", "0.001", progress)
	p.stop = progress + ".stop"
	w.stepsReach(progress, 100)
	number := strconv.Itoa(p.pid)
	var before int
	const warm = 16 // then what Python and the C library keep for the next time is there
	for i := range cycles + warm {
		if i == warm {
			before = resident(t, p.pid)
		} else if (i-warm)%max(1, cycles/10) == 0 {
			t.Logf("cycle %d: %+d KiB", i-warm, resident(t, p.pid)-before) // a step is something else than a slope
		}
		session := w.attach(p.pid)
		w.mg("detach", "--timeout", "60s", number)
		os.RemoveAll(filepath.Join(w.home, "state", "sessions", session)) // 1,000 of them would fill a disk
	}
	grown := resident(t, p.pid) - before
	t.Logf("%d cycles: resident memory grew by %d KiB", cycles, grown)
	if grown >= 1024 {
		t.Errorf("resident memory grew by %d KiB in %d cycles", grown, cycles)
	}
	if got, errs := p.end(t); got != want || errs != "" {
		t.Errorf("printed %q and %q, unobserved %q", got, errs, want)
	}
}

// resident memory in KiB.
func resident(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	n, _ := strconv.Atoi(strings.Fields(rest)[0])
	return n
}

// A process that sees other directories, other process numbers and another network than we do.
func TestAttachIntoNamespaces(t *testing.T) {
	t.Parallel()
	python := env.CPythons(t)[0].Path
	for _, flags := range []string{"-m", "-mpn --fork --mount-proc", "-Urmn"} {
		t.Run(flags, func(t *testing.T) {
			w := newWorld(t)
			if out, err := exec.Command("unshare",
				append(strings.Fields(flags), "true")...).CombinedOutput(); err != nil {
				env.Missing(t, "unshare", fmt.Sprintf("unshare %s: %v %s", flags, err, out))
			}
			// tmpfs over our sessions: as good as a container's own root
			state := filepath.Join(w.home, "state")
			os.MkdirAll(state, 0o700)
			sh := fmt.Sprintf("mount -t tmpfs none %s && exec %s %s sleep STOP", state, python, script(t, "loop.py"))
			p := w.program(append(append([]string{"unshare"}, strings.Fields(flags)...), "sh", "-c", sh)...)
			pid := innermost(t, p.pid)
			w.round(pid)
			w.mg(strconv.Itoa(pid), "eval", "import os; os.write(1, b'direct\\n')")
			if out, errs := p.end(t); out != "ready\ndirect\nanswer 41\n" || errs != "" {
				t.Errorf("the program printed %q and %q", out, errs)
			}
		})
	}
}

// A trainer that is killed leaves its records, also where its ring came through the door.
func TestAttachIntoNamespacesAndKill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	state := filepath.Join(w.home, "state")
	os.MkdirAll(state, 0o700)
	if out, err := exec.Command("unshare", "-mn", "true").CombinedOutput(); err != nil {
		env.Missing(t, "unshare", fmt.Sprintf("unshare -mn: %v %s", err, out))
	}
	sh := fmt.Sprintf("mount -t tmpfs none %s && exec %s %s 100000 0.001 STOP", state, env.Torch(t).Path,
		script(t, "curve.py"))
	p := w.program("unshare", "-mn", "sh", "-c", sh)
	session := w.attach(p.pid)
	until(t, "steps", func() bool { return w.steps(session) >= 20 })
	for _, pid := range collectors(sessionDir(t, w)) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	until(t, "the training to go on", func() bool {
		out := w.do("memgauge", session, "eval", "done")
		n, _ := strconv.Atoi(strings.TrimSpace(out.stdout))
		return n > 200
	})
	syscall.Kill(p.pid, syscall.SIGKILL)
	p.wait(t)
	if n := w.steps(session); n < 100 {
		t.Errorf("%d steps survived", n)
	}
	if got := w.mg("list", "-a"); !strings.Contains(got, "vanished") {
		t.Errorf("list says\n%s", got)
	}
}

func sessionDir(t *testing.T, w *world) string {
	dirs, _ := filepath.Glob(filepath.Join(w.home, "state", "sessions", "*"))
	if len(dirs) != 1 {
		t.Fatalf("sessions %v", dirs)
	}
	return dirs[0]
}

// innermost is the only descendant without a child.
func innermost(t *testing.T, pid int) int {
	t.Helper()
	for {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		if err != nil {
			t.Fatal(err)
		}
		children := strings.Fields(string(b))
		if len(children) == 0 {
			return pid
		}
		pid, _ = strconv.Atoi(children[0])
	}
}

// The collector has a session of its own, so that the terminal's end is not its own.
func TestAttachLeavesACollector(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.program("python3", script(t, "loop.py"), "sleep", "STOP")
	w.attach(p.pid)
	dir := sessionDir(t, w)
	until(t, "a collector", func() bool { return len(collectors(dir)) == 1 })
	pid := collectors(dir)[0]
	sid, _, errno := syscall.Syscall(syscall.SYS_GETSID, uintptr(pid), 0, 0)
	if errno != 0 || int(sid) != pid {
		t.Errorf("collector %d is in session %d (%v)", pid, sid, errno)
	}
	p.end(t)
	until(t, "the collector's end", func() bool { return len(collectors(dir)) == 0 })
	if got := w.mg("list", "-a"); !strings.Contains(got, "ended") {
		t.Errorf("list says\n%s", got)
	}
}

// A shell that starts a launcher that starts two ranks: all of them that are Python.
func TestAttachChildren(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	launcher := w.file("launch.py",
		"import subprocess, sys\nranks = [subprocess.Popen([sys.executable, sys.argv[1], 'sleep', sys.argv[2]]) for _ in range(2)]\n"+
			"print('launched', *[r.pid for r in ranks], flush=True)\n[r.wait() for r in ranks]\n")
	p := w.program("sh", "-c", fmt.Sprintf("python3 %s %s STOP; true", launcher, script(t, "loop.py")))
	until(t, "both ranks", func() bool {
		return strings.Count(p.out.String(), "ready") == 2 && strings.Contains(p.out.String(), "launched")
	})
	session := w.attach(p.pid, "--children")
	if got := w.ask(session, "SELECT count(*) FROM memgauge.processes"); got != "3" {
		t.Errorf("%s processes", got)
	}
	if got := w.mg(session, "eval", "--all", "__import__('sys').argv[1]"); strings.Count(got, "'sleep'") != 2 {
		t.Errorf("eval --all printed\n%s", got)
	}
	if got := w.mg("detach", "--timeout", "60s", "--children", strconv.Itoa(p.pid)); strings.Count(got,
		"detached from") != 3 || strings.Count(got, "is finished") != 1 {
		t.Errorf("detach says\n%s", got)
	}
	p.end(t)
}

// Workers of a data loader are forked with our hooks in them, or are Pythons of their own that were not attached to.
func TestAttachToATrainerWithWorkers(t *testing.T) {
	env.Long(t, "workers that import PyTorch, with each way to start them")
	t.Parallel()
	for _, context := range []string{"fork", "spawn"} {
		t.Run(context, func(t *testing.T) {
			w := newWorld(t)
			p := w.start(env.Torch(t).Path, script(t, "ddp.py"), context, "60")
			until(t, "torch", func() bool {
				b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.Process.Pid))
				return bytes.Contains(b, []byte("libtorch_python"))
			})
			session := w.attach(p.Process.Pid)
			if code := p.wait(t); code != 0 {
				t.Fatalf("exit %d\n%s%s", code, p.out, p.err)
			}
			if p.err.String() != "" {
				t.Errorf("printed %s", p.err)
			}
			if got := w.ask(session, fmt.Sprintf("SELECT count(*) FROM python.steps WHERE pid <> %d",
				p.Process.Pid)); got != "0" {
				t.Errorf("%s steps are a worker's", got)
			}
			if n := w.steps(session); n < 1 || n > 60 {
				t.Errorf("%d steps of 60", n)
			}
			// Of two workers those are observed that were forked after we came.
			forked := w.ask(session, "SELECT count(*) FROM memgauge.processes WHERE parent IS NOT NULL")
			if context == "fork" && !slices.Contains([]string{"0", "1", "2"}, forked) {
				t.Errorf("%s forked workers", forked)
			}
		})
	}
}

// What is refused says why and what to do, leaves no session, and exits 1.
func TestAttachRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sleep := w.start("sleep", "1000")
	check := func(what, want string, args ...string) {
		t.Helper()
		r := w.do("memgauge", append([]string{"attach"}, args...)...)
		if r.code != 1 || r.stdout != "" || !strings.Contains(r.stderr, want) || !strings.Contains(r.stderr, "hint: ") {
			t.Errorf("%s: exit %d\n%s%s", what, r.code, r.stdout, r.stderr)
		}
		if dirs, _ := filepath.Glob(filepath.Join(w.home, "state", "sessions", "*")); len(dirs) != 0 {
			t.Errorf("%s left %v", what, dirs)
		}
	}
	check("no such process", "no such process", "4194303")
	check("not Python", "not a CPython process", strconv.Itoa(sleep.Process.Pid))
	check("no Python below it either", "not a CPython process", "--children", strconv.Itoa(sleep.Process.Pid))
	stopped := w.program("python3", script(t, "loop.py"), "sleep", "STOP")
	syscall.Kill(stopped.pid, syscall.SIGSTOP)
	until(t, "the program to stop", func() bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", stopped.pid))
		return bytes.Contains(b, []byte(") T "))
	})
	check("stopped", "stopped by a signal", strconv.Itoa(stopped.pid))
	syscall.Kill(stopped.pid, syscall.SIGCONT)
	stopped.end(t)
	for _, args := range [][]string{{"attach", "x"}, {"attach"}, {"detach", "0"}, {"attach", "1", "--budget", "200%"},
		{"attach", "1", "--timeout", "0"}} {
		if r := w.do("memgauge", args...); r.code != 2 || r.stdout != "" {
			t.Errorf("%v: exit %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	if r := w.do("memgauge", "detach", strconv.Itoa(sleep.Process.Pid)); r.code != 1 ||
		!strings.Contains(r.stderr, "is not observed") {
		t.Errorf("detach: exit %d\n%s", r.code, r.stderr)
	}
}

// Root attaches to another user's training: it can't write into root's directories, and needn't.
func TestAttachToAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		env.Missing(t, "root", "only root may attach to another user's process")
	}
	w := newWorld(t)
	const nobody = 65534
	dir, err := os.MkdirTemp("", "attach-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	os.Chown(dir, nobody, nobody)
	loop, _ := os.ReadFile(script(t, "loop.py"))
	os.WriteFile(filepath.Join(dir, "loop.py"), loop, 0o644)
	p := w.program("setpriv", "--reuid", strconv.Itoa(nobody), "--clear-groups", "/usr/bin/python3",
		filepath.Join(dir, "loop.py"), "sleep", filepath.Join(dir, "stop"))
	p.stop = filepath.Join(dir, "stop")
	w.round(p.pid)
	p.end(t)
	stranger := w.program("python3", script(t, "loop.py"), "sleep", "STOP")
	cmd := w.command("setpriv", "--reuid", strconv.Itoa(nobody), "--clear-groups", filepath.Join(dir, "memgauge"),
		"attach", strconv.Itoa(stranger.pid))
	self, _ := os.Executable()
	if out, err := exec.Command("cp", self, filepath.Join(dir, "memgauge")).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	cmd.Dir, cmd.Env = dir, append(w.env, "MEMGAUGE_HOME="+filepath.Join(dir, "home"))
	if r := w.finish(cmd); r.code != 1 || !strings.Contains(r.stderr, "belongs to another user") ||
		!strings.Contains(r.stderr, "hint: ") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	stranger.end(t)
}

// memgauge attach is killed at random instants: the training computes the same, and can be attached to afterwards.
func TestAttachKilled(t *testing.T) {
	env.Long(t, "a training, twice, and kills at random instants; internal/probe/attach kills at every stage")
	t.Parallel()
	w := newWorld(t)
	progress := filepath.Join(w.home, "progress")
	python := env.Torch(t).Path
	alone := w.program(python, script(t, "curve.py"), "2000", "0", progress)
	alone.stop = progress + ".stop"
	want, _ := alone.end(t)
	os.Remove(alone.stop)
	p := w.program(python, script(t, "curve.py"), "2000", "0.001", progress)
	p.stop = progress + ".stop"
	w.stepsReach(progress, 100)
	in, before := 0, 0
	for range max(1, kills()/3) { // each takes seconds
		cmd := w.command("memgauge", "attach", strconv.Itoa(p.pid))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(maxAttach)) // the instant is to be random
		cmd.Process.Kill()
		if cmd.Wait() == nil {
			in++
		} else {
			before++
		}
		until(t, "a detach", func() bool { // an agent that has just begun has no socket yet
			r := w.do("memgauge", "detach", strconv.Itoa(p.pid))
			return r.code == 0 || strings.Contains(r.stderr, "is not observed")
		})
		os.RemoveAll(filepath.Join(w.home, "state", "sessions"))
	}
	t.Logf("killed %d times, %d times it was through", before, in)
	session := w.attach(p.pid)
	until(t, "steps", func() bool { return w.steps(session) >= 20 })
	w.mg("detach", "--timeout", "60s", strconv.Itoa(p.pid))
	w.leftAlone(p.pid)
	if got, errs := p.end(t); got != want || errs != "" {
		t.Errorf("printed %q and %q, unobserved %q", got, errs, want)
	}
}

// maxAttach is about how long an attach takes on a machine that is shared.
const maxAttach = 250 * time.Millisecond
