// Package session owns session directories: where they lie, who may use them, which processes belong to them and how
// they ended. It creates, finds, locks and describes them. The contents of the database belong to package store.
package session

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/base/secret"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/wire"
)

// Meta is the content of session.json. `memgauge run` writes it when it starts the command, `memgauge attach` when it
// has got in.
type Meta struct {
	Version    int           `json:"version"` // of this file's format
	ID         string        `json:"id"`
	Name       string        `json:"name"`
	Command    []string      `json:"command"`
	Cwd        string        `json:"cwd"`
	Host       string        `json:"host"`
	BootID     string        `json:"boot_id"`
	PIDs       string        `json:"pid_namespace,omitempty"` // the namespace to which the PIDs belong
	UID        int           `json:"uid"`
	Started    time.Time     `json:"started"`
	Memgauge   string        `json:"memgauge"`           // version of the program
	Runtime    string        `json:"runtime,omitempty"`  // where rings and sockets lie, if not in the session directory
	Dir        DirID         `json:"dir"`                // distinguishes the directory from a copy of it
	Supervisor Pid           `json:"supervisor"`         // memgauge run, or attach
	Process    Pid           `json:"process"`            // the command; zero until it runs
	Attached   bool          `json:"attached,omitempty"` // Process ran already, and was not started for the session
	Doors      []DoorAddress `json:"doors,omitempty"`
	MaxDisk    int64         `json:"max_disk"` // bytes

	Interval time.Duration `json:"interval,omitempty"` // of the samplers, ns; 0 is the default
	Budget   float64       `json:"budget,omitempty"`   // share of the training's time for observing; 0: not known
}

// DirID is a directory's identity on its machine.
type DirID struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// Pid identifies a process for good: PIDs are reused, but not together with the same start time.
type Pid struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot
}

// Door is a way to reach the agent in a process that does not see the runtime directory (docs/attach.md).
type DoorAddress struct {
	Pid
	FD int `json:"fd"` // its descriptor there
}

// End is the content of end.json.
type End struct {
	Ended  time.Time `json:"ended"`
	State  string    `json:"state"`            // exited, killed, lost; of an attached session ended, vanished, detached
	Code   int       `json:"code"`             // with exited
	Signal string    `json:"signal,omitempty"` // with killed, such as SIGKILL
	PIDs   []int     `json:"pids,omitempty"`   // processes that had a ring
	Ranks  []int     `json:"ranks,omitempty"`
	Peak   int64     `json:"peak,omitempty"` // bytes, largest resident set of one process of the job
	Rows   int64     `json:"rows,omitempty"` // in the database

	Verdict string `json:"verdict,omitempty"` // leak, healthy or undecided; "" if nothing was judged

	// OOM is the reason, if the job, or a process of it, ended because memory ran out.
	OOM Cause `json:"oom,omitempty"`

	Refused []string `json:"refused,omitempty"` // ring files that can't be read, and need no further work

	Recorded bool `json:"recorded"` // the end is in the database too, and PIDs and Rows are filled in
}

// Cause says by what memory ran out, as a code; "" if it did not.
type Cause string

// Values of End.OOM.
const (
	OOMKill  Cause = model.OOMKill  // by the kernel
	OOMError Cause = model.OOMError // raised by an allocator
)

// causes are the words of each; older sessions have them in end.json.
var causes = map[Cause]string{OOMKill: "an OOM kill", OOMError: "an out-of-memory error"}

// UnmarshalText reads a code, or the words of an earlier version.
func (c *Cause) UnmarshalText(text []byte) error {
	*c = Cause(text)
	for code, words := range causes {
		if string(text) == words {
			*c = code
		}
	}
	return nil
}

// String says how it ended in a few words.
func (e End) String() string {
	switch {
	case e.OOM == OOMKill && e.State == "killed" && e.Signal == "SIGKILL":
		return "OOM kill"
	case e.OOM != "" && e.State == "exited" && e.Code != 0:
		return fmt.Sprintf("exit %d after %s", e.Code, cmp.Or(causes[e.OOM], string(e.OOM)))
	}
	switch e.State {
	case "exited":
		return fmt.Sprintf("exit %d", e.Code)
	case "killed":
		return "killed by " + e.Signal
	case "ended", "vanished", "detached": // attach is not told an exit code
		return e.State
	}
	return "lost (killed together with memgauge run)"
}

// Session is an existing session directory.
type Session struct {
	Dir  string // absolute
	Meta Meta
}

const (
	metaFile = "session.json"
	endFile  = "end.json"
	lockFile = "owner.lock"
	keepFile = "keeper.lock"
	dbFile   = "session.duckdb"
	logFile  = "collector.log"
	metaVer  = 1
	socket   = "api.sock"
	ringsDir = "rings"
	// samples of native memory, where they were asked for
	nativeDir = "native"
	ctlDir    = "ctl"
	// a command line has at most 128 KiB for each argument and 2 MiB in all; longer ones are cut when written
	maxMeta   = 1 << 20
	dirPerm   = 0o700
	filePerm  = 0o600
	maxArgLen = 4096 // bytes of one argument kept in session.json
)

