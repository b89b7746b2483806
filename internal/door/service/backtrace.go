package service

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/stacks"
	"github.com/memgauge/memgauge/internal/probe/proc"
	"github.com/memgauge/memgauge/internal/record/session"
)

// Backtrace returns the Python stacks of live processes, joined with the kernel's view of the same threads.
func (j Job) Backtrace(ctx context.Context, q api.BacktraceRequest) (api.BacktraceReply, error) {
	chosen, err := j.threads(q)
	if err != nil {
		return api.BacktraceReply{}, fmt.Errorf("backtrace: %w", err)
	}
	asking, cancel := context.WithTimeout(ctx, orElse(q.Timeout, stacks.Patience))
	defer cancel()
	taken := stacks.All(asking, chosen, q.Locals)
	if err := context.Cause(ctx); err != nil { // the caller's deadline, not ours
		return api.BacktraceReply{}, fmt.Errorf("backtrace: %w", err)
	}
	r := api.BacktraceReply{}
	for _, p := range taken {
		told := stacksOf(p)
		if q.Thread != 0 {
			told.Threads = slices.DeleteFunc(told.Threads, func(t api.Thread) bool { return t.TID != q.Thread })
		}
		r.Processes = append(r.Processes, told)
	}
	return r, nil
}

// threads selects the processes like an eval, or the process to which the requested thread belongs.
func (j Job) threads(q api.BacktraceRequest) ([]session.Process, error) {
	if q.Thread == 0 {
		return j.choose(q.Choice, true)
	}
	for _, p := range j.S.Askable() {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", p.PID, q.Thread)); err == nil {
			return []session.Process{p}, nil
		}
	}
	return nil, remedy.Add(fmt.Errorf("no process of the session has a thread %d", q.Thread),
		"memgauge backtrace --all lists them")
}

func stacksOf(p stacks.Process) api.Stacks {
	s := api.Stacks{PID: p.PID, Rank: p.Rank, Argv: p.Argv, Left: p.Left, Error: api.Pack(p.Err),
		Threads: make([]api.Thread, 0, len(p.Threads))}
	for _, t := range p.Threads {
		s.Threads = append(s.Threads, threadOf(t))
	}
	return s
}

func threadOf(t stacks.Thread) api.Thread {
	told := api.Thread{Name: t.Name, Frames: []api.Frame{}}
	if t.TID != 0 {
		told.TID, told.Comm, told.State, told.Wchan = t.TID, t.Comm, string(rune(t.State)), t.Wchan
		told.Syscall, told.Kernel = proc.SyscallName(t.Syscall), t.Kernel()
	}
	if t.Python == nil {
		return told
	}
	told.Python, told.Daemon, told.Cut, told.CutAt = true, t.Python.Daemon, t.Python.Cut, t.Python.CutAt
	for _, f := range t.Python.Frames {
		frame := api.Frame{Func: f.Func, File: f.File, Line: f.Line}
		for _, l := range f.Locals {
			frame.Locals = append(frame.Locals, api.Local(l))
		}
		told.Frames = append(told.Frames, frame)
	}
	return told
}

func orElse(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}
