package cell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/probe/proc"
	"github.com/memgauge/memgauge/test/env"
)

// TestMain: this binary is a cell where package cell starts it as one. It does what a hostile engine would try.
func TestMain(m *testing.M) {
	if os.Args[0] == mortal {
		mortalParent()
	}
	if os.Args[0] != "memgauge" {
		env.Leftovers(m)
	}
	if os.Args[2] == withoutLandlock {
		landlockVersion = func() int { return 0 }
	}
	served := make(chan error)
	go func() { served <- Serve(context.Background(), hostile) }()
	fmt.Fprintln(os.Stderr, <-served)
	os.Exit(1)
}

// The first thread is main's alone, so that another one serves, as it may happen in memgauge.
func init() { runtime.LockOSThread() }

// mortal is the name of a process that has a cell, and is killed.
const mortal = "mortal"

// mortalParent starts a cell, says its PID, and waits for its own end.
func mortalParent() {
	c, err := Start(Spec{Kind: os.Args[1], Task: target{}, Tmp: os.Args[2]})
	if err == nil {
		err = c.Query(context.Background(), api.QueryRequest{SQL: "write in the scratch directory"}, io.Discard)
	}
	fmt.Println(c.PID(), err)
	select {}
}

const withoutLandlock = "without-landlock" // a kind

// target is what a hostile cell goes for.
type target struct {
	Lake, Secret, Listener string
	Parent                 int
}

func hostile(_ context.Context, text []byte) (http.Handler, error) {
	t, err := Task[target](text)
	if err != nil {
		return nil, err
	}
	return api.Handler(engine{target: t}, api.Owner, func() {}), nil
}

// engine answers a statement, the name of an act, with what came of it.
type engine struct {
	api.Session
	target target
}

func (e engine) Query(_ context.Context, q api.QueryRequest, w io.Writer) error {
	if q.SQL == "grow" {
		for held := [][]byte{}; ; {
			b := make([]byte, 16<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			held = append(held, b)
		}
	}
	err := acts[q.SQL](e.target)
	_, werr := fmt.Fprint(w, err)
	return werr
}

var acts = map[string]func(t target) error{
	"read the lake":       func(t target) error { _, err := os.ReadFile(filepath.Join(t.Lake, "rows")); return err },
	"read the first file": func(target) error { _, err := os.ReadFile(File(0)); return err },
	"write in the scratch directory": func(target) error {
		return os.WriteFile(filepath.Join(os.TempDir(), "spilled"), []byte("x"), 0o600)
	},
	"write in the lake": func(t target) error {
		return os.WriteFile(filepath.Join(t.Lake, "more"), []byte("x"), 0o600)
	},
	"change the lake": func(t target) error {
		return os.WriteFile(filepath.Join(t.Lake, "rows"), []byte("x"), 0o600)
	},
	"shorten the lake":   func(t target) error { return os.Truncate(filepath.Join(t.Lake, "rows"), 0) },
	"remove of the lake": func(t target) error { return os.Remove(filepath.Join(t.Lake, "rows")) },
	"read beside the lake": func(t target) error {
		_, err := os.ReadFile(t.Secret)
		return err
	},
	"read /etc/shadow": func(target) error { _, err := os.ReadFile("/etc/shadow"); return err },
	"read the parent's environment": func(t target) error {
		_, err := os.ReadFile("/proc/" + strconv.Itoa(t.Parent) + "/environ")
		return err
	},
	"connect": func(t target) error {
		c, err := net.Dial("tcp", t.Listener)
		if err == nil {
			c.Close()
		}
		return err
	},
	"make a socket": func(target) error {
		_, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		return err
	},
	"change a mode":   func(t target) error { return unix.Chmod(t.Secret, 0o777) },
	"change an owner": func(t target) error { return unix.Lchown(t.Secret, 1001, 1001) },
	"change a time": func(t target) error {
		return unix.UtimesNanoAt(unix.AT_FDCWD, t.Secret, make([]unix.Timespec, 2), 0)
	},
	"change an attribute": func(t target) error { return unix.Setxattr(t.Secret, "user.x", []byte("x"), 0) },
	"limit the parent": func(t target) error {
		return unix.Prlimit(t.Parent, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}, nil)
	},
	"limit itself": func(target) error {
		return unix.Prlimit(os.Getpid(), unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	},
	"signal the parent": func(t target) error {
		err := unix.Kill(t.Parent, 0)
		if errors.Is(err, unix.EPERM) { // Landlock, for newer kernels
			err = unix.EACCES
		}
		return err
	},
	"slow the parent":         func(t target) error { return unix.Setpriority(unix.PRIO_PROCESS, t.Parent, 19) },
	"make a namespace":        func(target) error { return unix.Unshare(unix.CLONE_NEWUSER) },
	"make memory of no owner": func(target) error { _, err := unix.MemfdCreate("x", 0); return err },
	"share memory": func(target) error {
		_, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, 0o600)
		return err
	},
	"fork": func(target) error {
		return child(unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0))
	},
	"fork as a C library does": func(target) error { return exec.Command("/proc/self/exe").Start() },
	"fork by a newer call": func(target) error {
		args := [8]uint64{4: uint64(unix.SIGCHLD)} // struct clone_args (linux/sched.h)
		pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
		err := child(pid, 0, errno)
		if errors.Is(err, unix.ENOSYS) { // what makes the C library take the older one
			err = unix.EACCES
		}
		return err
	},
	"run a program": func(target) error { return unix.Exec("/bin/sh", []string{"sh", "-c", "exit"}, nil) },
	"have the environment": func(target) error {
		if v := os.Getenv("CELL_TEST_SECRET"); v != "" {
			return nil
		}
		return errors.New("permission denied: it is empty")
	},
}

