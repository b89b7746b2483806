package e2e

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// One thread that trains, a main thread that waits for it, and a word that makes the program keep Python's lock.
const stuck = `
import ctypes, os, sys, threading, time
def train():
    while not os.path.exists("hog"):
        time.sleep(0.01)
    open("hogging", "w").close()
    ctypes.PyDLL(None).sleep(3600)    # a PyDLL keeps the lock
thread = threading.Thread(target=train, name="training")
thread.start()
thread.join()    # line 10
`

type backtraceDoc struct {
	Processes []struct {
		PID     int
		Source  string
		Error   *string
		Threads []struct {
			TID     *int
			Name    *string
			State   *string
			Syscall *string
			Frames  []struct {
				Func, File string
				Lineno     int
			}
		}
	}
}

func TestBacktrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := filepath.Join(w.home, "s")
	w.file("stuck.py", stuck)
	run := w.start("memgauge", "run", "--quiet", "--session", session, "--", "python3", "stuck.py")
	take := func(args ...string) (doc backtraceDoc) {
		t.Helper()
		out := w.mg(append([]string{session, "backtrace", "--json"}, args...)...)
		if err := json.Unmarshal([]byte(out), &doc); err != nil || len(doc.Processes) != 1 {
			t.Fatalf("%v: %s", err, out)
		}
		return doc
	}
	until(t, "the agent", func() bool {
		r := w.do("memgauge", session, "backtrace", "--json")
		return r.code == 0 && strings.Contains(r.stdout, `"source": "python"`)
	})
	p := take().Processes[0]
	if len(p.Threads) < 2 || *p.Threads[0].Name != "MainThread" || *p.Threads[0].TID != p.PID ||
		*p.Threads[1].Name != "training" {
		t.Fatalf("%+v", p)
	}
	if frames := p.Threads[0].Frames; frames[len(frames)-1].Lineno != 10 || *p.Threads[0].Syscall != "futex" {
		t.Errorf("the main thread waits in line 10: %+v", p.Threads[0])
	}
	tid := *p.Threads[1].TID
	if one := take(strconv.Itoa(tid)).Processes[0].Threads; len(one) != 1 || *one[0].Name != "training" {
		t.Errorf("thread %d: %+v", tid, one)
	}
	if n := w.number(session,
		"SELECT count(*) FROM python.backtrace WHERE thread = 'training' AND func = 'train' AND depth = 0 AND frame_type = 'python'"); n != 1 {
		t.Errorf("python.backtrace shows the training's innermost call %v times", n)
	}
	if text := w.mg(session, "backtrace", "--locals"); !strings.Contains(text, "stuck.py:10") ||
		!strings.Contains(text, "training (") {
		t.Errorf("printed:\n%s", text)
	}
	w.file("hog", "")
	until(t, "the lock to be kept", func() bool { return exists(filepath.Join(w.home, "hogging")) })
	backtraceOfALockedProcess(t, w, session, take)
	_ = syscall.Kill(p.PID, syscall.SIGKILL)
	if code := run.wait(t); code != 128+9 {
		t.Errorf("exit %d", code)
	}
}

func backtraceOfALockedProcess(t *testing.T, w *world, session string, take func(...string) backtraceDoc) {
	p := take("--timeout", "0.3s").Processes[0]
	if p.Source != "kernel" || p.Error == nil || !strings.Contains(*p.Error, "GIL") || len(p.Threads) < 2 ||
		*p.Threads[0].State != "S" {
		t.Errorf("%+v", p)
	}
	r := w.do("memgauge", session, "backtrace", "--timeout", "0.3s")
	if r.code != 0 || !strings.Contains(r.stderr, "this is what the kernel tells") ||
		!strings.Contains(r.stdout, "futex") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if n := w.number(session,
		"SELECT count(*) FROM python.backtrace WHERE frame_type = 'kernel' AND func LIKE 'sleeping in%' AND file IS NULL"); n < 2 {
		t.Errorf("python.backtrace shows %v threads by the kernel's word", n)
	}
}

func TestBacktraceOfAFinishedSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := filepath.Join(w.home, "s")
	w.mg("run", "--quiet", "--session", session, "--", "python3", "-c", "pass")
	r := w.do("memgauge", session, "backtrace")
	if r.code != 1 || r.stdout != "" || !strings.Contains(r.stderr, "no observed process of the session is alive") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if n := w.number(session, "SELECT count(*) FROM python.backtrace"); n != 0 {
		t.Errorf("a finished session shows %v frames", n)
	}
}
