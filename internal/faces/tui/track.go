package tui

import (
	"sort"
)

// maxPoints bounds each series in memory: more than the columns of any terminal, and after thinning still more. A job
// of 100 processes then takes some 50 MiB.
const maxPoints = 4096

// track is a series of readings in the order of time, thinned so that it stays within maxPoints. What two neighbours
// become is said by keep: the higher of two memories, the lower of two floors. It belongs to one goroutine.
type track[T any] struct {
	at   []int64 // µs since the epoch, rising
	v    []T
	keep func(a, b T) T
}

func newTrack[T any](keep func(a, b T) T) *track[T] { return &track[T]{keep: keep} }

// add appends a reading; one that is older than the newest is dropped: it has been read before.
func (s *track[T]) add(at int64, v T) {
	if n := len(s.at); n > 0 && at <= s.at[n-1] {
		return
	}
	s.at, s.v = append(s.at, at), append(s.v, v)
	if len(s.at) >= maxPoints {
		s.thin()
	}
}

// thin merges the older three quarters into slices of equal time, so that a day's beginning is not coarser than its
// middle; the newest quarter, which is looked at most closely, stays as it is.
func (s *track[T]) thin() {
	old := len(s.at) / 4 * 3
	first := s.at[0]
	slice := max(1, (s.at[old-1]-first)/(maxPoints/4))
	n := 0
	for i := 1; i < old; i++ {
		if (s.at[i]-first)/slice == (s.at[n]-first)/slice {
			s.at[n], s.v[n] = s.at[i], s.keep(s.v[n], s.v[i])
			continue
		}
		n++
		s.at[n], s.v[n] = s.at[i], s.v[i]
	}
	n++
	s.at = append(s.at[:n], s.at[old:]...)
	s.v = append(s.v[:n], s.v[old:]...)
}

// upTo is how many readings there are until a time.
func (s *track[T]) upTo(t int64) int {
	return sort.Search(len(s.at), func(i int) bool { return s.at[i] > t })
}

// when gives the newest reading until t, if it is not older than stale (µs).
func (s *track[T]) when(t, stale int64) (v T, ok bool) {
	if s == nil {
		return v, false
	}
	i := s.upTo(t) - 1
	if i < 0 || t-s.at[i] > stale {
		return v, false
	}
	return s.v[i], true
}

// over gives for each of n equal slices of [from, to] what its readings amount to. A slice without any has the one
// before, unless that is older than stale.
func (s *track[T]) over(from, to int64, n int, stale int64) (v []T, ok []bool) {
	v, ok = make([]T, n), make([]bool, n)
	if s == nil || to <= from {
		return v, ok
	}
	i := s.upTo(from)
	for k := range n {
		end := from + int64(float64(to-from)*float64(k+1)/float64(n))
		first := i
		for i < len(s.at) && s.at[i] <= end {
			if i == first {
				v[k] = s.v[i]
			} else {
				v[k] = s.keep(v[k], s.v[i])
			}
			i++
		}
		switch {
		case i > first:
			ok[k] = true
		case i > 0 && end-s.at[i-1] <= stale:
			v[k], ok[k] = s.v[i-1], true
		}
	}
	return v, ok
}

func (s *track[T]) first() int64 {
	if s == nil || len(s.at) == 0 {
		return 0
	}
	return s.at[0]
}

func (s *track[T]) last() int64 {
	if s == nil || len(s.at) == 0 {
		return 0
	}
	return s.at[len(s.at)-1]
}