// child ends the process that a raw fork has made, and leaves its maker the reason why there is none.
func child(pid, _ uintptr, errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return nil
}

func start(t *testing.T, kind string, aim target, read ...string) *Cell {
	t.Helper()
	c, err := Start(Spec{Kind: kind, Task: aim, Read: read, Tmp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func ask(t *testing.T, c *Cell, act string) string {
	t.Helper()
	var out strings.Builder
	if err := c.Query(t.Context(), api.QueryRequest{SQL: act}, &out); err != nil {
		t.Fatalf("%s: %v", act, err)
	}
	return out.String()
}

// A cell whose engine was taken over can read what it was given and write its own directory. The kernel refuses all
// else.
func TestFence(t *testing.T) {
	if Landlock() == 0 {
		env.Missing(t, "landlock", "this kernel has no Landlock")
	}
	lake, other := t.TempDir(), t.TempDir()
	secret := filepath.Join(other, "secret")
	for _, path := range []string{filepath.Join(lake, "rows"), secret} {
		if err := os.WriteFile(path, []byte("rows"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("CELL_TEST_SECRET", "s3cret")
	c := start(t, "test", target{lake, secret, l.Addr().String(), os.Getpid()}, lake)
	allowed := []string{"read the lake", "write in the scratch directory", "limit itself"}
	for _, act := range allowed {
		if got := ask(t, c, act); got != "<nil>" {
			t.Errorf("%s: %s, want it allowed", act, got)
		}
	}
	for act := range acts {
		if act == "read the first file" { // it was given none
			continue
		}
		if got := ask(t, c, act); !slices.Contains(allowed, act) && !strings.Contains(got, "permission denied") {
			t.Errorf("%s: %q, want permission denied", act, got)
		}
	}
	if b, err := os.ReadFile(filepath.Join(lake, "rows")); err != nil || string(b) != "rows" {
		t.Errorf("the lake has %q, %v", b, err)
	}
}

// Without Landlock, root's cells can write nothing but their own directory, and no cell makes a socket.
func TestFenceWithoutLandlock(t *testing.T) {
	env.Root(t)
	lake := t.TempDir()
	if err := os.WriteFile(filepath.Join(lake, "rows"), []byte("rows"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := start(t, withoutLandlock, target{Lake: lake, Listener: "127.0.0.1:1", Parent: os.Getpid()}, lake)
	for act, want := range map[string]string{"read the lake": "<nil>", "write in the scratch directory": "<nil>",
		"write in the lake": "read-only", "change the lake": "read-only", "shorten the lake": "read-only",
		"remove of the lake": "read-only", "read the parent's environment": "permission denied",
		"connect": "permission denied", "make a socket": "permission denied", "change a mode": "permission denied",
		"limit the parent": "permission denied", "signal the parent": "permission denied",
		"fork": "permission denied", "fork as a C library does": "permission denied"} {
		if got := ask(t, c, act); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %s", act, got, want)
		}
	}
}

// A cell that takes more memory than it may ends, its question gets the reason, and nothing of it stays.
func TestCellIsBounded(t *testing.T) {
	c := start(t, "test", target{}, t.TempDir())
	dir, pid := c.dir.path, c.PID()
	err := c.Why(c.Query(t.Context(), api.QueryRequest{SQL: "grow"}, io.Discard))
	if err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("the question's answer: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the process: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("%s is still there", dir)
	}
}

// A cell whose parent is killed ends with it, whichever thread put it behind its fence.
func TestEndsWithItsParent(t *testing.T) {
	for i := range env.Times(8, 50) {
		cmd := exec.Command("/proc/self/exe", "test", t.TempDir())
		cmd.Args[0] = mortal
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var pid int
		var failed string
		_, err = fmt.Fscanln(out, &pid, &failed)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if err != nil || failed != "<nil>" {
			t.Fatalf("cell %d: %v %s", pid, err, failed)
		}
		for end := time.Now().Add(20 * time.Second); alive(pid); runtime.Gosched() {
			if time.Now().After(end) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				t.Fatalf("cell %d lives on without its parent, in round %d", pid, i)
			}
		}
	}
}

// alive tells whether a process runs; one that nobody has waited for yet doesn't.
func alive(pid int) bool {
	s, err := proc.New("/proc").Stat(pid)
	return err == nil && !s.Dead()
}

// What is over its time is killed, whatever it does.
func TestBound(t *testing.T) {
	for _, own := range []time.Duration{0, time.Minute, 2 * time.Hour} {
		ctx, cancel := bound(t.Context(), own)
		at, _ := ctx.Deadline()
		if left := time.Until(at); left > mostTime || own == time.Minute && left > time.Minute+slack {
			t.Errorf("%s: %s left", own, left)
		}
		cancel()
	}
}

// A directory that a killed parent left is removed by the next; one in use is not.
func TestSweep(t *testing.T) {
	parent := t.TempDir()
	used, err := newScratch(parent)
	if err != nil {
		t.Fatal(err)
	}
	defer used.remove()
	left := filepath.Join(parent, prefix+"left")
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour)
	for _, path := range []string{used.path, left} {
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
	}
	next, err := newScratch(parent)
	if err != nil {
		t.Fatal(err)
	}
	defer next.remove()
	if _, err := os.Stat(left); err == nil {
		t.Error("what was left is still there")
	}
	if _, err := os.Stat(used.path); err != nil {
		t.Error(err)
	}
}

// A cell that is given open files and a directory reads and writes those, wherever they lie by then.
func TestGivenByDescriptor(t *testing.T) {
	for _, kind := range []string{"test", withoutLandlock} {
		if kind == withoutLandlock {
			env.Root(t)
		}
		parent := t.TempDir()
		work, err := rootdir.Make(filepath.Join(parent, "work"))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(parent, "rows")
		if err := os.WriteFile(path, []byte("rows"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path, path+".old"); err != nil {
			t.Fatal(err)
		}
		c, err := Start(Spec{Kind: kind, Files: []*os.File{f}, Work: work, Tmp: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		for _, act := range []string{"read the first file", "write in the scratch directory"} {
			if got := ask(t, c, act); got != "<nil>" {
				t.Errorf("%s, %s: %s, want it allowed", kind, act, got)
			}
		}
		if b, err := work.ReadFile("spilled", 10); err != nil || string(b) != "x" {
			t.Errorf("%s: %q, %v", kind, b, err)
		}
		if err := errors.Join(c.Close(), f.Close(), work.Close()); err != nil {
			t.Error(err)
		}
	}
}
