package session

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/memgauge/memgauge/internal/proc"
	"github.com/memgauge/memgauge/internal/remedy"
	"github.com/memgauge/memgauge/internal/secret"
)

// Options of a new session.
type Options struct {
	Dir     string // "" puts it into the home
	Name    string // "" makes one from the command
	Command []string
	Version string
	MaxDisk int64 // bytes
	Process Pid   // of a session that is attached to a process which runs already; else zero

	Interval time.Duration // of the samplers; 0 is the default
}

// Home is where sessions lie by default: $MEMGAUGE_HOME, else $XDG_STATE_HOME/memgauge, else ~/.local/state/memgauge.
func Home() (string, error) {
	if h := os.Getenv("MEMGAUGE_HOME"); h != "" {
		return filepath.Abs(h)
	}
	if h := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(h) {
		return filepath.Join(h, "memgauge"), nil
	}
	h, err := os.UserHomeDir()
	if err != nil {
		return "", remedy.Add(fmt.Errorf("find the place for sessions: %w", err), "set MEMGAUGE_HOME")
	}
	return filepath.Join(h, ".local", "state", "memgauge"), nil
}

const homeHint = "set MEMGAUGE_HOME to a writable directory, or give --session DIR"

// Create makes a session directory with all that a command needs to run in it.
func Create(o Options) (*Session, error) {
	home, err := Home()
	if err != nil {
		return nil, err
	}
	id := newID()
	name := nameOf(o.Command) + "-" + id
	entry := name // in the sessions' directory
	if o.Name != "" {
		if err := checkName(o.Name); err != nil {
			return nil, err
		}
		name, entry = o.Name, o.Name+"-"+id
	}
	sessions := filepath.Join(home, "sessions")
	dir := o.Dir
	if dir == "" {
		dir = filepath.Join(sessions, entry)
	}
	if dir, err = makeDir(dir); err != nil {
		return nil, fmt.Errorf("create session: %w", remedy.Add(err, homeHint))
	}
	s := &Session{Dir: dir, Meta: meta(o, id, name)}
	if err := s.fill(); err != nil {
		return nil, fmt.Errorf("create session %s: %w", dir, err)
	}
	if o.Dir != "" {
		register(sessions, entry, dir)
	}
	return s, nil
}

// Remove takes back a session of which nothing came: no process was ever observed in it.
func (s *Session) Remove() error {
	if runtime := s.Meta.Runtime; runtime != "" {
		if err := os.RemoveAll(runtime); err != nil {
			return err
		}
	}
	return os.RemoveAll(s.Dir)
}

func meta(o Options, id, name string) Meta {
	host, _ := os.Hostname()
	cwd, _ := os.Getwd()
	boot, _ := proc.New("/proc").BootID()
	start, _ := proc.New("/proc").StartTicks(os.Getpid())
	command := secret.Args(o.Command)
	for i, a := range command {
		command[i] = a[:min(len(a), maxArgLen)]
	}
	return Meta{Version: metaVer, ID: id, Name: name, Command: command, Cwd: cwd, Host: host, BootID: boot, UID: os.Getuid(),
		Started: time.Now().UTC(), Memgauge: o.Version, MaxDisk: o.MaxDisk, Interval: o.Interval, Supervisor: Pid{os.Getpid(), start},
		Process: o.Process, Attached: o.Process != Pid{}}
}

// fill makes the runtime directory and writes session.json.
func (s *Session) fill() error {
	var st syscall.Stat_t
	if err := syscall.Stat(s.Dir, &st); err != nil {
		return err
	}
	s.Meta.Dir = DirID{uint64(st.Dev), st.Ino}
	kind, network, err := networkFS(s.Dir)
	if err != nil {
		return err
	}
	if network {
		if s.Meta.Runtime, err = localRuntime(s.Meta.ID); err != nil {
			return fmt.Errorf("find a local place for the rings, since %s is on %s: %w", s.Dir, kind, err)
		}
	}
	for _, d := range []string{ringsDir, ctlDir} {
		if err := os.Mkdir(filepath.Join(s.Runtime(), d), dirPerm); err != nil {
			return err
		}
	}
	return s.write()
}

// networkFS is proc.NetworkFS; a variable, since a test has no network file system.
var networkFS = proc.NetworkFS

// localRuntime is the fallback when a session lies on a network file system: a mapped ring there would bring the trainer a
// SIGBUS when the server stumbles, and sockets don't work across hosts.
func localRuntime(id string) (string, error) {
	base := filepath.Join(os.TempDir(), "memgauge-"+strconv.Itoa(os.Getuid()))
	if err := os.Mkdir(base, dirPerm); err != nil && !os.IsExist(err) {
		return "", err
	}
	st, err := os.Lstat(base)
	if err != nil {
		return "", err
	}
	if !st.IsDir() || int(st.Sys().(*syscall.Stat_t).Uid) != os.Getuid() || st.Mode().Perm()&0o077 != 0 {
		return "", remedy.Add(fmt.Errorf("%s is not a directory of ours with mode 0700", base), "remove it, or set TMPDIR")
	}
	if kind, network, err := networkFS(base); err != nil || network {
		return "", remedy.Add(fmt.Errorf("%s is on %s too", base, kind), "set TMPDIR to a directory on a local disk")
	}
	dir := filepath.Join(base, id)
	return dir, os.Mkdir(dir, dirPerm)
}

// makeDir makes dir, or takes an empty one that is there, and returns its absolute path.
func makeDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(dir), dirPerm); err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, dirPerm); err == nil {
		return dir, nil
	} else if !os.IsExist(err) {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("%s is not empty", dir)
	}
	if err := checkOwner(dir); err != nil {
		return "", fmt.Errorf("%s %w", dir, err)
	}
	return dir, os.Chmod(dir, dirPerm)
}

// register lets `list` and PIDs find a session that lies elsewhere. Without it the session works by its path, so errors
// don't matter.
func register(sessions, name, dir string) {
	if os.MkdirAll(sessions, dirPerm) == nil {
		_ = os.Symlink(dir, filepath.Join(sessions, name))
	}
}

func newID() string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	return hex.EncodeToString(b[:])
}

var nameChars = regexp.MustCompile(`[^A-Za-z0-9_]+`)

// nameOf makes a name from the first argument that looks like a program of the user's.
func nameOf(command []string) string {
	for i, a := range command {
		base := strings.TrimSuffix(filepath.Base(a), ".py")
		if i > 0 && command[i-1] == "-m" {
			return nameChars.ReplaceAllString(a, "-")
		}
		if strings.HasSuffix(a, ".py") {
			return nameChars.ReplaceAllString(base, "-")
		}
	}
	if len(command) == 0 {
		return "session"
	}
	if n := strings.Trim(nameChars.ReplaceAllString(filepath.Base(command[0]), "-"), "-"); n != "" {
		return n
	}
	return "session"
}

const maxName = 64 // it becomes part of a file name and of a line in `list`

func checkName(n string) error {
	switch {
	case len(n) > maxName:
		return fmt.Errorf("--name %q: longer than %d bytes", n, maxName)
	case n[0] == '-' || n[0] == '.' || strings.ContainsAny(n, "/=: \t\n\x00"):
		return fmt.Errorf("--name %q: may not begin with - or . nor contain / = : or blanks", n)
	}
	if _, err := strconv.Atoi(n); err == nil {
		return fmt.Errorf("--name %q: a number would be taken for a PID", n)
	}
	return nil
}
