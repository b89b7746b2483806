package attach

import "github.com/memgauge/memgauge/internal/probe/attach/ptrace"

// stubMark stands before each part and at the end: two instructions that are none (udf #0x4d47, twice).
const stubMark = "\x47\x4d\x00\x00\x47\x4d\x00\x00"

// Places where the stub corrects the last frame of the chain.
const (
	frameX0 = ptrace.FrameResult //lint:ignore U1000 stub_arm64.s reads it
	framePC = ptrace.FramePC     //lint:ignore U1000 stub_arm64.s reads it
)
