// Package follow owns what a monitor.Watch reads: this machine; a session's tables; or, for a live session that is
// watched on, the tables for the past and the machine for the present. It queries a session only through api.Session.
package follow

import (
	"context"
	"slices"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/monitor/machine"
	"github.com/memgauge/memgauge/internal/door/monitor/recorded"
)

// Source is a monitor.Source.
type Source struct {
	monitor.Source
	Session api.Session // nil for the machine
	Once    bool        // the first reading has everything
	End     string      // how the session ended, as FindEnd saw it; "" while it lives

	about   api.About
	tables  *recorded.Session
	machine *machine.Machine
	events  []monitor.Event

	torch              bool      // a process has it
	alive              []int     // processes
	lookedAt, listedAt time.Time // for torch, for processes
	killed             bool      // because memory ran out
}

// Machine watches this machine.
func Machine(o machine.Options) (*Source, error) {
	m, err := machine.New(o)
	if err != nil {
		return nil, err
	}
	return &Source{Source: m, machine: m}, nil
}

// Session watches a session, which the source closes. timed says that it is watched for a time, and not only queried
// once.
func Session(ctx context.Context, s api.Session, timed bool) (*Source, error) {
	src, err := session(ctx, s, timed)
	if err != nil {
		s.Close()
	}
	return src, err
}

func session(ctx context.Context, s api.Session, timed bool) (*Source, error) {
	about, err := s.About(ctx)
	if err != nil {
		return nil, err
	}
	tables := recorded.New(s)
	tables.Live = about.Live
	src := &Source{Source: tables, Session: s, Once: true, about: about, tables: tables}
	if src.events, err = tables.Events(ctx); err != nil {
		return nil, err
	}
	if src.FindEnd(ctx); src.End != "" {
		return src, nil
	}
	tables.Allocators = src.allocators
	src.Once = !timed
	m, err := machine.New(machine.Options{PID: about.PID, PIDs: src.pids})
	switch {
	// the command may have ended while one of its processes continues: the tables are enough then
	case err != nil && !timed:
		return src, nil
	case err != nil:
		return nil, err
	}
	src.machine = m
	src.Source = &follower{Session: tables, machine: m, live: src.Live}
	return src, nil
}

// Name of the session, "" for the machine.
func (s *Source) Name() string { return s.about.Name }

// FromTables reports that the source reads tables, and not only the machine.
func (s *Source) FromTables() bool { return s.tables != nil }

// Live reports whether the session continues. If that can't be found out, it counts as live.
func (s *Source) Live() bool {
	end, err := s.Session.End(context.Background())
	return err != nil || end.Live
}

// Job is what is known about the job that is watched.
func (s *Source) Job() monitor.Job {
	if s.Session == nil {
		return monitor.Job{}
	}
	return monitor.Job{Known: true, FromStart: !s.about.Attached, Over: s.End != "", Torch: s.hasTorch}
}

// hasTorch reports whether a process of the session has a framework such as PyTorch, or is loading it. It is called at
// every tick, and checks once a second until it has found one.
func (s *Source) hasTorch() bool {
	if s.torch || time.Since(s.lookedAt) < tablesEvery {
		return s.torch
	}
	s.lookedAt = time.Now()
	list, _ := s.Session.Processes(context.Background(), api.ProcessesRequest{Frameworks: true})
	s.torch = slices.ContainsFunc(list, func(p api.Process) bool { return p.Framework })
	return s.torch
}

// pids are the session's processes, looked up once a second.
func (s *Source) pids() []int {
	if time.Since(s.listedAt) < tablesEvery {
		return s.alive
	}
	s.listedAt, s.alive = time.Now(), s.alive[:0]
	list, _ := s.Session.Processes(context.Background(), api.ProcessesRequest{})
	for _, p := range list {
		if p.Alive {
			s.alive = append(s.alive, p.PID)
		}
	}
	return s.alive
}

