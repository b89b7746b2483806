package snapshot

import "bytes"

// This file finds lists of frames in the input before it is decoded. Most of a snapshot's bytes are such lists, and
// nearly all of them were there before. A memo entry is written once, so the bytes of a run of memo reads are its
// identity: this needs no decoder, and so it is done beside one, on another core.

// run is a list of frames that were all met before: the operands of EMPTY_LIST MEMOIZE MARK (BINGET|LONG_BINGET)*
// APPENDS. Where those bytes are part of something else, the decoder does not ask for it.
type run struct {
	at  int64  // where the memo reads begin, in the input
	len uint32 // bytes; APPENDS follows
	id  uint32 // equal runs have equal numbers; noRun where it was not kept
}

const noRun = ^uint32(0)

// carriedRuns is how many runs of the piece before may stand in front of a piece's own: of the few kilobytes that were
// not decoded yet. The decoder looks itself where one is missing.
const carriedRuns = 256

// maxRunBytes bounds the runs that are kept, in bytes.
const maxRunBytes = 256 << 20

// runFinder numbers runs.
type runFinder struct {
	known interner
	hits  int
}

// find appends the runs of a part of the input that begins at base. One that does not end in it is left out.
func (f *runFinder) find(runs []run, b []byte, base int64) []run {
	for p := 0; ; {
		i := bytes.IndexByte(b[p:], ']')
		if i < 0 || p+i+3 > len(b) {
			return runs
		}
		p += i + 1
		if b[p] != 0x94 || b[p+1] != '(' {
			continue
		}
		from := p + 2
		if p = endOfRun(b, from); p > from && b[p] == 'e' {
			runs = append(runs, run{base + int64(from), uint32(p - from), f.number(b[from:p])})
		}
	}
}

func (f *runFinder) number(b []byte) uint32 {
	id, known, slot, place := f.known.find(b)
	switch {
	case known:
		f.hits++
	case len(f.known.blob)+len(b) < maxRunBytes && (id < 1<<17 || f.hits > int(id)):
		f.known.insert(b, slot, place)
	default: // stacks don't recur: the runs are not worth their memory
		return noRun
	}
	return id
}

// endOfRun is where a run of BINGET and LONG_BINGET ends. Less than 24 bytes before the end of b it stops looking.
func endOfRun(b []byte, p int) int {
	for p < len(b)-24 {
		if b[p] == 'j' && b[p+5] == 'j' && b[p+10] == 'j' && b[p+15] == 'j' {
			p += 20
			continue
		}
		switch b[p] {
		case 'j':
			p += 5
		case 'h':
			p += 2
		default:
			return p
		}
	}
	return p
}
