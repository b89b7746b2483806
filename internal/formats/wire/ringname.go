package wire

import (
	"strconv"
	"strings"
)

// RingSuffix ends the name of a ring's file, which is PID.START.GENERATION.ring.
const RingSuffix = ".ring"

// RingName is the parsed name of a ring's file.
type RingName struct {
	PID        int
	Start      uint64 // of the process, in clock ticks since boot
	Generation uint64 // 0 for the small ring, which a process has first
}

// ParseRingName reads the name of a ring's file; ok is false for every other name.
func ParseRingName(name string) (n RingName, ok bool) {
	stem, ok := strings.CutSuffix(name, RingSuffix)
	parts := strings.Split(stem, ".")
	if !ok || len(parts) != 3 {
		return RingName{}, false
	}
	pid, err1 := strconv.ParseUint(parts[0], 10, 31)
	start, err2 := strconv.ParseUint(parts[1], 10, 64)
	generation, err3 := strconv.ParseUint(parts[2], 10, 32)
	return RingName{int(pid), start, generation}, err1 == nil && err2 == nil && err3 == nil
}
