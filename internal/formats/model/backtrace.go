package model

// Backtrace is a row of python.backtrace: one call that a thread was in when the table was asked.
type Backtrace struct {
	Time  int64 // µs since the epoch
	PID   int32
	Rank  int32 // -1 unknown
	TID   int32 // 0 unknown
	Name  string
	Depth int32 // 0 is the innermost
	Func  string
	File  string // "" for the kernel's
	Line  int32  // 0 for the kernel's
	Kind  string // of frame: FramePython or FrameKernel
}

// Kinds of frames.
const (
	FramePython = "python"
	FrameKernel = "kernel" // what the kernel tells of a thread whose Python stack can't be had
)
