package api

import (
	"fmt"
	"time"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/picture"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/judge/fragment"
)

// CensusRequest requests a census of live processes: what holds their memory.
type CensusRequest struct {
	PIDs []int `json:"pids"` // none: every live process of the session
	// also find objects that the program can't reach any more; pauses the trainer for longer
	Deep    bool          `json:"deep"`
	Timeout time.Duration `json:"timeout"` // 0: a minute
}

// CensusReply has one entry for each process, in the order of Processes. The rows are in the database.
type CensusReply struct {
	Censuses []Census `json:"censuses"`
}

// Census is the result of the census of one process. Durations are ns.
type Census struct {
	PID      int           `json:"pid"`
	Rank     int           `json:"rank"`      // -1 unknown
	ID       int64         `json:"census_id"` // as in python.tensors and python.objects, with the pid
	Step     int64         `json:"step"`      // the last that had ended, 0 before the first
	Visited  int64         `json:"visited"`   // objects
	Tensors  int64         `json:"tensors"`
	CPU      time.Duration `json:"cpu_ns"`     // upper bound of the trainer's time that it took
	Longest  time.Duration `json:"longest_ns"` // pause of the trainer
	Wall     time.Duration `json:"wall_ns"`
	Complete bool          `json:"complete"`        // false: Note says what is missing
	Note     string        `json:"note,omitempty"`  // for the user
	Error    *Error        `json:"error,omitempty"` // there are no rows
}

// Place says which thread is stopped while code runs (docs/eval.md).
type Place string

// The places. A request names Main, Step or Beside; a result may also tell Idle.
const (
	Main   Place = "main"   // in place of the main thread, between two of its bytecodes
	Step   Place = "step"   // in place of the thread that trains, at the end of a step
	Idle   Place = "idle"   // beside the main thread, which waited for something outside of PyTorch
	Beside Place = "beside" // beside it, whatever it does
)

// MaxCode bounds the code of an eval in bytes, so that it fits into a frame of the agent's socket.
const MaxCode = wire.MaxFrame - 8

// EvalRequest runs code in processes.
type EvalRequest struct {
	Choice  Choice        `json:"choice"`
	Code    string        `json:"code"` // at most MaxCode bytes of UTF-8
	Place   Place         `json:"place"`
	Timeout time.Duration `json:"timeout"` // from the request on, the wait for the place included; 0: none

	Key string `json:"key,omitempty"` // names the request in an InterruptRequest; the client chooses it
}

// EvalOutput has the callbacks of a running eval: first for the chosen processes, then for their output. Calls come one
// at a time. An error from one ends the eval.
type EvalOutput struct {
	Chosen func([]Process) error
	Print  func(process int, stderr bool, text []byte) error // process is the place in Chosen's list
}

// EvalReply has one result for each process that was chosen, in that order.
type EvalReply struct {
	Results []EvalResult `json:"results"`
}

// Outcome is how code ended.
type Outcome string

// The outcomes.
const (
	Fine        Outcome = "ok"
	Exception   Outcome = "exception"
	TimedOut    Outcome = "timeout"
	Interrupted Outcome = "interrupted"
	Blocked     Outcome = "blocked" // outside Python, or it ignores interruptions: it goes on
	Ended       Outcome = "ended"   // the process, while it ran the code
	Failed      Outcome = "error"   // the code was not run, or its outcome is unknown
)

// EvalResult is the result of code in one process. Times are ns.
type EvalResult struct {
	Process   Process       `json:"process"`
	Outcome   Outcome       `json:"outcome"`
	Value     string        `json:"value"`      // repr of the last expression, "" for none
	Exception string        `json:"exception"`  // traceback, ends in a newline
	Elapsed   time.Duration `json:"elapsed_ns"` // of the code
	Took      time.Duration `json:"took_ns"`    // from the request to the answer
	Began     bool          `json:"began"`      // Place is where
	Place     Place         `json:"place,omitempty"`
	Error     *Error        `json:"error,omitempty"` // with Ended and Failed
}

// BacktraceRequest asks for stacks.
type BacktraceRequest struct {
	Choice  Choice        `json:"choice"`
	Thread  int           `json:"thread"`  // only this one, of whichever process has it; 0: all
	Locals  bool          `json:"locals"`  // with short texts of local variables
	Timeout time.Duration `json:"timeout"` // of the wait for the GIL; 0: the default
}

// BacktraceReply has one entry for each process.
type BacktraceReply struct {
	Processes []Stacks `json:"processes"`
}

// Stacks has the stacks of a process's threads.
type Stacks struct {
	PID     int      `json:"pid"`
	Rank    int      `json:"rank"` // -1 unknown
	Argv    string   `json:"argv"`
	Threads []Thread `json:"threads"`         // those with Python stacks first, the main thread at their head
	Left    int      `json:"left"`            // threads that were left out for lack of room
	Error   *Error   `json:"error,omitempty"` // why there are no Python stacks; the kernel's view is there
}

