package attach

import (
	"bytes"
	"unsafe"

	"github.com/memgauge/memgauge/internal/probe/attach/ptrace"
)

// entries are offsets into the code.
type entries struct{ spawn, thread uint64 }

// stub is never called here: its bytes run in the target. Every part begins after a mark.
//
//lint:ignore U1000 what stubAddress gives
func stub()
func stubAddress() uintptr

// stubMark stands before each part and at the end: a 10-byte no-op that no compiler writes.
const stubMark = "\x66\x2e\x0f\x1f\x84\x00MGMG"

// stubCode is the code with its entries.
func stubCode() ([]byte, entries) {
	addr := stubAddress()
	all := unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), pageSize)
	var at []uint64
	for off := 0; len(at) < 3; {
		i := bytes.Index(all[off:], []byte(stubMark))
		off += i + len(stubMark) // the last mark always comes
		at = append(at, uint64(off))
	}
	return all[:at[2]], entries{at[0], at[1]}
}

// Places where the stub corrects the last frame of the chain.
const (
	frameRAX = ptrace.FrameResult //lint:ignore U1000 stub_amd64.s reads it
	frameRIP = ptrace.FramePC     //lint:ignore U1000 stub_amd64.s reads it
)
