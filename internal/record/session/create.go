package session

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/base/secret"
	"github.com/memgauge/memgauge/internal/base/trust"
	"github.com/memgauge/memgauge/internal/probe/proc"
)

// Options of a new session.
type Options struct {
	Dir     string // "": below the home
	Name    string // "" makes one from the command
	Command []string
	Cwd     string // of the command; "" is this process's own
	Version string
	MaxDisk int64 // bytes
	Process Pid   // of the process that a session is attached to; zero for `run`

	Interval time.Duration // of the samplers; 0 is the default
	Budget   float64       // share of the training's time that observing may take; 0 where nobody said
}

// Places are where memgauge may keep things, the preferred one first: $MEMGAUGE_HOME, else $XDG_STATE_HOME/memgauge,
// else ~/.local/state/memgauge. The others are used when the first belongs to another user: a variable may name such a
// place, and `sudo -E` keeps such a variable.
func Places() ([]string, error) {
	var list []string
	add := func(dir string) {
		if !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	if h := os.Getenv("MEMGAUGE_HOME"); h != "" {
		abs, err := filepath.Abs(h)
		if err != nil {
			return nil, fmt.Errorf("find the place for sessions: %w", err)
		}
		add(abs)
	}
	if h := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(h) {
		add(filepath.Join(h, "memgauge"))
	}
	below := filepath.Join(".local", "state", "memgauge")
	h, err := os.UserHomeDir()
	if err == nil && filepath.IsAbs(h) {
		add(filepath.Join(h, below))
	}
	if len(list) == 0 {
		return nil, remedy.Add(fmt.Errorf("find the place for sessions: %w", err), "set MEMGAUGE_HOME")
	}
	if me, err := user.LookupId(strconv.Itoa(os.Geteuid())); err == nil && filepath.IsAbs(me.HomeDir) {
		add(filepath.Join(me.HomeDir, below))
	}
	add(filepath.Join(os.TempDir(), "memgauge-"+strconv.Itoa(os.Geteuid()), "state"))
	return list, nil
}

// Home is where sessions lie by default: the first place that nobody else has prepared or can replace.
func Home() (string, error) {
	home, _, err := chooseHome()
	return home, err
}

// HomeNote is what to tell the user when the place that he named is not used, otherwise "".
func HomeNote() string {
	home, why, err := chooseHome()
	if err != nil || why == nil {
		return ""
	}
	return fmt.Sprintf("%v; sessions are in %s", why, home)
}

// Cache is the directory for files that can be made again at any time. It is created if it does not exist.
func Cache() (string, error) {
	home, err := Home()
	if err != nil {
		return "", err
	}
	dir, err := filepath.Abs(filepath.Join(home, "cache"))
	if err == nil {
		err = trust.Path(dir, trust.Data)
	}
	if err == nil {
		err = mkdirAll(dir)
	}
	if err != nil {
		return "", fmt.Errorf("make the cache: %w", err)
	}
	return dir, nil
}

func chooseHome() (home string, why, err error) {
	places, err := Places()
	if err != nil {
		return "", nil, err
	}
	for i, place := range places {
		err := trust.Path(filepath.Join(place, "sessions"), trust.Data)
		if err == nil && i > 0 && !makeable(place) {
			continue
		}
		if !errors.Is(err, trust.ErrOthers) { // other errors come up again where they matter
			return place, why, nil
		}
		if why == nil {
			why = err
		}
	}
	return "", nil, remedy.Add(fmt.Errorf("find the place for sessions: %w", why),
		"set MEMGAUGE_HOME to a directory of your own")
}

// makeable reports whether we may write in a directory, or in the place where it is to be made.
func makeable(dir string) bool {
	for {
		err := unix.Access(dir, unix.W_OK|unix.X_OK)
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return err == nil
		}
		dir = filepath.Dir(dir)
	}
}

const homeHint = "set MEMGAUGE_HOME to a writable directory, or give --session DIR"

