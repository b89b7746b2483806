package api

import (
	"context"
	"io"
	"time"

	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// Version of the requests and replies below. Within a version, fields and requests may be added, but nothing changes
// its meaning. A request that a session does not know yet is refused with ErrUnknown.
const Version = 1

// Tabled has rows that SQL asks: a session, a lake, the tables of a snapshot.
type Tabled interface {
	Querier
	// Tables describes the tables; with all, memgauge's internal ones too.
	Tables(ctx context.Context, all bool) ([]model.Table, error)
	Close() error
}

// Files are what a session names on its machine's disk. Who wants to read one asks where it lies here: a session on
// another machine says which that is, and what to do there.
type Files interface {
	// SnapshotFile is the memory snapshot that the session keeps.
	SnapshotFile(ctx context.Context) (path string, err error)
	// SourceFile is a file of the job's program, whose name may be relative to where that was started.
	SourceFile(ctx context.Context, name string) (path string, err error)
}

// Session is the one interface to a session, live or finished, here or elsewhere. Sizes are in bytes and times in UTC.
// Errors carry their remedy (package remedy) across any socket.
//
// Requests with a Choice go to live processes and fail for a finished session. The others read the stored rows and work
// for both.
type Session interface {
	Tabled
	Files
	// About describes the session. It needs no connection.
	About(ctx context.Context) (About, error)
	// End returns whether the session still runs, and else how it ended.
	End(ctx context.Context) (End, error)
	// Processes lists the job's observed processes, the main trainer first.
	Processes(ctx context.Context, q ProcessesRequest) ([]Process, error)

	// Summary describes the session in figures; Outcome adds the verdict in one line if the session is over.
	Summary(ctx context.Context) (Summary, error)
	Outcome(ctx context.Context) (Summary, error)
	// Events calls take for each event, oldest first, until the session or ctx ends.
	Events(ctx context.Context, q EventsRequest, take func(Event) error) error

	// Leak judges whether memory leaks. OOM predicts when it runs out.
	Leak(ctx context.Context, q LeakRequest) (detect.Report, error)
	OOM(ctx context.Context, q OOMRequest) (*monitor.Report, error)
	// Where lists the job's bytes by process and class: now, or when a finished job held most.
	Where(ctx context.Context) (Where, error)

	// Census has live processes find what holds their memory, and waits until the rows can be queried.
	Census(ctx context.Context, q CensusRequest) (CensusReply, error)
	// Eval runs code in live processes. If ctx ends, the code is interrupted, and the reply has the outcome.
	Eval(ctx context.Context, q EvalRequest, out EvalOutput) (EvalReply, error)
	// Backtrace returns the stack of each thread of live processes.
	Backtrace(ctx context.Context, q BacktraceRequest) (BacktraceReply, error)
	// Blocks returns the segments and blocks that live processes' allocators have on one device.
	Blocks(ctx context.Context, q BlocksRequest) (BlocksReply, error)
	// Snapshot has a live process write PyTorch's memory snapshot: to w, or where w is nil into the session.
	Snapshot(ctx context.Context, q SnapshotRequest, w io.Writer) (SnapshotReply, error)
	// Record switches PyTorch's memory history, which snapshots contain, on or off.
	Record(ctx context.Context, q RecordRequest) (RecordReply, error)
}

// About describes a session. Only Live changes.
type About struct {
	Version  int       `json:"api_version"`
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Dir      string    `json:"dir"` // on the machine where it lies
	Command  []string  `json:"command"`
	Cwd      string    `json:"cwd"`
	Host     string    `json:"host"`
	Started  time.Time `json:"started"`
	Memgauge string    `json:"memgauge"` // version that made it
	Attached bool      `json:"attached"` // to a process that ran already
	PID      int       `json:"pid"`      // of the command, 0 before it runs
	Live     bool      `json:"live"`
	Snapshot *Kept     `json:"snapshot,omitempty"` // that it keeps, nil for none
	Budget   float64   `json:"budget,omitempty"`   // share of the training's time for observing; 0: not known
}

// Kept is the memory snapshot that a session keeps: the newest.
type Kept struct {
	Path  string    `json:"path"`
	PID   int       `json:"pid"` // of the process whose allocator it is
	Taken time.Time `json:"taken"`
}

// End is how a session ended.
type End struct {
	Live  bool      `json:"live"`  // it has not ended
	Known bool      `json:"known"` // the end was observed: the fields below are filled in
	Text  string    `json:"text"`  // in a few words: "exit 0", "killed by SIGKILL", "OOM kill"
	Ended time.Time `json:"ended"`
	OOM   string    `json:"oom,omitempty"` // model.OOMKill or OOMError, that ended it
	Peak  int64     `json:"peak_rss"`      // bytes, of the largest process
	Final bool      `json:"final"`         // its collector has recorded it: nothing above changes any more
}

// KilledForMemory reports whether the kernel's OOM killer ended the job.
func (e End) KilledForMemory() bool { return e.OOM == model.OOMKill }

// ProcessesRequest asks for processes.
type ProcessesRequest struct {
	Frameworks bool `json:"frameworks"` // fill Process.Framework, which reads the maps of each
}

// Process is a process of the job.
type Process struct {
	PID       int    `json:"pid"`
	Start     uint64 `json:"start_ticks"` // since boot; PID and start identify a process uniquely
	Rank      int    `json:"rank"`        // -1 unknown
	Alive     bool   `json:"alive"`
	Torch     bool   `json:"torch"`     // it trains with PyTorch, or did
	Agent     bool   `json:"agent"`     // an agent answers in it while it is alive
	Framework bool   `json:"framework"` // a library such as libtorch is mapped or being mapped
	Argv      string `json:"argv"`
}

// EventsRequest asks for events.
type EventsRequest struct {
	Since  time.Time `json:"since"`  // only later ones; zero: all
	Follow bool      `json:"follow"` // continue with new events
}

// Event is a row of memgauge.events.
type Event struct {
	Time time.Time `json:"ts"`
	PID  int       `json:"pid"`
	Name string    `json:"name"`
	Text string    `json:"text"`
	Code string    `json:"code,omitempty"` // what Text tells, for programs (wire.EventCodes)
}

// LeakRequest asks for a verdict on the session's memory.
type LeakRequest struct {
	Until   int64    `json:"until"`   // as it was when this step had ended; 0: now
	Devices []string `json:"devices"` // only these; none: all
}

// OOMRequest requests a prediction when memory runs out.
type OOMRequest struct {
	Devices   []string      `json:"devices"`   // only these; none: all
	Threshold float64       `json:"threshold"` // percent of the limit; 0: the usual
	Critical  float64       `json:"critical"`  // percent of the limit; 0: the usual
	Window    time.Duration `json:"window"`    // growth must last so long before it is extrapolated; 0: the default
}

// Listed is a session in a list.
type Listed struct {
	ID        string
	Name      string
	Dir       string
	PIDs      []int // of a live session its live processes; of a finished one those that had a ring; the command first
	Ranks     []int
	Command   []string
	Started   time.Time
	Ended     time.Time // zero while it runs, and if the end was not observed
	State     string    // "running", "exit 0", "killed by SIGKILL", "lost …"
	Live      bool      // it has not ended
	Rows      int64     // -1 if the number can't be queried now
	DiskBytes int64
	Verdict   string // leak, healthy or undecided; "" before the first judgement, and where nobody could say
	Peak      int64  // bytes, largest resident set of one process of the job; of a finished session, 0 where not known
}
