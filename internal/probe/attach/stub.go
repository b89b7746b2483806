//go:build amd64 || arm64

package attach

import (
	"bytes"
	"unsafe"
)

// entries are offsets into the code.
type entries struct{ spawn, thread uint64 }

// stub is never called here: its bytes run in the target. Every part begins after a mark.
//
//lint:ignore U1000 what stubAddress gives
func stub()
func stubAddress() uintptr

// stubRoom is more than the code takes.
const stubRoom = 4096

// stubCode is the code with its entries.
func stubCode() ([]byte, entries) {
	addr := stubAddress()
	all := unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), stubRoom)
	var at []uint64
	for off := 0; len(at) < 3; {
		i := bytes.Index(all[off:], []byte(stubMark))
		off += i + len(stubMark) // the last mark always comes
		at = append(at, uint64(off))
	}
	return all[:at[2]], entries{at[0], at[1]}
}