// Open reads the session in dir.
func Open(dir string) (*Session, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open session %s: %w", dir, err)
	}
	if err := checkFiles(abs); err != nil {
		return nil, fmt.Errorf("open session %s: %w", abs, err)
	}
	s := &Session{Dir: abs}
	if err := readJSON(filepath.Join(abs, metaFile), &s.Meta); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, remedy.Add(fmt.Errorf("open session %s: %w", abs, ErrNone),
				"memgauge list -a shows the sessions that there are")
		}
		return nil, fmt.Errorf("open session: %w", err)
	}
	// it becomes part of file names and of what is printed as commands
	if s.Meta.Name == "" || CheckName(s.Meta.Name) != nil {
		base := nameChars().ReplaceAllString(filepath.Base(abs), "-")
		s.Meta.Name = "session-" + base[:min(len(base), maxName-len("session-"))]
	}
	if s.Meta.Runtime != "" && !s.ownsRuntime() {
		s.Meta.Runtime = ""
	}
	s.Meta.Command = secret.Args(s.Meta.Command) // earlier versions wrote it with its secrets
	if s.Meta.Version > metaVer {
		return nil, fmt.Errorf("open session %s: its session.json has version %d; this memgauge reads up to %d", abs,
			s.Meta.Version, metaVer)
	}
	return s, nil
}

// ErrNone means that a directory holds no session, or that none fits.
var ErrNone = errors.New("no such session")

// Path is a file of the session's directory.
func (s *Session) path(name string) string { return filepath.Join(s.Dir, name) }

// Database is the path of the DuckDB file.
func (s *Session) Database() string { return s.path(dbFile) }

// Log is the path of the collector's log.
func (s *Session) Log() string { return s.path(logFile) }

// Runtime is the directory of rings and sockets.
func (s *Session) Runtime() string {
	if s.Meta.Runtime != "" {
		return s.Meta.Runtime
	}
	return s.Dir
}

// Rings is the directory of the ring files.
func (s *Session) Rings() string { return filepath.Join(s.Runtime(), ringsDir) }

// Native is the directory of the samples of native memory; it is there only if they were asked for.
func (s *Session) Native() string { return filepath.Join(s.Runtime(), nativeDir) }

// MakeNative makes that directory.
func (s *Session) MakeNative() error {
	if err := mkdir(s.Native()); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil // it was asked for before
}

// Socket is the path of the collector's socket.
func (s *Session) Socket() string { return filepath.Join(s.Runtime(), socket) }

// SetProcess records the command's process.
func (s *Session) SetProcess(p Pid) error {
	s.Meta.Process = p
	return s.write()
}

// AddDoor records how to reach a process.
func (s *Session) AddDoor(d DoorAddress) error {
	s.Meta.Doors = append(s.Meta.Doors, d)
	return s.write()
}

func (s *Session) write() error { return writeJSON(s.path(metaFile), &s.Meta) }

// End reads how the session ended; ok is false while that is not recorded.
func (s *Session) End() (e End, ok bool, err error) {
	err = readJSON(s.path(endFile), &e)
	if errors.Is(err, fs.ErrNotExist) {
		return End{}, false, nil
	}
	return e, err == nil, err
}

// MayReplace refuses names of files that belong to a session. A command writes its result to the path that the user
// gives, and replaces the file there; but a trainer writes to a ring.
func MayReplace(path string) error {
	name := filepath.Base(path)
	if strings.HasSuffix(name, wire.RingSuffix) {
		return errors.New("the name is a ring's: a trainer may have it mapped")
	}
	if _, own := made[name]; own && isSession(filepath.Dir(path)) {
		return errors.New("it belongs to a session")
	}
	return nil
}

// Touched is when something of the session was stored last: when a file changed that the lock's owner writes.
func (s *Session) Touched() (last time.Time) {
	for _, path := range []string{s.Database(), s.Database() + ".wal", s.Rings(), s.path(endFile), s.Dir} {
		if st, err := os.Stat(path); err == nil && st.ModTime().After(last) {
			last = st.ModTime()
		}
	}
	return last
}

// maxEndPIDs bounds the processes that end.json names, so that it stays below maxMeta: each takes at most 13 bytes with
// the indent. A job of days whose workers are made anew each epoch has more; the database has all.
const maxEndPIDs = 50_000

// SetEnd records how the session ended.
func (s *Session) SetEnd(e End) error {
	e.PIDs = e.PIDs[:min(len(e.PIDs), maxEndPIDs)]
	return writeJSON(s.path(endFile), &e)
}

func readJSON(path string, v any) error {
	b, err := rootdir.ReadFile(path, maxMeta)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("read %s: %w%s", path, err, where(err))
	}
	return nil
}

// where says at which byte of a file JSON is wrong.
func where(err error) string {
	var form *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &form):
		return fmt.Sprintf(", at byte %d", form.Offset)
	case errors.As(err, &kind):
		return fmt.Sprintf(", at byte %d", kind.Offset)
	}
	return ""
}

// writeJSON replaces the file in one step, so that a reader never sees half of it.
func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return rootdir.ReplaceText(path, append(b, '\n'))
}
