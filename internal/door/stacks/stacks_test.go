package stacks

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/probe/proc"
	"github.com/memgauge/memgauge/internal/record/session"
)

// told is what an agent said of a process with these three threads: the main one, one of a library, and the agent's
// own.
var (
	told = wire.Stacks{Agent: 12, Left: 2, Threads: []wire.Thread{
		{TID: 10, Name: "MainThread", Cut: 5, CutAt: 1,
			Frames: []wire.StackFrame{{Func: "inner", File: "t.py", Line: 3}, {Func: "main", File: "t.py", Line: 9}}},
		{TID: 99, Name: "just gone", Frames: []wire.StackFrame{{Func: "f", File: "t.py", Line: 1}}},
	}}
	tasks = []proc.Task{
		{TID: 110, Inner: 10, Comm: "python", State: 'S', Wchan: "futex_do_wait", Syscall: proc.UnknownSyscall},
		{TID: 111, Inner: 11, Comm: "pt_autograd_0", State: 'R', Syscall: proc.NoSyscall},
		{TID: 112, Inner: 12, Comm: "memgauge", State: 'S', Syscall: proc.NoSyscall},
	}
)

func TestThreadsAreMatchedByTheirOwnNumbers(t *testing.T) {
	var got []string
	for _, th := range join(told, tasks) {
		got = append(got, strings.Join([]string{th.Name, th.Comm, th.Kernel()}, "|"))
	}
	want := []string{"MainThread|python|sleeping (futex_do_wait)", "just gone||", "|pt_autograd_0|running"}
	if !slices.Equal(got, want) {
		t.Errorf("threads %q, want %q: the agent's own is left out", got, want)
	}
}

func TestRows(t *testing.T) {
	p := Process{Process: session.Process{Rank: 3}, Threads: join(told, tasks)}
	var python []model.Backtrace
	for _, r := range p.Rows() {
		if r.Kind != model.FramePython || r.Rank != 3 {
			t.Errorf("row %+v: the kernel's view of a library's thread is not a frame where Python has answered", r)
		}
		python = append(python, r)
	}
	if len(python) != 3 || python[1].Func != "main" || python[1].Depth != 6 || python[1].TID != 110 {
		t.Errorf("rows %+v: five frames are left out before main", python)
	}
	p = Process{Threads: join(wire.Stacks{}, tasks), Err: context.DeadlineExceeded}
	for i, r := range p.Rows() {
		if r.Kind != model.FrameKernel || r.Name != tasks[i].Comm || r.Func == "" {
			t.Errorf("row %+v: without Python's stacks the kernel's are told", r)
		}
	}
}

func TestKernelsWords(t *testing.T) {
	for want, th := range map[string]Thread{
		"":                   {},
		"state ?":            {Task: proc.Task{TID: 1, State: '?', Syscall: proc.NoSyscall}},
		"stopped":            {Task: proc.Task{TID: 1, State: 'T', Syscall: proc.NoSyscall}},
		"running in read":    {Task: proc.Task{TID: 1, State: 'R', Syscall: 0}},
		"idle in read (w_q)": {Task: proc.Task{TID: 1, State: 'I', Syscall: 0, Wchan: "w_q"}},
	} {
		if proc.SyscallName(0) != "read" {
			t.Skip("another architecture's system call 0 is not read")
		}
		if got := th.Kernel(); got != want {
			t.Errorf("%+v: %q, want %q", th.Task, got, want)
		}
	}
}

// A process without an agent, one whose socket nobody serves, and one that has ended: each has what can be had.
func TestWithoutAnAgent(t *testing.T) {
	self := session.Process{Pid: session.Pid{PID: os.Getpid()}}
	unserved := self
	unserved.Socket = t.TempDir() + "/a.sock"
	for _, r := range All(t.Context(), []session.Process{self, unserved}, false) {
		if r.Err == nil || len(r.Threads) == 0 || r.Threads[0].TID == 0 || len(r.Rows()) != len(r.Threads) {
			t.Errorf("%v: %d threads, error %v", r.Socket, len(r.Threads), r.Err)
		}
	}
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	r := Take(t.Context(), session.Process{Pid: session.Pid{PID: ended.Process.Pid}}, false)
	if r.Err == nil || !strings.Contains(r.Err.Error(), "has ended") || len(r.Threads) != 0 {
		t.Errorf("ended: %d threads, error %v", len(r.Threads), r.Err)
	}
}

func TestALockThatCannotBeHad(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if err := why(context.Cause(ctx)); !strings.Contains(err.Error(), "GIL") {
		t.Errorf("%v", err)
	}
}
