package model

// NativeLive is a row of native.live: what one process's native code held at a moment, by the stack that allocated it,
// as estimated from samples.
type NativeLive struct {
	Time             int64 // µs since the epoch
	PID, Rank        int32 // rank -1 unknown
	Stack            int64 // of native.stacks; 0: all that have no row of their own
	Bytes, Low, High int64 // with the bounds of a 95 % interval
	Count            int64 // blocks
	Samples          int64
	Interval         int64 // bytes between samples, on average, at this moment
	Site, Called     string
}

// NativeFrame is a row of native.stacks: one frame of a stack.
type NativeFrame struct {
	Stack int64
	Depth int32 // 0 is the innermost call
	Kind  string
	Func  string
	File  string // of C: the module
	Line  int32  // 0: none
}
