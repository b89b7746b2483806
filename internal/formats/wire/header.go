package wire

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"strings"
)

// ErrCorrupt marks bytes that no writer of any version makes. The error that wraps it says where they lie.
var ErrCorrupt = errors.New("corrupt")

// ErrVersion marks a ring of a newer major version, whose contents we can't interpret.
var ErrVersion = errors.New("unsupported version")

// ErrCreating marks a ring that its process has not finished making: wait, or, if the process is gone, drop it.
var ErrCreating = errors.New("ring is being created")

// States of a ring; States has their names.
const (
	StateCreating = iota
	StateLive
	StateClosed
	StateDetached
)

const (
	maxHeaderSize = 1 << 16 // sixteen pages: room for minor versions to grow
	maxSlots      = 1 << 24 // 1 GiB of records, 256 times what the agent makes
	maxNamesSize  = 1 << 28 // 256 MiB, 256 times what the agent makes
	headerFields  = OffClockMono + 8
)

// Header is the first page of a ring, checked: every part of the file that it names lies within the file.
type Header struct {
	Major, Minor uint16
	HeaderSize   int64
	RingID       uint64
	SlotCount    uint64 // a power of two
	SlotsOffset  int64  // bytes
	NamesOffset  int64  // bytes
	NamesSize    int64  // bytes
	PID          uint32
	Generation   uint32
	StartTicks   uint64
	ClockWall    uint64 // ns since the epoch, when CLOCK_MONOTONIC was ClockMono
	ClockMono    uint64 // ns
	Info         map[string]string
	Live
}

// Live is what changes in a header while its process runs.
type Live struct {
	Head         uint64 // number of the newest record
	NamesHead    int64  // bytes of names
	State        uint64
	NamesDropped uint64
	Rank         int32 // -1 unknown
	WorldSize    int32 // -1 unknown
}

// WallTime converts a record's time to ns since the epoch.
func (h *Header) WallTime(ts uint64) int64 { return int64(h.ClockWall + (ts - h.ClockMono)) }

// ReadHeader reads and checks the header of a ring of size bytes.
func ReadHeader(r io.ReaderAt, size int64) (*Header, error) {
	var b [HeaderSize]byte
	n, err := r.ReadAt(b[:], 0)
	if n < len(b) {
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read ring header: %w", err)
		}
		if zero(b[:n]) || Magic == string(b[:min(n, len(Magic))]) {
			return nil, fmt.Errorf("%w: %d bytes, its header has %d", ErrCreating, n, HeaderSize)
		}
		return nil, fmt.Errorf("%w: file ends at byte %d, a ring's header has %d", ErrCorrupt, n, HeaderSize)
	}
	if err := checkKind(b[:]); err != nil {
		return nil, err
	}
	h := decodeHeader(b[:])
	if err := h.check(size); err != nil {
		return nil, err
	}
	h.Info, err = readInfo(b[:])
	return h, err
}

// checkKind refuses what is not a ring, not finished, or of a version that we don't know. Order matters: the version
// comes before anything that another version might have moved.
func checkKind(b []byte) error {
	if zero(b[:headerFields]) {
		return fmt.Errorf("%w: its header is empty", ErrCreating)
	}
	if string(b[:len(Magic)]) != Magic {
		return fmt.Errorf("%w: byte 0: %q where a ring has %q", ErrCorrupt, b[:len(Magic)], Magic)
	}
	if major := le.Uint16(b[OffMajor:]); major > Major {
		return fmt.Errorf("%w: ring format %d.%d; this memgauge reads %d.x", ErrVersion, major, le.Uint16(b[OffMinor:]),
			Major)
	} else if major == 0 {
		return fmt.Errorf("%w: byte %d: major version 0", ErrCorrupt, OffMajor)
	}
	// State 0 with records can't be: the writer goes live before it publishes. A stray zero in the state of a ring that
	// holds records must not hide them.
	if le.Uint64(b[OffState:]) == StateCreating && le.Uint64(b[OffHead:]) == 0 {
		return ErrCreating
	}
	return nil
}

