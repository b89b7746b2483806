package service

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/probe/proc"
	"github.com/memgauge/memgauge/internal/record/session"
)

// Job answers requests that need no database: from the session's directory, the agents in its live processes, and the
// kernel.
type Job struct {
	S *session.Session
}

// AboutOf describes a session from its session.json.
func AboutOf(s *session.Session) api.About {
	m := &s.Meta
	about := api.About{Version: api.Version, ID: m.ID, Name: m.Name, Dir: s.Dir, Command: m.Command, Cwd: m.Cwd,
		Host: m.Host, Started: m.Started, Memgauge: m.Memgauge, Attached: m.Attached, PID: m.Process.PID,
		Live: s.Live(), Budget: m.Budget}
	if kept, ok := s.Snapshot(); ok {
		about.Snapshot = &api.Kept{Path: kept.Path, PID: kept.PID, Taken: kept.Taken}
	}
	return about
}

// About describes the session.
func (j Job) About(context.Context) (api.About, error) { return AboutOf(j.S), nil }

// SnapshotFile is the snapshot in the session's directory.
func (j Job) SnapshotFile(context.Context) (string, error) {
	kept, ok := j.S.Snapshot()
	if !ok {
		return "", AboutOf(j.S).NoSnapshot()
	}
	return kept.Path, nil
}

// SourceFile is a file of the program, if that ran on a host of this name: on another one, or in a container, another
// file may have its path. A copied session may come from anywhere, and name any file of this machine.
func (j Job) SourceFile(_ context.Context, name string) (string, error) {
	if host, _ := os.Hostname(); host != j.S.Meta.Host {
		return "", AboutOf(j.S).SourceElsewhere()
	}
	if !j.S.InPlace() {
		return "", AboutOf(j.S).SourceOfCopy()
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(j.S.Meta.Cwd, name)
	}
	return name, nil
}

// End returns how the session ended.
func (j Job) End(context.Context) (api.End, error) { return EndOf(j.S) }

// EndOf returns how a session ended, as far as that is recorded.
func EndOf(s *session.Session) (api.End, error) {
	if s.Live() {
		return api.End{Live: true}, nil
	}
	end, known, err := s.End()
	if err != nil || !known {
		return api.End{}, err
	}
	return api.End{Known: true, Text: end.String(), Ended: end.Ended, OOM: string(end.OOM), Peak: end.Peak,
		Final: end.Recorded}, nil
}

// frameworks are parts of the names of libraries whose import alone takes seconds and some hundred MiB.
var frameworks = []string{"/libtorch", "/libtensorflow", "/xla_extension", "/libjax", "/libpaddle", "/libmxnet"}

// Processes lists the job's processes that have a ring. If none of them lives (yet), the command itself is added, about
// which only the kernel has data.
func (j Job) Processes(_ context.Context, q api.ProcessesRequest) ([]api.Process, error) {
	processes := j.S.Processes()
	if live := j.S.Askable(); len(live) == 1 && live[0].Socket == "" {
		processes = append(processes, live[0])
	}
	list := make([]api.Process, 0, len(processes))
	fs := proc.New("/proc")
	for _, p := range processes {
		told := processOf(p)
		told.Framework = q.Frameworks && p.Alive && fs.HasMapped(p.PID, frameworks)
		list = append(list, told)
	}
	return list, nil
}

func processOf(p session.Process) api.Process {
	return api.Process{PID: p.PID, Start: p.Start, Rank: p.Rank, Alive: p.Alive, Torch: p.Torch, Agent: p.Socket != "",
		Argv: p.Argv}
}

// choose selects the live processes of a request. With kernel, processes whose agent doesn't answer are selected too.
func (j Job) choose(c api.Choice, kernel bool) ([]session.Process, error) {
	live := j.S.Askable()
	list := make([]api.Process, len(live))
	for i, p := range live {
		list[i] = processOf(p)
	}
	picked, err := api.Choose(list, c, kernel)
	if err != nil {
		return nil, err
	}
	chosen := make([]session.Process, 0, len(picked))
	for _, p := range live {
		if slices.ContainsFunc(picked, func(c api.Process) bool { return c.PID == p.PID && c.Start == p.Start }) {
			chosen = append(chosen, p)
		}
	}
	return chosen, nil
}
