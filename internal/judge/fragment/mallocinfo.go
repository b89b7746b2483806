package fragment

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// malloc_info(3): glibc malloc/malloc.c, __malloc_info. Sizes are those of chunks, which have a header of 16 bytes;
// <size from to> are the smallest and the largest chunk of a bin; "rest" is all bins and the top chunk, "fast" the fast
// bins.
type (
	mallocInfo struct {
		XMLName xml.Name     `xml:"malloc"`
		Heaps   []mallocHeap `xml:"heap"`
		Totals  []heapTotal  `xml:"total"`
		System  []heapSystem `xml:"system"`
	}
	mallocHeap struct {
		Sizes    []heapSize   `xml:"sizes>size"`
		Unsorted []heapSize   `xml:"sizes>unsorted"`
		Totals   []heapTotal  `xml:"total"`
		System   []heapSystem `xml:"system"`
	}
	heapSize struct {
		From  int64 `xml:"from,attr"`
		To    int64 `xml:"to,attr"`
		Total int64 `xml:"total,attr"`
		Count int64 `xml:"count,attr"`
	}
	heapTotal struct {
		Type  string `xml:"type,attr"`
		Count int64  `xml:"count,attr"`
		Size  int64  `xml:"size,attr"`
	}
	heapSystem struct {
		Type string `xml:"type,attr"`
		Size int64  `xml:"size,attr"`
	}
)

const (
	pageSize    = 4096
	chunkHeader = 32      // bytes of a free chunk that stay: size, links (struct malloc_chunk)
	maxInfo     = 4 << 20 // an arena has some 130 bins of 70 bytes of text, and there are at most 8 arenas a core
)

// OfMallocInfo reads what malloc_info(3) writes.
func OfMallocInfo(text string) (State, error) {
	if len(text) > maxInfo {
		return State{}, fmt.Errorf("read malloc_info: %d bytes, at most %d", len(text), maxInfo)
	}
	var info mallocInfo
	if err := xml.NewDecoder(strings.NewReader(text)).Decode(&info); err != nil {
		return State{}, fmt.Errorf("read malloc_info: %w", err)
	}
	s := State{Source: "glibc's malloc_info", Pieces: len(info.Heaps)}
	var pages int64
	for _, h := range info.Heaps {
		pages += s.ofHeap(h)
	}
	mapped := total(info.Totals, "mmap").Size
	s.Held += mapped
	s.InUse += mapped
	s.Reclaimable = s.Spare + pages
	if s.Held < 0 || s.InUse < 0 || s.Holes.Bytes > s.Held {
		return State{}, fmt.Errorf("read malloc_info: %d bytes free of %d held", s.Holes.Bytes, s.Held)
	}
	return s, nil
}

// ofHeap adds an arena; it returns the bytes of whole pages in its holes, which malloc_trim(3) would give back.
func (s *State) ofHeap(h mallocHeap) (pages int64) {
	system := int64(0)
	for _, y := range h.System {
		if y.Type == "current" {
			system = y.Size
		}
	}
	var holes int64
	for _, b := range append(h.Sizes, h.Unsorted...) {
		s.Holes.add(b.From, b.To, b.Count, b.Total)
		if b.Count > 0 && b.Total > 0 {
			holes += b.Total
			pages += b.Count * wholePages(b.Total/b.Count)
		}
	}
	free := total(h.Totals, "rest").Size + total(h.Totals, "fast").Size
	s.Held += system
	s.InUse += system - free
	s.Spare += max(0, free-holes) // the top chunk, which is in no bin
	return pages
}

// wholePages returns the bytes of pages that a hole of a size covers entirely, averaged over where it begins.
func wholePages(size int64) int64 {
	return max(0, size-chunkHeader-pageSize+1)
}

func total(list []heapTotal, kind string) heapTotal {
	for _, t := range list {
		if t.Type == kind {
			return t
		}
	}
	return heapTotal{}
}
