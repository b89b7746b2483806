package wire

// Check is the last word of a record: it changes with the record's number and its time, so that a slot which is half
// old, half new is recognised. It is not a checksum of the payload: that would cost the trainer more than the record.
func Check(seq, ts uint64) uint32 { return uint32(seq*CheckMix) ^ uint32(ts) }

// SlotSeq is the number a slot says it holds.
func SlotSeq(s *[SlotSize]byte) uint64 { return le.Uint64(s[:]) }

// SlotKind is the kind of record that a slot says it holds.
func SlotKind(s *[SlotSize]byte) uint8 { return s[16] }

// Whole reports whether the slot holds the complete record number seq.
func Whole(s *[SlotSize]byte, seq uint64) bool {
	return le.Uint64(s[:]) == seq && le.Uint32(s[CheckOffset:]) == Check(seq, le.Uint64(s[8:]))
}

// SlotTS is the time, in ns of CLOCK_MONOTONIC, that a slot says it holds.
func SlotTS(s *[SlotSize]byte) uint64 { return le.Uint64(s[8:]) }
