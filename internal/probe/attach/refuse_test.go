package attach

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/test/env"
)

// refused checks that Inject and Diagnose refuse for the same reason and with a hint, and leave the process as it was.
func refused(t *testing.T, pid int, want error, text string) {
	t.Helper()
	before := look(pid)
	_, err := Inject(t.Context(), pid, "import os; os._exit(99)", Options{Timeout: 30 * time.Second})
	if !errors.Is(err, want) || !strings.Contains(err.Error(), text) || remedy.Of(err) == "" {
		t.Errorf("inject: %v (hint: %s), want %q with %q", err, remedy.Of(err), want, text)
	}
	checks := Diagnose(pid)
	if last := checks[len(checks)-1]; !errors.Is(last.Err, want) || remedy.Of(last.Err) == "" {
		t.Errorf("diagnose: %+v, want %q", last, want)
	}
	if after := look(pid); after != before {
		t.Errorf("it was changed from\n%.2000s\nto\n%.2000s", before, after)
	}
}

// look returns what does not change in an untouched process: whether it is stopped or dead, its threads and mappings.
func look(pid int) string {
	s, _ := readStatus(fmt.Sprintf("/proc/%d/status", pid))
	maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	return fmt.Sprintf("%v %d\n%s", strings.ContainsRune("TtZ", rune(s.state)), s.threads, maps)
}

// run starts a program that does nothing but wait, and waits until it does.
func run(t *testing.T, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	until(t, "it waits", func() bool { return state(cmd.Process.Pid) == 'S' })
	return cmd
}

// compile makes a C program, which runs body and then waits for ever.
func compile(t *testing.T, source string, flags ...string) string {
	t.Helper()
	cc := env.Program(t, "cc")
	out := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command(cc, append(flags, "-x", "c", "-", "-o", out)...)
	cmd.Stdin = strings.NewReader(source)
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, msg)
	}
	return out
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func state(pid int) byte {
	s, _ := readStatus(fmt.Sprintf("/proc/%d/status", pid))
	return s.state
}

func TestNoSuchProcess(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	refused(t, cmd.Process.Pid, ErrNoProcess, "")
}

func TestZombie(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	until(t, "a zombie", func() bool { return state(cmd.Process.Pid) == 'Z' })
	refused(t, cmd.Process.Pid, ErrZombie, "has not reaped")
}

func TestNotPython(t *testing.T) {
	refused(t, run(t, "sleep", "1000").Process.Pid, ErrNotPython, "sleep")
}

func TestKernelThread(t *testing.T) {
	if comm, _ := os.ReadFile("/proc/2/comm"); string(comm) != "kthreadd\n" {
		env.Missing(t, "kthreadd", "no kernel threads are seen here")
	}
	refused(t, 2, ErrNotPython, "a thread of the kernel")
}

func TestSuspended(t *testing.T) {
	p := start(t, pythons(t)[0], "testdata/doing.py", "compute")
	p.Process.Signal(unix.SIGSTOP)
	until(t, "stopped", func() bool { return state(p.Process.Pid) == 'T' })
	refused(t, p.Process.Pid, ErrSuspended, "stopped by a signal")
	if s := state(p.Process.Pid); s != 'T' {
		t.Fatalf("its state is now %c", s)
	}
	p.Process.Signal(unix.SIGCONT)
	inject(t, p, "")
}

func TestTraced(t *testing.T) {
	p := start(t, pythons(t)[0], "testdata/doing.py", "sleep")
	release := trace(t, p.Process.Pid)
	refused(t, p.Process.Pid, ErrTraced, fmt.Sprintf("PID %d", os.Getpid()))
	release()
	inject(t, p, "")
}

// trace seizes a process without stopping it, until release is called.
func trace(t *testing.T, pid int) (release func()) {
	seized, let, gone := make(chan error), make(chan bool), make(chan bool)
	go func() {
		defer close(gone)
		runtime.LockOSThread()
		seized <- unix.PtraceSeize(pid)
		<-let
		unix.PtraceInterrupt(pid)
		unix.Wait4(pid, nil, unix.WALL, nil)
		unix.PtraceDetach(pid)
		runtime.UnlockOSThread()
	}()
	if err := <-seized; err != nil {
		t.Fatal(err)
	}
	return func() { close(let); <-gone }
}