// Create makes a session directory with everything that a command needs to run in it.
func Create(o Options) (*Session, error) {
	home, err := Home()
	if err != nil {
		return nil, err
	}
	id := newID()
	name := nameOf(o.Command) + "-" + id
	entry := name // in the sessions' directory
	if o.Name != "" {
		if err := CheckName(o.Name); err != nil {
			return nil, fmt.Errorf("--name %q: %w", o.Name, err)
		}
		name, entry = o.Name, o.Name+"-"+id
	}
	sessions := filepath.Join(home, "sessions")
	dir := o.Dir
	if dir == "" {
		dir = filepath.Join(sessions, entry)
	}
	if dir, err = makeDir(dir); err != nil {
		hint := homeHint
		if errors.Is(err, trust.ErrOthers) {
			hint = "give --session a directory of your own, in one that others can't write"
		}
		return nil, fmt.Errorf("create session: %w", remedy.Add(err, hint))
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

// Remove removes a session in which no process was ever observed.
func (s *Session) Remove() error {
	if runtime := s.Meta.Runtime; runtime != "" {
		if err := rootdir.RemoveAll(runtime); err != nil {
			return err
		}
	}
	return rootdir.RemoveAll(s.Dir)
}

func meta(o Options, id, name string) Meta {
	host, _ := os.Hostname()
	cwd := o.Cwd
	if cwd == "" {
		cwd, _ = os.Getwd()
	}
	boot, _ := proc.New("/proc").BootID()
	start, _ := proc.New("/proc").StartTicks(os.Getpid())
	command := secret.Args(o.Command)
	for i, a := range command {
		command[i] = a[:min(len(a), maxArgLen)]
	}
	return Meta{Version: metaVer, ID: id, Name: name, Command: command, Cwd: cwd, Host: host, BootID: boot,
		PIDs: pidNamespace(), UID: os.Getuid(), Started: time.Now().UTC(), Memgauge: o.Version, MaxDisk: o.MaxDisk,
		Interval: o.Interval, Budget: o.Budget, Supervisor: Pid{os.Getpid(), start}, Process: o.Process,
		Attached: o.Process != Pid{}}
}

// pidNamespace names this process's PID namespace; "" if it is unknown.
func pidNamespace() string {
	ns, _ := os.Readlink("/proc/self/ns/pid")
	return ns
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
		if err := mkdir(filepath.Join(s.Runtime(), d)); err != nil {
			return err
		}
	}
	return s.write()
}

// networkFS is proc.NetworkFS; a variable, since a test has no network file system.
var networkFS = proc.NetworkFS

// localRuntime is the fallback when a session lies on a network file system. There, a mapped ring would kill the
// trainer with SIGBUS when the server fails, and sockets don't work across hosts. The place is for all users, so that
// somebody else may have prepared the name, or be able to exchange it later: such a one is refused.
func localRuntime(id string) (string, error) {
	base := filepath.Join(os.TempDir(), "memgauge-"+strconv.Itoa(os.Geteuid()))
	if st, err := os.Lstat(base); err == nil && (!st.IsDir() || st.Mode().Perm()&0o077 != 0) {
		return "", remedy.Add(fmt.Errorf("%s is not a directory with mode 0700", base), "remove it, or set TMPDIR")
	}
	d, err := rootdir.Own(base, trust.Data)
	if err != nil {
		return "", err
	}
	defer d.Close()
	if err := d.Private(); err != nil {
		return "", err
	}
	if kind, network, err := networkFS(base); err != nil || network {
		return "", remedy.Add(fmt.Errorf("%s is on %s too", base, kind), "set TMPDIR to a directory on a local disk")
	}
	return filepath.Join(base, id), d.Mkdir(id)
}

// makeDir makes dir, or takes an existing empty one of the user's own, and returns its absolute path. A directory that
// another user can replace is refused: what we write through it later would go wherever that user wants.
func makeDir(dir string) (string, error) { return makeDirWith(dir, takeDir) }

func makeDirWith(dir string, take func(dir string) error) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := trust.Path(dir, trust.Data); err != nil {
		return "", err
	}
	if err := take(dir); err != nil {
		return "", err
	}
	return dir, trust.Path(dir, trust.Data) // somebody may have made a directory on the path meanwhile
}

// takeDir makes a directory, or takes one that is empty.
func takeDir(dir string) error {
	if err := mkdirAll(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := mkdir(dir); err == nil || !os.IsExist(err) {
		return err
	}
	d, err := rootdir.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	entries, err := d.List()
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty", dir)
	}
	return d.Private()
}

// mkdir makes a directory with our mode, whatever the umask removes.
func mkdir(dir string) error { return rootdir.In(dir, (*rootdir.Dir).Mkdir) }

// PrivateFiles sets a umask with which everything that is made, DuckDB's files included, is usable by the user and by
// nobody else. It applies to the whole process, so a process that makes files for others or starts their programs must
// not use it; restore sets the old one again.
func PrivateFiles() (restore func()) {
	old := syscall.Umask(0o077)
	return func() { syscall.Umask(old) }
}

// mkdirAll makes the missing directories of a path.
func mkdirAll(dir string) error {
	d, err := rootdir.Make(dir)
	if err != nil {
		return err
	}
	return d.Close()
}

// register makes `list` and PIDs find a session that lies elsewhere. Without it the session works by its path, so
// errors don't matter.
func register(sessions, name, dir string) {
	if mkdirAll(sessions) == nil {
		_ = rootdir.In(filepath.Join(sessions, name), func(d *rootdir.Dir, name string) error {
			return d.Link(dir, name)
		})
	}
}

// newID makes an id that can't be mistaken for a PID: one in seventeen would consist of digits alone.
func newID() string {
	for {
		var b [3]byte
		_, _ = rand.Read(b[:]) // never fails, see crypto/rand
		if id := hex.EncodeToString(b[:]); !isNumber(id) {
			return id
		}
	}
}

var nameChars = pattern.Of(`[^A-Za-z0-9_]+`)

// nameOf makes a name from the first argument that looks like a program of the user's.
func nameOf(command []string) string {
	for i, a := range command {
		base := strings.TrimSuffix(filepath.Base(a), ".py")
		if i > 0 && command[i-1] == "-m" {
			return nameChars().ReplaceAllString(a, "-")
		}
		if strings.HasSuffix(a, ".py") {
			return nameChars().ReplaceAllString(base, "-")
		}
	}
	if len(command) == 0 {
		return "session"
	}
	if n := strings.Trim(nameChars().ReplaceAllString(filepath.Base(command[0]), "-"), "-"); n != "" {
		return n
	}
	return "session"
}

const maxName = 64 // it becomes part of a file name and of a line in `list`

func isNumber(s string) bool { _, err := strconv.ParseUint(s, 10, 31); return err == nil }

// CheckName says why a session may not have a name.
func CheckName(n string) error {
	switch {
	case n == "":
		return nil
	case len(n) > maxName:
		return fmt.Errorf("longer than %d bytes", maxName)
	case n[0] == '-' || n[0] == '.' || strings.ContainsAny(n, "/=: \t\n\x00"):
		return errors.New("may not begin with - or . nor contain / = : or blanks")
	}
	if _, err := strconv.Atoi(n); err == nil {
		return errors.New("a number would be taken for a PID")
	}
	return nil
}
