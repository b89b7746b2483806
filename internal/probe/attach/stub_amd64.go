package attach

import "github.com/memgauge/memgauge/internal/probe/attach/ptrace"

// stubMark stands before each part and at the end: a 10-byte no-op that no compiler writes.
const stubMark = "\x66\x2e\x0f\x1f\x84\x00MGMG"

// Places where the stub corrects the last frame of the chain.
const (
	frameRAX = ptrace.FrameResult //lint:ignore U1000 stub_amd64.s reads it
	frameRIP = ptrace.FramePC     //lint:ignore U1000 stub_amd64.s reads it
)
