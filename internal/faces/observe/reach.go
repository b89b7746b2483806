package observe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/record/session"
)

// commandLine returns the process's command line, for the session's name and for list.
func commandLine(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(b) == 0 {
		return []string{fmt.Sprintf("pid %d", pid)}
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

// agentFolder returns the path under which the process finds the agent's files; "" if it can't: then the injected
// source contains them.
func agentFolder(pid int) string {
	dir, _, err := installAgent()
	if err != nil || !sees(pid, dir) {
		return ""
	}
	return dir
}

// sees reports whether a process can use a directory of ours by its path: it finds the same directory there, and has
// our user and our PID namespace.
func sees(pid int, dir string) bool {
	ours, err1 := os.Readlink("/proc/self/ns/pid")
	theirs, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err1 != nil || err2 != nil || ours != theirs {
		return false
	}
	here, err1 := os.Stat(dir)
	there, err2 := os.Stat(fmt.Sprintf("/proc/%d/root%s", pid, dir))
	if err1 != nil || err2 != nil || !os.SameFile(here, there) {
		return false
	}
	return effectiveUID(pid) == os.Geteuid()
}

// effectiveUID returns the process's effective uid; -1 if it can't be read.
func effectiveUID(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return -1
	}
	_, rest, _ := strings.Cut(string(b), "\nUid:")
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return -1
	}
	uid, err := strconv.Atoi(fields[1]) // real, effective, saved, file system (proc(5))
	if err != nil {
		return -1
	}
	return uid
}

// makeRing makes a ring for the process. It is a file like any other ring, so that the records outlive the process and
// us. A process of another user could fill our disk through a file, so it gets memory of a fixed size, and the file
// holds a reference to it.
func makeRing(rings string, p session.Pid) (ring *os.File, err error) {
	path := filepath.Join(rings, fmt.Sprintf("%d.%d.1%s", p.PID, p.Start, wire.RingSuffix))
	f, err := rootdir.CreateFile(path)
	if err != nil {
		return nil, err
	}
	if effectiveUID(p.PID) == os.Geteuid() {
		return f, nil
	}
	defer f.Close()
	ring, reference, err := wire.SealedRing()
	if err != nil {
		return nil, remedy.Add(err, "attach with the rights of the process's own user: sudo -u")
	}
	if _, err := f.Write(reference); err != nil {
		return nil, errors.Join(err, ring.Close())
	}
	return ring, nil
}