// Thread is a thread as Python and the kernel see it. Unknown fields are zero.
type Thread struct {
	TID     int     `json:"tid"`
	Name    string  `json:"name"` // Python's
	Python  bool    `json:"python"`
	Daemon  bool    `json:"daemon"`
	Frames  []Frame `json:"frames"`  // innermost first
	Cut     int     `json:"cut"`     // frames left out of a deep recursion, …
	CutAt   int     `json:"cut_at"`  // … before this one of Frames
	Comm    string  `json:"comm"`    // the kernel's name
	State   string  `json:"state"`   // of proc(5): R, S, D, …
	Wchan   string  `json:"wchan"`   // kernel function that it waits in
	Syscall string  `json:"syscall"` // that it is in
	Kernel  string  `json:"kernel"`  // all that in a few words
}

// Depth of the frame with this place in Frames, counted from the innermost with those left out.
func (t *Thread) Depth(i int) int {
	if t.Cut > 0 && i >= t.CutAt {
		return i + t.Cut
	}
	return i
}

// Frame is a call that a thread is in.
type Frame struct {
	Func   string  `json:"func"`
	File   string  `json:"file"`
	Line   int     `json:"line"` // that it executes
	Locals []Local `json:"locals,omitempty"`
}

// Local is a variable with a short text of its value.
type Local struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// BlocksRequest asks for the blocks of a device.
type BlocksRequest struct {
	Device string `json:"device"` // host, or a GPU's number
}

// BlocksReply has one entry for each process that answered; if none did, Why has the reason.
type BlocksReply struct {
	Allocators []Allocator `json:"allocators"`
	Why        string      `json:"why,omitempty"`
}

// Allocator is how one process's allocator divides the memory of a device.
type Allocator struct {
	PID   int               `json:"pid"`
	Rank  int               `json:"rank"` // -1 unknown
	State fragment.State    `json:"state"`
	Env   map[string]string `json:"env"` // the allocators' settings among the process's variables
}

// Where is the memory of a job.
type Where struct {
	Of    string        `json:"of"`    // which processes, and when, in a few words
	Peaks []detect.Peak `json:"peaks"` // the highest that was held, where that belongs to one phase of a training
	picture.Picture
	// Unsampled is what processes held before native memory was sampled in them, which no line is known of.
	Unsampled []questions.NativeBefore `json:"unsampled,omitempty"`
}

// SnapshotRequest requests a memory snapshot of PyTorch.
type SnapshotRequest struct {
	Choice  Choice        `json:"choice"`
	Timeout time.Duration `json:"timeout"`
}

// SnapshotReply describes the snapshot.
type SnapshotReply struct {
	Process Process `json:"process"`
	Path    string  `json:"path"` // in the session; "" where it was written elsewhere
	Bytes   int64   `json:"bytes"`
	History string  `json:"history"` // whether one was recorded: yes, no, unknown
}

// RecordRequest switches the recording of allocations on or off.
type RecordRequest struct {
	Choice  Choice        `json:"choice"`
	On      bool          `json:"on"`
	Entries int           `json:"entries"` // how many of the newest events are kept
	Stacks  string        `json:"stacks"`  // python, or all: with C++ frames
	Timeout time.Duration `json:"timeout"`
}

// maxEntries bounds the events that PyTorch may keep: so many take some gigabytes of the host's memory.
const maxEntries = 10_000_000

// Check returns an error for settings that no process accepts.
func (q RecordRequest) Check() error {
	switch {
	case q.On && (q.Entries < 1 || q.Entries > maxEntries):
		return fmt.Errorf("--max-entries %d: not between 1 and %s", q.Entries, units.Count(maxEntries))
	case q.On && q.Stacks != "python" && q.Stacks != "all":
		return fmt.Errorf("--stacks %q: not python or all", q.Stacks)
	}
	return nil
}

// RecordReply has one entry for each process.
type RecordReply struct {
	Processes []Recording `json:"processes"`
}

// Recording reports whether a process has followed a RecordRequest.
type Recording struct {
	Process Process `json:"process"`
	Error   *Error  `json:"error,omitempty"`
}

// Failure returns the error of the eval, or nil; timeout is the request's. For an exception the error has no text of
// its own, since the traceback says it all.
func (r *EvalResult) Failure(timeout time.Duration) error {
	limit := units.Duration(timeout)
	switch {
	case r.Error != nil:
		return r.Error.Unpack()
	case r.Outcome == Fine:
		return nil
	case r.Outcome == Exception:
		return ErrException
	case r.Outcome == Interrupted:
		return &Error{Message: "eval: the code was interrupted", Kind: "canceled"}
	case r.Outcome == Blocked && (timeout == 0 || r.Took < timeout): // blocked when it was to be interrupted
		return &Error{Message: "eval: the code can't be interrupted and goes on", Kind: "canceled"}
	case r.Outcome == TimedOut && !r.Began:
		e := &Error{Message: fmt.Sprintf("eval: the code could not begin within --timeout %s", limit), Kind: "timeout",
			Hint: "--timeout 1m waits longer; --beside runs it where it may meet half-done work"}
		return e.Unpack()
	}
	e := &Error{Message: fmt.Sprintf("eval: the code ran into --timeout %s", limit), Kind: "timeout",
		Hint: "--timeout 1m gives it more time"}
	return e.Unpack()
}
