package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"
)

// smallDisk mounts a tmpfs of so many MiB for the test.
func smallDisk(t *testing.T, dir, size string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		env.Missing(t, "root", "mount a tmpfs: "+err.Error())
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}

// A disk without room for a ring: the training runs as if we were not there, and the user is told.
func TestDiskFullFromTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	disk := filepath.Join(w.home, "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	smallDisk(t, disk, "2m")
	r := w.do("memgauge", "run", "--session", filepath.Join(disk, "s"), "--", env.Torch(t).Path, script(t, "train.py"),
		"20", "0")
	if r.code != 0 || !strings.Contains(r.stdout, "done 20") {
		t.Errorf("the training was disturbed: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if !strings.Contains(r.stderr, "memgauge: ") {
		t.Errorf("the user is not told: %q", r.stderr)
	}
}

// A disk that fills up while the training runs: rings are allocated beforehand, so the trainer can't be killed by a
// SIGBUS; when there is room again everything is there.
func TestDiskFullMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	disk := filepath.Join(w.home, "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	smallDisk(t, disk, "24m")
	s := filepath.Join(disk, "s")
	run := w.start("memgauge", "run", "--session", s, "--", env.Torch(t).Path, script(t, "train.py"), "400", "0",
		"0.01")
	until(t, "the training", func() bool { return strings.Contains(run.out.String(), "warm") })
	hog, err := os.Create(filepath.Join(disk, "hog"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = hog.Write(make([]byte, 64<<10))
	}
	if code := run.wait(t); code != 0 || !strings.Contains(run.out.String(), "done 400") {
		t.Errorf("the training was disturbed: exit %d\n%s%s", code, run.out, run.err)
	}
	hog.Close() // an open file keeps its room
	if err := os.Remove(hog.Name()); err != nil {
		t.Fatal(err)
	}
	if n := w.number(s, "SELECT sum(steps) FROM python.steps"); n != 400 {
		t.Errorf("%v steps, want 400", n)
	}
}

// Nothing of a session can be reached by another user: not by the command line, not by its sockets.
func TestAnotherUserGetsNothing(t *testing.T) {
	t.Parallel()
	env.Root(t)
	w := newWorld(t)
	for dir := w.home; dir != "/"; dir = filepath.Dir(dir) { // the other user may come as far as the session
		if err := os.Chmod(dir, 0o755); err != nil {
			break
		}
	}
	s := filepath.Join(w.home, "s")
	run := w.start("memgauge", "run", "--session", s, "--", "python3", "-c",
		"import time; print('pid 0', flush=True); time.sleep(60)")
	socks := func() []string {
		found, _ := filepath.Glob(filepath.Join(s, "ctl", "*.sock"))
		return append(found, filepath.Join(s, "api.sock"))
	}
	until(t, "both sockets", func() bool {
		all := socks()
		_, err := os.Stat(all[len(all)-1])
		return len(all) == 2 && err == nil
	})
	nobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	copied := filepath.Join(w.home, "bin", "copy", "memgauge") // the test binary lies where the other user can't go
	if out, err := exec.Command("sh", "-c", `mkdir -m 755 "$2" && cp "$1" "$2/memgauge"`, "sh",
		"/proc/"+strconv.Itoa(os.Getpid())+"/exe", filepath.Dir(copied)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := w.command(copied, "query", "--session", s, "SELECT 1")
	cmd.SysProcAttr = nobody
	if r := w.finish(cmd); r.code != 1 || r.stdout != "" {
		t.Errorf("query as another user: exit %d, %q, %q", r.code, r.stdout, r.stderr)
	}
	connect := func(path string) result {
		c := exec.Command("/usr/bin/python3", "-I", "-c", `import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(5)
try:
    s.connect(sys.argv[1])
    s.sendall(b"GET /v1/summary HTTP/1.1\r\nHost: memgauge.local\r\n\r\n")
    print(len(s.recv(100)))
except OSError as e:
    print(type(e).__name__)`, path)
		c.SysProcAttr = nobody
		return w.finish(c)
	}
	for _, path := range socks() {
		if r := connect(path); strings.TrimSpace(r.stdout) != "PermissionError" {
			t.Errorf("%s as another user: %q %q", path, r.stdout, r.stderr)
		}
	}
	// even where the directories and sockets were opened up, the peer is asked who it is
	for _, path := range append(socks(), s, filepath.Join(s, "ctl")) {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range socks() {
		if got := strings.TrimSpace(connect(path).stdout); got != "0" && got != "ConnectionResetError" &&
			got != "BrokenPipeError" {
			t.Errorf("%s opened up: another user got %q", path, got)
		}
	}
	_ = run.Process.Signal(syscall.SIGTERM)
}

// A page in a browser that reaches the socket through some forwarder names another host, and is refused.
func TestForeignHostIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := filepath.Join(w.home, "s")
	run := w.start("memgauge", "run", "--session", s, "--", "sleep", "60")
	sock := filepath.Join(s, "api.sock")
	var c net.Conn
	until(t, "the collector", func() (up bool) { // the socket is there a moment before somebody listens to it
		var err error
		c, err = net.Dial("unix", sock)
		return err == nil
	})
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _,
		err := c.Write([]byte("GET /v1/summary HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64)
	n, _ := c.Read(b)
	if !strings.Contains(string(b[:n]), "403") {
		t.Errorf("answered %q", b[:n])
	}
	_ = run.Process.Signal(syscall.SIGTERM)
	run.wait(t) // it writes into the directory until then
}

func TestSessionCopiedElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := filepath.Join(w.home, "s")
	run := w.start("memgauge", "run", "--session", s, "--", "python3", script(t, "ledger.py"), s+".ledger", "1000000",
		"0.001")
	until(t, "the session", func() bool { _, err := os.Stat(filepath.Join(s, "api.sock")); return err == nil })
	until(t, "rows", func() bool { return w.number(s, "SELECT count(*) FROM python.steps") > 100 })
	to := filepath.Join(w.home, "copy")
	if out, err := exec.Command("cp", "-a", s, to).CombinedOutput(); err != nil &&
		!strings.Contains(string(out), "sock") {
		t.Fatalf("%v: %s", err, out)
	}
	if n := w.number(to, "SELECT count(*) FROM python.steps"); n < 100 {
		t.Errorf("the copy has %v rows", n)
	}
	before := w.number(s, "SELECT count(*) FROM python.steps")
	until(t, "the original to go on", func() bool { return w.number(s, "SELECT count(*) FROM python.steps") > before })
	_ = run.Process.Signal(syscall.SIGTERM)
	run.wait(t)
}

func TestOneCollectorForASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := filepath.Join(w.home, "s")
	run := w.start("memgauge", "run", "--session", s, "--", "sleep", "60")
	until(t, "the collector", func() bool {
		return len(collectors(s)) == 1 && w.do("memgauge", "query", "--session", s, "SELECT 1").code == 0
	})
	for range 3 {
		if r := w.do("memgauge", "collector", "--session", s); r.code != 0 {
			t.Errorf("a second collector: exit %d %s", r.code, r.stderr)
		}
	}
	if n := len(collectors(s)); n != 1 {
		t.Errorf("%d collectors", n)
	}
	_ = run.Process.Signal(syscall.SIGTERM)
	run.wait(t)
	until(t, "the collector's end", func() bool { return len(collectors(s)) == 0 })
}

func TestManyProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := filepath.Join(w.home, "s")
	prog := w.file("many.py", `
import os, sys, time
from memgauge._agent import recording
kids = []
for i in range(64):
    pid = os.fork()
    if pid == 0:
        ring = recording.ring(large=True)
        for n in range(1, 51):
            ring.step(0, 1, n, 0, 1000)
        os._exit(0)
    kids.append(pid)
print(sum(os.waitpid(k, 0)[1] for k in kids))
`)
	r := w.do("memgauge", "run", "--session", s, "--", "python3", prog)
	if r.code != 0 || r.stdout != "0\n" {
		t.Fatalf("exit %d %q %s", r.code, r.stdout, r.stderr)
	}
	row := w.rows(s, "SELECT count(DISTINCT pid) p, sum(steps)::INT n FROM python.steps")[0]
	if row["p"] != 64.0 || row["n"] != 3200.0 {
		t.Errorf("%v, want 64 processes and 3200 steps", row)
	}
	left, _ := filepath.Glob(filepath.Join(s, "rings", "*"))
	if len(left) != 0 {
		t.Errorf("%d ring files left", len(left))
	}
}