// TestTracedRemoteDebug attaches to a traced process, root's and another user's, through CPython's own remote
// debugging.
func TestTracedRemoteDebug(t *testing.T) {
	for _, py := range pythons(t) {
		if py.Root == "" { // 3.14 and newer live in the chroot
			continue
		}
		for name, prepare := range map[string]string{"own": "",
			"another user's": "os.setgid(65534); os.setuid(65534)"} {
			t.Run(py.Name()+" "+name, func(t *testing.T) {
				p := start(t, py, "-c", "import os\n"+prepare+"\nprint('ready', flush=True)\nwhile True: pass")
				release := trace(t, p.Process.Pid)
				r := inject(t, p, "import os\nresult = 'in as %d' % os.getuid()")
				release()
				want := "in as 0"
				if prepare != "" {
					want = "in as 65534"
				}
				if r.Way != RemoteDebug || r.Value != want {
					t.Errorf("%+v, want %q", r, want)
				}
			})
		}
		if left, _ := filepath.Glob(filepath.Join(py.Root, "tmp", "memgauge-*", "run.py")); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

func TestPython2(t *testing.T) {
	for _, old := range []string{"2.7*", "3.6*", "3.7*"} {
		found, _ := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(pythons(t)[0].Path))), old,
			"bin", "python"))
		if len(found) == 0 {
			t.Logf("no Python %s here", old)
			continue
		}
		cmd := exec.CommandContext(t.Context(), found[0], "-c",
			"import sys, time; sys.stdout.write('x'); sys.stdout.flush(); time.sleep(1000)")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		io.ReadFull(out, make([]byte, 1))
		until(t, "it sleeps", func() bool { return state(cmd.Process.Pid) == 'S' })
		text := "older than 3.8"
		if strings.HasPrefix(old, "2") {
			text = "Python 2"
		}
		refused(t, cmd.Process.Pid, ErrVersion, text)
		cmd.Process.Kill()
		cmd.Wait()
	}
}

// TestStripped and TestFreeThreaded use programs that export the same symbols as such interpreters.
func TestStripped(t *testing.T) {
	program := compile(t,
		"#include <unistd.h>\nint Py_AddPendingCall, PyConfig_Clear; int main(void) { for (;;) pause(); }", "-rdynamic")
	cmd := run(t, program)
	refused(t, cmd.Process.Pid, ErrStripped, "Py_IsInitialized")
}

func TestFreeThreaded(t *testing.T) {
	program := compile(t,
		"#include <unistd.h>\nint Py_AddPendingCall, _Py_MergeZeroLocalRefcount; "+
			"unsigned long Py_Version = 0x030e00f0; int main(void) { for (;;) pause(); }", "-rdynamic")
	cmd := run(t, program)
	refused(t, cmd.Process.Pid, ErrVersion, "free-threaded")
}

func TestStatic(t *testing.T) {
	program := compile(t, "#include <unistd.h>\nint main(void) { for (;;) pause(); }", "-static")
	cmd := run(t, program)
	refused(t, cmd.Process.Pid, ErrNotPython, "")
}

// elf32 is a 32-bit x86 program that calls pause for ever: header, one segment, code.
var elf32 = []byte("\x7fELF\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x03\x00\x01\x00\x00\x00\x54" +
	"\x80\x04\x08\x34\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x34\x00\x20\x00\x01\x00\x00\x00\x00\x00\x00\x00" +
	"\x01\x00\x00\x00\x00\x00\x00\x00\x00\x80\x04\x08\x00\x80\x04\x08\x5d\x00\x00\x00\x5d\x00\x00\x00\x05\x00\x00" +
	"\x00\x00\x10\x00\x00" +
	"\xb8\x1d\x00\x00\x00\xcd\x80\xeb\xf7")

func Test32Bit(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, elf32, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	if err := cmd.Start(); err != nil {
		env.Missing(t, "ia32", fmt.Sprintf("this kernel runs no 32-bit programs: %v", err))
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	until(t, "it waits", func() bool { return state(cmd.Process.Pid) != 'R' })
	refused(t, cmd.Process.Pid, ErrMachine, "ELFCLASS32")
}

// TestVfork refuses a child that runs in its parent's memory.
func TestVfork(t *testing.T) {
	program := compile(t, `
#include <stdio.h>
#include <unistd.h>
int main(void) { if (vfork() == 0) { char b[16]; write(1, b, sprintf(b, "%d\n", getpid())); for (;;) pause(); } `+
		`return 0; }`)
	cmd := exec.CommandContext(t.Context(), program)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var child int
	if _, err := fmt.Fscan(out, &child); err != nil {
		t.Fatal(err)
	}
	refused(t, child, ErrBorrowed, "vfork")
	unix.Kill(child, unix.SIGKILL)
	cmd.Process.Kill()
	cmd.Wait()
}

// TestOtherUser attaches as a user without rights: to a process of root's, and to one of its own that isn't dumpable.
func TestOtherUser(t *testing.T) {
	env.Root(t)
	p := start(t, debian(t), "testdata/doing.py", "sleep")
	asNobody(t, p.Process.Pid, ErrOwner.Error(), fmt.Sprintf("uid 0, you are %d", nobody), "sudo -u '#0'")

	own := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c",
		"import ctypes, time; ctypes.CDLL(None).prctl(4, 0); print('x', flush=True); time.sleep(1000)")
	own.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	own.Dir = "/"
	out, err := own.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := own.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { own.Process.Kill(); own.Wait() }()
	io.ReadFull(out, make([]byte, 1))
	asNobody(t, own.Process.Pid, ErrForbidden.Error(), "permission denied", "memgauge run")
}