// allocators queries the live processes for the blocks of a device.
func (s *Source) allocators(ctx context.Context, device string) (list []monitor.Allocator, why string, err error) {
	r, err := s.Session.Blocks(ctx, api.BlocksRequest{Device: device})
	for _, a := range r.Allocators {
		list = append(list, monitor.Allocator(a))
	}
	return list, r.Why, err
}

// FindEnd finds out how the session has ended, and reports whether that is news.
func (s *Source) FindEnd(ctx context.Context) bool {
	if s.Session == nil || s.End != "" {
		return false
	}
	end, err := s.Session.End(ctx)
	if err == nil && end.Live {
		return false
	}
	s.End = "unseen"
	if end.Known {
		s.killed = end.KilledForMemory()
		if s.End = end.Text; end.OOM != "" {
			s.End += "; `memgauge report` shows the minute before"
		}
	}
	return true
}

// Killed reports that the session was killed because memory ran out, as FindEnd found.
func (s *Source) Killed() bool { return s.killed }

// Close closes the session or the machine.
func (s *Source) Close() {
	if s.Session != nil {
		s.Session.Close()
	}
	if s.machine != nil {
		s.machine.Close()
	}
}

// AddEvents adds to a watch what has happened since it began.
func (s *Source) AddEvents(w *monitor.Watch) {
	for _, e := range s.events {
		if !e.Time.Before(w.Started) {
			w.Note(e)
		}
	}
}

// follower reads a live session: first its tables; then the host directly at the tool's own interval, and the devices'
// tables for what is new.
type follower struct {
	*recorded.Session
	machine *machine.Machine
	live    func() bool
	begun   bool
	asked   time.Time // the tables
	step    float64
	mapped  int64 // mapped files by the tables, less those by the machine: they don't count the same processes
}

// tablesEvery is how often a live session's tables are queried meanwhile: a query takes some 10 ms of its collector.
const tablesEvery = time.Second

func (f *follower) Read(ctx context.Context, into []monitor.Reading) ([]monitor.Reading, error) {
	if !f.begun { // the recorded readings, and the present one: the tables may be some seconds old
		f.begun = true
		recorded, err := f.Session.Read(ctx, into)
		if err != nil {
			return recorded, err
		}
		if f.step, err = f.Step(ctx); err != nil {
			return recorded, err
		}
		now, err := f.machine.Read(ctx, nil)
		if err != nil || !sameLimit(recorded, now) {
			return recorded, nil
		}
		f.mapped = lastMapped(recorded) - now[0].Mapped
		return f.ofHost(recorded, now), nil
	}
	fresh, err := f.machine.Read(ctx, nil)
	if err != nil {
		return into, err
	}
	ask := time.Since(f.asked) >= tablesEvery
	if ask {
		f.asked = time.Now()
		if f.step, err = f.Step(ctx); err != nil {
			return into, err
		}
	}
	into = f.ofHost(into, fresh)
	if !ask {
		return into, nil
	}
	return f.ReadDevices(ctx, into)
}

// sameLimit reports whether the machine's reading continues the recorded ones: the command may be in another cgroup
// than what it has started.
func sameLimit(recorded, now []monitor.Reading) bool {
	for i := len(recorded) - 1; i >= 0; i-- {
		if was := recorded[i]; was.Device == monitor.Host {
			is := now[0]
			return was.Kind == is.Kind && (was.Kind == "host" || was.Total == is.Total)
		}
	}
	return true
}

func lastMapped(recorded []monitor.Reading) int64 {
	for i := len(recorded) - 1; i >= 0; i-- {
		if r := recorded[i]; r.Device == monitor.Host && r.Mapped > 0 {
			return r.Mapped
		}
	}
	return 0
}

// ofHost adds the readings of the host, at the job's step.
func (f *follower) ofHost(into, fresh []monitor.Reading) []monitor.Reading {
	for _, r := range fresh {
		if r.Device == monitor.Host && r.Err == "" {
			r.Step = f.step
			r.Mapped = max(0, r.Mapped+f.mapped)
			into = append(into, r)
		}
	}
	return into
}

func (f *follower) Ended() bool { return !f.live() }
