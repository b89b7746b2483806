package native

import (
	"strings"
	"unicode/utf16"
)

// lineAt is the line of an instruction, lasti bytes into its function's code, by the table of its Python's version. An
// instruction without a line, or behind what was kept of the table, has its function's first line.
func lineAt(minor int, table []byte, first, lasti int) int {
	switch {
	case minor < 10:
		return lineBefore310(table, first, lasti)
	case minor == 10:
		return lineOf310(table, first, lasti)
	}
	return lineSince311(table, first, lasti)
}

// lineBefore310: Objects/lnotab_notes.txt of CPython 3.9.
func lineBefore310(table []byte, first, lasti int) int {
	line, addr := first, 0
	for i := 0; i+1 < len(table); i += 2 {
		if addr += int(table[i]); addr > lasti {
			break
		}
		line += int(int8(table[i+1]))
	}
	return line
}

// lineOf310: Objects/lnotab_notes.txt of CPython 3.10.
func lineOf310(table []byte, first, lasti int) int {
	line, end := first, 0
	for i := 0; i+1 < len(table); i += 2 {
		end += int(table[i])
		delta := int8(table[i+1])
		if delta != -128 {
			line += int(delta)
		}
		if lasti < end {
			if delta == -128 {
				return first
			}
			return line
		}
	}
	return first
}

// lineSince311: Objects/locations.md of CPython 3.11 and later.
func lineSince311(table []byte, first, lasti int) int {
	line, end := first, 0
	for i := 0; i < len(table); {
		kind := table[i] >> 3 & 15
		end += 2 * (int(table[i]&7) + 1)
		i++
		switch {
		case kind == 15: // no location
		case kind == 14 || kind == 13: // with columns, without
			v, n := varint(table[i:])
			line += int(v>>1) * (1 - 2*int(v&1))
			i += n
			if kind == 14 {
				for range 3 {
					_, n := varint(table[i:])
					i += n
				}
			}
		case kind >= 10: // 0 to 2 lines further
			line += int(kind) - 10
			i += 2
		default:
			i++
		}
		if lasti < end {
			if kind == 15 {
				return first
			}
			return line
		}
		i = min(i, len(table))
	}
	return first
}

// varint has six bits in each byte, the lowest first. n is 0 at the end of the table.
func varint(b []byte) (v uint64, n int) {
	for shift := 0; n < len(b) && shift < 60; shift += 6 {
		v |= uint64(b[n]&63) << shift
		n++
		if b[n-1]&64 == 0 {
			break
		}
	}
	return v, n
}

// decode is a text of CPython: kind is the bytes of each character.
func decode(data []byte, kind uint8) string {
	var b strings.Builder
	switch kind {
	case 2:
		units := make([]uint16, len(data)/2)
		for i := range units {
			units[i] = uint16(data[2*i]) | uint16(data[2*i+1])<<8
		}
		return string(utf16.Decode(units))
	case 4:
		for i := 0; i+3 < len(data); i += 4 {
			b.WriteRune(rune(uint32(data[i]) | uint32(data[i+1])<<8 | uint32(data[i+2])<<16 | uint32(data[i+3])<<24))
		}
	default:
		for _, c := range data {
			b.WriteRune(rune(c))
		}
	}
	return b.String()
}