func decodeHeader(b []byte) *Header {
	return &Header{
		Major:       le.Uint16(b[OffMajor:]),
		Minor:       le.Uint16(b[OffMinor:]),
		HeaderSize:  int64(le.Uint32(b[OffHeaderSize:])),
		RingID:      le.Uint64(b[OffRingID:]),
		SlotCount:   uint64(le.Uint32(b[OffSlotCount:])),
		SlotsOffset: offset(le.Uint64(b[OffSlotsOffset:])),
		NamesOffset: offset(le.Uint64(b[OffNamesOffset:])),
		NamesSize:   offset(le.Uint64(b[OffNamesSize:])),
		PID:         le.Uint32(b[OffPID:]),
		Generation:  le.Uint32(b[OffGeneration:]),
		StartTicks:  le.Uint64(b[OffStartTicks:]),
		ClockWall:   le.Uint64(b[OffClockWall:]),
		ClockMono:   le.Uint64(b[OffClockMono:]),
		Live:        decodeLive(b, 0),
	}
}

// decodeLive reads the fields that change; b begins at byte from of the file.
func decodeLive(b []byte, from int) Live {
	return Live{
		Head:         le.Uint64(b[OffHead-from:]),
		NamesHead:    offset(le.Uint64(b[OffNamesHead-from:])),
		State:        le.Uint64(b[OffState-from:]),
		NamesDropped: le.Uint64(b[OffNamesDropped-from:]),
		Rank:         int32(le.Uint32(b[OffRank-from:])),
		WorldSize:    int32(le.Uint32(b[OffWorldSize-from:])),
	}
}

// offset keeps what doesn't fit a file recognisable as too large, instead of negative.
func offset(v uint64) int64 { return int64(min(v, 1<<62)) }

// check compares the header's sizes with each other and with the size of the file.
func (h *Header) check(size int64) error {
	switch slotsEnd := h.SlotsOffset + int64(h.SlotCount)*SlotSize; {
	case h.HeaderSize < HeaderSize || h.HeaderSize > maxHeaderSize:
		return fmt.Errorf("%w: byte %d: header of %d bytes", ErrCorrupt, OffHeaderSize, h.HeaderSize)
	case h.RingID == 0:
		return fmt.Errorf("%w: byte %d: ring id 0", ErrCorrupt, OffRingID)
	case bits.OnesCount64(h.SlotCount) != 1 || h.SlotCount > maxSlots:
		return fmt.Errorf("%w: byte %d: %d slots, want a power of two, at most %d", ErrCorrupt, OffSlotCount,
			h.SlotCount, maxSlots)
	case h.SlotsOffset < h.HeaderSize || h.SlotsOffset > size || h.SlotsOffset%SlotSize != 0:
		return fmt.Errorf("%w: byte %d: slots begin at byte %d, header ends at %d, file has %d", ErrCorrupt,
			OffSlotsOffset, h.SlotsOffset, h.HeaderSize, size)
	case slotsEnd > size:
		return fmt.Errorf("%w: slots end at byte %d, file has %d", ErrCorrupt, slotsEnd, size)
	case h.NamesOffset < slotsEnd || h.NamesOffset > size:
		return fmt.Errorf("%w: byte %d: names begin at byte %d, slots end at %d, file has %d", ErrCorrupt,
			OffNamesOffset, h.NamesOffset, slotsEnd, size)
	case h.NamesSize > maxNamesSize || h.NamesOffset+h.NamesSize > size:
		return fmt.Errorf("%w: names end at byte %d, file has %d", ErrCorrupt, h.NamesOffset+h.NamesSize, size)
	}
	return h.checkLive(h.Live)
}

func (h *Header) checkLive(l Live) error {
	if l.State >= uint64(len(States)) {
		return fmt.Errorf("%w: byte %d: state %d", ErrCorrupt, OffState, l.State)
	}
	return nil
}

// readInfo reads the description of the process; slot size is checked by the caller's constants, text by us.
func readInfo(b []byte) (map[string]string, error) {
	if n := le.Uint32(b[OffSlotSize:]); n != SlotSize {
		return nil, fmt.Errorf("%w: byte %d: slots of %d bytes, want %d", ErrCorrupt, OffSlotSize, n, SlotSize)
	}
	n := int64(le.Uint32(b[InfoOffset:]))
	if n > HeaderSize-InfoOffset-4 {
		return nil, fmt.Errorf("%w: byte %d: description of %d bytes, at most %d", ErrCorrupt, InfoOffset, n,
			HeaderSize-InfoOffset-4)
	}
	return ParseInfo(string(b[InfoOffset+4:][:n])), nil
}

// ParseInfo reads lines of "key TAB value"; a line that is not one is ignored, as is text that is no UTF-8.
func ParseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(strings.ToValidUTF8(text, "\uFFFD")) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			info[key] = infoUnescape.Replace(value)
		}
	}
	return info
}

var (
	infoUnescape = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\r`, "\r")
	infoEscape   = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\t", `\t`, "\r", `\r`)
)

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

func valid(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
