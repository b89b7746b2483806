package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/probe/proc"
)

// All lists the sessions in the home and those registered there, newest first. Entries that can't be read are left out;
// registrations whose directory is gone are removed.
func All() ([]*Session, error) {
	all, _, err := Scan()
	return all, err
}

// Scan is All, and also returns why each entry that looks like a session could not be read.
func Scan() (all []*Session, left []error, err error) {
	home, err := Home()
	if err != nil {
		return nil, nil, err
	}
	dir := filepath.Join(home, "sessions")
	if err := checkOwner(dir); errors.Is(err, errForeign) { // root with the home of the user who became root
		return nil, nil, fmt.Errorf("list sessions in %s: %w", dir, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		if os.IsNotExist(err) {
			return nil, nil, nil
		}
		return nil, nil, fmt.Errorf("list sessions: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.Type()&os.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			if err != nil {
				continue
			}
			if _, err := os.Stat(target); os.IsNotExist(err) {
				_ = rootdir.Remove(path) // the link
				continue
			}
			path = target
		}
		s, err := Open(path)
		switch {
		case err == nil:
			all = append(all, s)
		case !errors.Is(err, ErrNone): // one that is being made, or was just removed
			left = append(left, err)
		}
	}
	order.By(all, func(a, b *Session) int { return b.Meta.Started.Compare(a.Meta.Started) })
	return all, left, nil
}

// Wanted says which session is meant: by one of the first three, or by none.
type Wanted struct {
	PID  int    // of a process of it
	Name string // its name or id, or a directory without a slash
	Dir  string // its directory
	Rank *int   // of the process that is meant; nil: none in particular
}

// Target is a session and, where one was named, a process of it.
type Target struct {
	*Session
	PID  int    // 0 if none was named
	Rank int    // -1 if none was named
	Note string // one line for the user if memgauge made the choice
}

// Resolve finds the session that is meant; where none was named, it is the only live one, else the newest finished one.
func Resolve(w Wanted) (Target, error) {
	t := Target{Rank: -1}
	if w.Rank != nil {
		t.Rank = *w.Rank
	}
	var err error
	switch {
	case w.Dir != "":
		t.Session, err = Open(w.Dir)
	case w.PID != 0:
		t.Session, err = byPID(w.PID)
		if t.Session != nil && t.Session.hasRing(w.PID) {
			t.PID = w.PID
		}
	case w.Name != "" && isSession(w.Name):
		t.Session, err = Open(w.Name)
	case w.Name != "":
		t.Session, err = byName(w.Name)
	default:
		t.Session, t.Note, err = unnamed()
	}
	return t, err
}

func isSession(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, metaFile))
	return err == nil
}

// ErrAmbiguous means that the user must name the session.
var ErrAmbiguous = errors.New("more than one session fits")

// AllLive lists the live sessions, newest first.
func AllLive() ([]*Session, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	return alive(all), nil
}

func alive(all []*Session) (live []*Session) {
	for _, s := range all {
		if s.Live() {
			live = append(live, s)
		}
	}
	return live
}

func unnamed() (*Session, string, error) {
	all, err := All()
	if err != nil {
		return nil, "", err
	}
	live := alive(all)
	switch {
	case len(live) == 1:
		return live[0], "", nil
	case len(live) > 1:
		return nil, "", remedy.Add(fmt.Errorf("%w: %s", ErrAmbiguous, names(live)),
			"say which: memgauge "+live[0].Meta.Name+" COMMAND …")
	case len(all) == 0:
		return nil, "", remedy.Add(fmt.Errorf("%w%s", ErrNone, elsewhere()),
			"memgauge run -- python train.py starts one")
	}
	return all[0], fmt.Sprintf("no live session; the newest finished one is %s (%s)", all[0].Meta.Name, all[0].Dir), nil
}

// elsewhere says why the place that the user named was not searched, behind what was not found; "" if it was.
func elsewhere() string {
	if note := HomeNote(); note != "" {
		return "; " + note
	}
	return ""
}

func names(list []*Session) string {
	var out []string
	for _, s := range list {
		out = append(out, fmt.Sprintf("%s (pid %d)", s.Meta.Name, s.Meta.Process.PID))
	}
	return strings.Join(out, ", ")
}

// byName prefers an exact name or id to a prefix, and a live session to a finished one.
func byName(name string) (*Session, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	fits := []func(*Session) bool{
		func(s *Session) bool { return (s.Meta.Name == name || s.Meta.ID == name) && s.Live() },
		func(s *Session) bool { return s.Meta.Name == name || s.Meta.ID == name },
		func(s *Session) bool {
			return strings.HasPrefix(s.Meta.Name, name) || strings.HasPrefix(s.Meta.ID, name)
		},
	}
	for i, fit := range fits {
		var found []*Session
		for _, s := range all {
			if fit(s) {
				found = append(found, s)
			}
		}
		// of several finished ones of that very name the newest is meant
		if len(found) == 1 || len(found) > 1 && i == 1 {
			return found[0], nil
		}
		if len(found) > 1 {
			return nil, fmt.Errorf("endpoint %q: %w: %s", name, ErrAmbiguous, names(found))
		}
	}
	return nil, remedy.Add(fmt.Errorf("endpoint %q: %w%s", name, ErrNone, elsewhere()),
		"memgauge list -a shows the sessions that there are")
}

// byPID finds the session of a process: one in which it has a ring, is the command or memgauge run, or is any
// descendant of the command. Otherwise it is the newest finished session that had such a process, or the session with
// that id (before newID avoided ids made of digits).
func byPID(pid int) (*Session, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	chain := proc.New("/proc").Ancestors(pid)
	for _, s := range all {
		if s.Live() && s.has(pid, chain) {
			return s, nil
		}
	}
	for _, s := range all {
		end, _, _ := s.End()
		if s.Meta.Process.PID == pid || slices.Contains(end.PIDs, pid) {
			return s, nil
		}
	}
	if i := slices.IndexFunc(all, func(s *Session) bool { return s.Meta.ID == strconv.Itoa(pid) }); i >= 0 {
		return all[i], nil
	}
	return nil, remedy.Add(fmt.Errorf("endpoint %d: %w: none has this process%s", pid, ErrNone,
		elsewhere()),
		"memgauge list shows live sessions and their processes")
}

func (s *Session) has(pid int, chain []int) bool {
	if pid == s.Meta.Process.PID || pid == s.Meta.Supervisor.PID || s.hasRing(pid) {
		return true
	}
	return slices.Contains(chain, s.Meta.Process.PID)
}

func (s *Session) hasRing(pid int) bool {
	return slices.ContainsFunc(s.ringFiles(), func(r ringFile) bool { return r.PID == pid })
}