// asNobody runs Diagnose as another user, in a copy of this program that it may run.
func asNobody(t *testing.T, pid int, want ...string) {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "memgauge-test")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o755)
	program := filepath.Join(dir, "attach.test")
	if err := os.WriteFile(program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = []string{fmt.Sprintf("%s=%d", diagnoseVar, pid)}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v %s", err, out)
	}
	for _, text := range want {
		if !bytes.Contains(out, []byte(text)) {
			t.Errorf("it says %q, without %q", out, text)
		}
	}
}

// TestForbidden checks the explanation of what Yama forbids, on kernels that have it.
func TestForbidden(t *testing.T) {
	for scope, want := range map[string]string{"1": "ptrace_scope=0", "2": "as root", "3": "memgauge run",
		"": "SYS_PTRACE"} {
		err := forbidden(scope, 0, unix.EACCES)
		if !errors.Is(err, ErrForbidden) || !errors.Is(err, unix.EACCES) || !strings.Contains(remedy.Of(err), want) ||
			!strings.Contains(remedy.Of(err), "memgauge run") {
			t.Errorf("scope %q: %v, hint %q", scope, err, remedy.Of(err))
		}
	}
}

// TestRaised checks that an exception of the source comes back, and that nothing is printed in the target (its stderr
// is the test's).
func TestRaised(t *testing.T) {
	p := start(t, pythons(t)[0], "testdata/doing.py", "sleep")
	for source, want := range map[string]string{
		"x = 1\n\nx.y":                 "AttributeError: 'int' object has no attribute 'y' (line 3)",
		"x = (":                        "SyntaxError",
		"import sys; sys.exit(3)":      "SystemExit: 3",
		"raise KeyboardInterrupt":      "KeyboardInterrupt",
		"result = 'a' * (2 << 20)":     "its result has",
		"def f(): f()\nf()":            "RecursionError",
		"raise ValueError('\\udc80é')": "ValueError",
	} {
		if _, err := Inject(t.Context(), p.Process.Pid, source, Options{}); !errors.Is(err, ErrRaised) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", source, err, want)
		}
	}
	if r := inject(t, p, "result = 'Grüße 🐍\\n' + __name__"); r.Value != "Grüße 🐍\n__memgauge__" {
		t.Errorf("%q", r.Value)
	}
	if _, err := Inject(t.Context(), p.Process.Pid, "\x00", Options{}); err == nil {
		t.Error("a zero byte was taken")
	}
}

// reads waits until the main thread reads its standard input: it says that it is ready a moment before.
func (p *target) reads(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; runtime.Gosched() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", p.Process.Pid))
		if strings.HasPrefix(string(text), fmt.Sprintf("%d 0x0 ", syscall.SYS_READ)) {
			return
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("it does not read: %q, %v", text, err)
		}
	}
}

// TestTimeout cancels the source while native code holds the GIL, and reports source that is already running.
func TestTimeout(t *testing.T) {
	py := debian(t)
	p := start(t, py, "testdata/doing.py", "hog")
	p.reads(t)
	r, err := Inject(t.Context(), p.Process.Pid, "import __main__; __main__.entered = True",
		Options{Timeout: 300 * time.Millisecond})
	if !errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), "holds the GIL") {
		t.Fatalf("%+v %v", r, err)
	}
	p.in.Write([]byte("\n")) // ends the hogging
	if got := p.line(t); got != "free" {
		t.Fatal(got)
	}
	clean(t, p, 0)
	if r := inject(t, p, "import __main__; result = str(hasattr(__main__, 'entered'))"); r.Value != "False" {
		t.Error("it ran after it was called back")
	}
	if _, err := Inject(t.Context(), p.Process.Pid, "import time; time.sleep(1)",
		Options{Timeout: 200 * time.Millisecond}); !errors.Is(err, ErrRunning) {
		t.Errorf("%v", err)
	}
	clean(t, p, 0)
}
