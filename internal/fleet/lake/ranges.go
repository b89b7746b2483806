package lake

import (
	"slices"
)

// span is row numbers from, to, both included.
type span [2]uint64

// ranges are numbers as spans, ascending, with gaps between them.
type ranges []span

// add puts a span in.
func (r ranges) add(s span) ranges {
	out := make(ranges, 0, len(r)+1)
	at := len(r)
	for i, have := range r {
		switch {
		case have[1]+1 < s[0]:
			out = append(out, have)
		case s[1]+1 < have[0]:
			at = min(at, i)
		default:
			s = span{min(s[0], have[0]), max(s[1], have[1])}
		}
	}
	return append(append(out, s), r[at:]...)
}

// minus are the parts of a span that are not in r.
func (r ranges) minus(s span) (out ranges) {
	for _, have := range r {
		if have[1] < s[0] || have[0] > s[1] {
			continue
		}
		if have[0] > s[0] {
			out = append(out, span{s[0], have[0] - 1})
		}
		if have[1] >= s[1] {
			return out
		}
		s[0] = have[1] + 1
	}
	return append(out, s)
}

// ledger says which rows of which sender's streams are in a file or a partition.
type ledger map[string]ranges

func (l ledger) add(stream string, s span) { l[stream] = l[stream].add(s) }

func (l ledger) addAll(other ledger) {
	for stream, list := range other {
		for _, s := range list {
			l.add(stream, s)
		}
	}
}

// Bounds of ledgers, in bytes of their texts, which is about the memory that they take. A node may have some 20 streams
// of a partition, or stretches in them, whatever others have; more where there is room. So that of 20,000 nodes, which
// are as many as a hub knows, is no larger than a marker may be, whatever names were made up. Variables for tests.
var (
	fewCosts   = int64(maxMarker / 2 / 20_000)
	maxCosts   = int64(maxMarker / 2)
	maxLedgers = int64(256 << 20) // of all partitions of a writer: those of a thousand nodes take 10 MB
)

// costOf is about what a stream takes in a marker and in memory.
func costOf(stream string, r ranges) int64 {
	if len(r) == 0 {
		return 0
	}
	return int64(len(stream) + 8 + 32*len(r))
}

// costs are those of a ledger's streams by node, and of all.
func (l ledger) costs() (of map[string]int64, all int64) {
	of = map[string]int64{}
	for stream, r := range l {
		cost := costOf(stream, r)
		of[nodeOf(stream)] += cost
		all += cost
	}
	return of, all
}

// fresh are the rows of other that are not in l, and whether those are all of them.
func (l ledger) fresh(other ledger) (out ledger, all bool) {
	out, all = ledger{}, true
	for stream, list := range other {
		for _, s := range list {
			left := l[stream].minus(s)
			all = all && slices.Equal(left, ranges{s})
			for _, x := range left {
				out.add(stream, x)
			}
		}
	}
	return out, all
}
