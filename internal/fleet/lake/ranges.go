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
