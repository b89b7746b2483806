// Package stacks owns the answer to "what is each thread doing": the agent's Python stacks, joined with the kernel's
// view of the same threads. If the agent can't get Python's lock in time, the kernel's view is all there is.
package stacks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/probe/agent"
	"github.com/memgauge/memgauge/internal/probe/proc"
	"github.com/memgauge/memgauge/internal/record/session"
)

// Patience is how long a table or a command waits for a process by default. An extension that holds Python's lock for
// longer is what the user wants to know about.
const Patience = 2 * time.Second

// Process is what the threads of one process are doing.
type Process struct {
	session.Process
	At      time.Time
	Threads []Thread // those with Python frames first, the main thread at their head; then others
	Left    int      // threads that did not fit into the agent's answer
	Err     error    // why there are no Python stacks, nil where there are
}

// Thread is a thread of a process.
type Thread struct {
	proc.Task              // zero if the kernel's thread was not found
	Name      string       // Python's; "" for a thread that Python does not know
	Python    *wire.Thread // nil if there is no Python stack
}

// Take queries one process, and waits for its agent until ctx ends. It always returns what is available: see
// Process.Err.
func Take(ctx context.Context, p session.Process, locals bool) Process {
	r := Process{Process: p, At: time.Now().UTC()}
	told, err := ask(ctx, p, locals)
	tasks, taskErr := proc.New("/proc").Tasks(p.PID)
	if err != nil {
		r.Err = why(err)
		if taskErr != nil {
			r.Err = fmt.Errorf("process %d has ended", p.PID)
		}
	}
	r.Left = told.Left
	r.Threads = join(told, tasks)
	return r
}

// All queries several processes at once.
func All(ctx context.Context, list []session.Process, locals bool) []Process {
	out := make([]Process, len(list))
	var wg sync.WaitGroup
	for i, p := range list {
		wg.Go(func() { out[i] = Take(ctx, p, locals) })
	}
	wg.Wait()
	return out
}

func ask(ctx context.Context, p session.Process, locals bool) (wire.Stacks, error) {
	if p.Socket == "" {
		return wire.Stacks{}, errors.New("no agent answers in it (yet)")
	}
	c, err := agent.DialToRead(ctx, p.Socket)
	if err != nil {
		return wire.Stacks{}, err
	}
	defer c.Close()
	return c.Backtrace(ctx, locals)
}

// why rewrites a timeout as what it means: the GIL could not be had.
func why(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("the GIL (Python's lock) could not be had in time: an extension holds it, or the process " +
			"is stopped")
	}
	return err
}

// join combines the kernel's view with Python's.
func join(told wire.Stacks, tasks []proc.Task) []Thread {
	byInner := map[int]proc.Task{}
	for _, t := range tasks {
		if t.Inner != told.Agent { // it does nothing but answer
			byInner[t.Inner] = t
		}
	}
	threads := told.Threads
	var out []Thread
	for i := range threads {
		t := Thread{Name: threads[i].Name, Python: &threads[i]}
		if task, ok := byInner[threads[i].TID]; ok {
			t.Task = task
			delete(byInner, task.Inner)
		}
		out = append(out, t)
	}
	for _, task := range tasks {
		if _, left := byInner[task.Inner]; left {
			out = append(out, Thread{Task: task})
		}
	}
	return out
}

// Kernel describes the kernel's view in a few words: "sleeping in futex (futex_wait_queue)".
func (t Thread) Kernel() string {
	if t.TID == 0 {
		return ""
	}
	text, known := states[t.State]
	if !known {
		text = "state " + string(rune(t.State))
	}
	if call := proc.SyscallName(t.Syscall); call != "" {
		text += " in " + call
	}
	if t.Wchan != "" {
		text += " (" + t.Wchan + ")"
	}
	return text
}

// states are those of proc(5).
var states = map[byte]string{'R': "running", 'S': "sleeping", 'D': "waiting for a device", 'T': "stopped",
	't': "stopped by a tracer",
	'Z': "ended", 'X': "ended", 'I': "idle"}

// Rows are the rows of python.backtrace.
func (p Process) Rows() []model.Backtrace {
	var rows []model.Backtrace
	row := model.Backtrace{Time: p.At.UnixMicro(), PID: int32(p.PID), Rank: int32(p.Rank)}
	for _, t := range p.Threads {
		row.TID, row.Name = int32(t.TID), t.Name
		if t.Python == nil && p.Err == nil {
			continue // a thread of a library, which Python does not know
		}
		if t.Python == nil {
			k := row
			k.Name, k.Func, k.Kind = t.Comm, t.Kernel(), model.FrameKernel
			rows = append(rows, k)
			continue
		}
		for i, f := range t.Python.Frames {
			r := row
			r.Depth = int32(t.Python.Depth(i))
			r.Func, r.File, r.Line, r.Kind = f.Func, f.File, int32(f.Line), model.FramePython
			rows = append(rows, r)
		}
	}
	return rows
}
