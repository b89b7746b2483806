// Package model is the vocabulary that the other packages share: the rows that flow from rings into the database, and
// the shape of what comes out again. Types only; it imports nothing of ours and does nothing but write and read them as
// JSON.
package model

import (
	"math/big"
	"time"
)

// Null marks an integer that was not taken; it becomes NULL in the database.
const Null int64 = -1 << 63

// Codes of what ended a job for lack of memory.
const (
	OOMKill  = "oom_kill"  // the kernel killed it
	OOMError = "oom_error" // an allocator raised an error
)

// Stage of a module or an optimizer; the values are the wire format's.
type Stage uint8

// Name is a text that many rows share (a module's name); IDs are the session's own, from 1.
type Name struct {
	ID   int32
	Text string
}

// Trace is a row of python.torch_trace. Sizes are bytes.
type Trace struct {
	Time                    int64 // µs since the epoch
	PID                     int32
	Rank, World             int32 // -1 unknown
	Step                    int64
	Micro                   int32 // forwards of a root module begun in this step, from 0
	Seq                     int32 // order within the step, from 0
	Module                  int32 // Name.ID
	Stage                   Stage
	Device                  int8 // -1 host
	Allocated, MaxAllocated int64
	Cached, MaxCached       int64
	AllocatedDelta          int64 // against the stage's beginning; Null on rows that begin one
	MaxAllocatedDelta       int64
	OffsetNS, DurationNS    int64 // since the step's first row; since the stage's beginning (Null there)
}

// Step is a row of python.steps. Sizes are bytes.
type Step struct {
	Time               int64 // µs since the epoch, at the end of the step
	PID                int32
	Rank, World        int32
	Step               int64 // the last of Steps steps
	Steps              int32
	DurationNS         int64 // of all of them together; Null for the very first
	Sampled, Inference bool
	Work               string // what a step is, of wire.WorkKinds
	Tokens             int64  // that were worked on in them; Null where nobody told
	// of those that were read the fullest; -1 none: Allocated is anonymous, Reserved all resident memory
	Device                  int8
	Allocated, MaxAllocated int64
	Reserved, MaxReserved   int64
	RSS, Anon, MaxRSS       int64
	HeapInUse, HeapHeld     int64
	PyBlocks                int64
	GCCollections           int64 // all generations, since the process started
	GCFull                  int64 // oldest generation, since the step row before
	AgentNS                 int64
}

// StepDevice is a row of python.step_devices: a device's allocator at the end of a step. Sizes are bytes.
type StepDevice struct {
	Time                    int64 // µs since the epoch, at the end of the step
	PID                     int32
	Rank                    int32
	Step                    int64 // the last of Steps steps
	Steps                   int32
	Inference               bool
	Device                  int8
	Allocated, MaxAllocated int64
	Reserved, MaxReserved   int64
}

// Event is a row of memgauge.events.
type Event struct {
	Time int64 // µs since the epoch
	PID  int32
	Rank int32
	Name string
	Text string // for people
	Code string // what it tells, for programs (wire.EventCodes); "" for none
	A, B int64  // meaning depends on the event; Null if none
}

// Overhead is a row of memgauge.overhead: what a part of observing cost in a stretch of time.
type Overhead struct {
	Time      int64 // µs since the epoch, at the end of the stretch
	PID       int32
	Rank      int32
	Part      string
	NS        int64
	Count     int64
	Steps     int64
	CoveredNS int64
	Gap       int64 // one step in Gap was sampled; Null where it has no meaning
	Measured  bool  // by comparing sampled with plain steps, not by the agent's clock
}

// Drop is a row of memgauge.drops: records that are not in the database, and why.
type Drop struct {
	Time    int64 // µs since the epoch, when it was noticed
	PID     int32
	Source  string // ring file, table …
	Reason  string // overwritten, damaged, unknown kind, thinned, disk limit …
	Records int64
	Detail  string // place: record number, byte offset, step range
}

// Process is a row of memgauge.processes: a Python process of the job.
type Process struct {
	PID        int32
	StartTicks int64
	PPID       int32
	Parent     int32 // pid of the process that forked it, 0 if none
	Rank       int32
	LocalRank  int32
	World      int32
	Started    int64  // µs since the epoch
	Ended      int64  // Null while it lives
	End        string // "", "exited", "detached", "vanished" (killed, or left without a word)
	Argv       string
	Cwd        string
	Executable string
	Python     string
	Agent      string // content hash
}

// Cursor is how much of a ring is in the database.
type Cursor struct {
	RingID uint64
	File   string
	Seq    uint64 // the newest record that is accounted for
	Done   bool   // the ring was read to its end and its process is gone: the file may be removed
}

// Column of a query's result.
type Column struct {
	Name string
	Type string // DuckDB's name of the type
}

// Values of a query's result are nil, bool, int64, uint64, *big.Int, float64, float32, string, time.Time in UTC,
// []byte, or one of the types below; types that have none of these (UUID, INTERVAL, BIT …) come as DuckDB's own text, a
// string.
type (
	// List is a LIST or an ARRAY.
	List = []any
	// Struct is a STRUCT, its members in the type's order.
	Struct []Member
	// Map is a MAP, its entries in stored order.
	Map []Entry
	// Decimal is Unscaled / 10^Scale.
	Decimal struct {
		Unscaled *big.Int
		Scale    uint8
	}
)

// Member of a Struct.
type Member struct {
	Name  string
	Value any
}

// Entry of a Map.
type Entry struct{ Key, Value any }

// Table describes a table or view for `memgauge tables`.
type Table struct {
	Schema, Name string
	Rows         int64 // -1 where counting is not cheap
	Columns      []ColumnDoc
	Doc          string
}

// ColumnDoc describes a column with its unit.
type ColumnDoc struct {
	Name, Type, Doc string
}

// Time converts µs since the epoch.
func Time(us int64) time.Time { return time.UnixMicro(us).UTC() }
