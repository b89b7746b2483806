package session

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/secret"
	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/probe/proc"
)

// Process is a process of the job that has a ring.
type Process struct {
	Pid
	Rank   int // -1 unknown
	Alive  bool
	Torch  bool   // it has, or had, a large ring
	Socket string // its agent's control socket
	Argv   string
}

// doorPrefix begins a Socket that is no path: the PID, start and descriptor of a door follow.
const doorPrefix = "door:"

type ringFile struct {
	Pid
	Generation int
	Path       string
}

// ringFiles lists the existing rings; their names are enough to identify the processes.
func (s *Session) ringFiles() []ringFile {
	entries, err := os.ReadDir(s.Rings())
	if err != nil {
		return nil
	}
	var list []ringFile
	for _, e := range entries {
		if n, ok := wire.ParseRingName(e.Name()); ok {
			list = append(list, ringFile{Pid: Pid{n.PID, n.Start}, Generation: int(n.Generation),
				Path: filepath.Join(s.Rings(), e.Name())})
		}
	}
	return list
}

// Processes lists the processes that have a ring. First comes the one that `eval` takes by default: trainers before
// others, low ranks before high ones, old before young.
func (s *Session) Processes() []Process {
	byPid := map[Pid]*Process{}
	for _, r := range s.ringFiles() {
		p := byPid[r.Pid]
		if p == nil {
			sock := fmt.Sprintf("%d.%d.sock", r.PID, r.Start)
			p = &Process{Pid: r.Pid, Rank: -1, Alive: s.alive(r.Pid), Socket: filepath.Join(s.Runtime(), ctlDir, sock)}
			byPid[r.Pid] = p
		}
		p.describe(r)
	}
	var list []Process
	for _, p := range byPid {
		for _, d := range s.Meta.Doors {
			if d.Pid == p.Pid {
				p.Socket = doorPrefix + fmt.Sprintf("%d:%d:%d", d.PID, d.Start, d.FD)
			}
		}
		list = append(list, *p)
	}
	order.By(list, func(a, b Process) int {
		return cmp.Or(-compareBool(a.Torch, b.Torch), cmp.Compare(a.order(), b.order()), cmp.Compare(a.Start, b.Start),
			cmp.Compare(a.PID, b.PID))
	})
	return list
}

// Askable lists the live processes that have a ring. If there is none (yet), it is the command itself, which has no
// agent to answer, but which the kernel knows.
func (s *Session) Askable() []Process {
	live := slices.DeleteFunc(s.Processes(), func(p Process) bool { return !p.Alive })
	if p := s.Meta.Process; len(live) == 0 && s.alive(p) {
		live = []Process{{Pid: p, Rank: -1, Alive: true}}
	}
	return live
}

// order puts unknown ranks beside rank 0: a trainer with one process has no rank.
func (p Process) order() int { return max(p.Rank, 0) }

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func (p *Process) describe(r ringFile) {
	p.Torch = p.Torch || r.Generation > 0
	f, err := wire.OpenRingFile(r.Path)
	if err != nil {
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return
	}
	h, err := wire.ReadHeader(f, st.Size())
	if err != nil {
		return
	}
	p.Rank = max(p.Rank, int(h.Rank))
	p.Argv = secret.Text(h.Info["argv"])
}

// InPlace reports whether the directory is the one that was made for the session, and no copy.
func (s *Session) InPlace() bool {
	var st syscall.Stat_t
	err := syscall.Stat(s.Dir, &st)
	return err == nil && DirID{uint64(st.Dev), st.Ino} == s.Meta.Dir
}

// Copied reports whether the directory is a copy, or the machine was restarted: then nothing of the session can be
// alive.
func (s *Session) Copied() bool {
	if !s.InPlace() {
		return true
	}
	boot, err := proc.New("/proc").BootID()
	return err != nil || boot != s.Meta.BootID
}

// Elsewhere reports that the session belongs to this machine, but to another PID namespace. Then we can't tell whether
// its processes are alive, and must leave their rings alone.
func (s *Session) Elsewhere() bool {
	here := pidNamespace()
	return !s.Copied() && s.Meta.PIDs != "" && here != "" && s.Meta.PIDs != here
}

func (s *Session) alive(p Pid) bool {
	return !s.Copied() && p.PID > 0 && proc.New("/proc").Alive(p.PID, p.Start)
}

// Live reports whether the job continues: its command or a process with a ring exists, or memgauge run has not yet
// recorded how the command ended.
func (s *Session) Live() bool {
	if s.Copied() {
		return false
	}
	if s.Meta.Attached {
		return s.liveAttached()
	}
	if s.alive(s.Meta.Process) || slices.ContainsFunc(s.ringFiles(), func(r ringFile) bool { return s.alive(r.Pid) }) {
		return true
	}
	_, ended, _ := s.End()
	return !ended && s.alive(s.Meta.Supervisor)
}

// liveAttached: the process continues after a detach, so its existence alone says nothing. Until the agent is in, the
// attaching process keeps the session alive.
func (s *Session) liveAttached() bool {
	if slices.ContainsFunc(s.ringFiles(), func(r ringFile) bool { return s.alive(r.Pid) && !r.detached() }) {
		return true
	}
	_, ended, _ := s.End()
	return !ended && s.alive(s.Meta.Supervisor)
}

func (r ringFile) detached() bool {
	f, err := wire.OpenRingFile(r.Path)
	if err != nil {
		return true // stored and removed meanwhile
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return false
	}
	h, err := wire.ReadHeader(f, st.Size())
	return err == nil && h.State == wire.StateDetached
}

// Observed finds the live session in which an agent is in this process.
func Observed(pid int) (*Session, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if s.Live() && s.observes(pid) {
			return s, nil
		}
	}
	return nil, ErrNone
}

// observes reports whether an agent writes the process's newest ring. An older ring remains until its last records are
// stored, and says nothing about the agent.
func (s *Session) observes(pid int) bool {
	var newest *ringFile
	for _, r := range s.ringFiles() {
		if r.PID == pid && s.alive(r.Pid) && (newest == nil || r.Generation > newest.Generation) {
			newest = &r
		}
	}
	return newest != nil && !newest.detached()
}

// Alive tells the ingester whether a ring's process may still write.
func (s *Session) Alive(pid int, start uint64) bool { return s.alive(Pid{pid, start}) }

// Unfinished reports whether a session that isn't live still has records in its rings, or has an end that nobody
// recorded.
func (s *Session) Unfinished() bool {
	end, ok, err := s.End()
	if err != nil || !ok || !end.Recorded {
		return true
	}
	if _, err := os.Stat(s.Database()); err != nil {
		return true
	}
	return slices.ContainsFunc(s.ringFiles(), func(r ringFile) bool {
		return !slices.Contains(end.Refused,
			filepath.Base(r.Path))
	})
}
