package flame

import (
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
)

// This file writes pprof's profile.proto itself: at every start of the program, pprof's Go package would compile a
// dozen patterns for formats that we never read. Field numbers:
// https://github.com/google/pprof/blob/main/proto/profile.proto

// message is a protocol buffer that is being written.
type message []byte

// number adds a varint; zero is the default and is left out.
func (m *message) number(field int, v uint64) {
	if v != 0 {
		*m = binary.AppendUvarint(binary.AppendUvarint(*m, uint64(field)<<3), v)
	}
}

// bytes adds a text, a message or packed numbers (wire type 2).
func (m *message) bytes(field int, b []byte) {
	*m = binary.AppendUvarint(binary.AppendUvarint(*m, uint64(field)<<3|2), uint64(len(b)))
	*m = append(*m, b...)
}

// pprofFile is a profile with what its messages refer to by number.
type pprofFile struct {
	message
	texts     map[string]uint64 // text 0 is empty
	functions map[Frame]uint64  // by file and name, from 1
	locations map[Frame]uint64  // from 1
}

func newPprofFile() *pprofFile {
	p := &pprofFile{texts: map[string]uint64{}, functions: map[Frame]uint64{}, locations: map[Frame]uint64{}}
	p.text("")
	return p
}

func (p *pprofFile) text(s string) uint64 {
	if n, ok := p.texts[s]; ok {
		return n
	}
	n := uint64(len(p.texts))
	p.texts[s] = n
	p.bytes(6, []byte(s)) // Profile.string_table
	return n
}

func (p *pprofFile) function(f Frame) uint64 {
	key := Frame{File: f.File, Name: f.Name}
	if n := p.functions[key]; n != 0 {
		return n
	}
	n := uint64(len(p.functions) + 1)
	p.functions[key] = n
	var m message
	m.number(1, n)
	m.number(2, p.text(f.Name))
	m.number(3, p.text(f.Name)) // system_name
	m.number(4, p.text(f.File))
	p.bytes(5, m) // Profile.function
	return n
}

func (p *pprofFile) location(f Frame) uint64 {
	if n := p.locations[f]; n != 0 {
		return n
	}
	n := uint64(len(p.locations) + 1)
	p.locations[f] = n
	var line, m message
	line.number(1, p.function(f))
	line.number(2, uint64(int64(f.Line)))
	m.number(1, n)
	m.bytes(4, line)
	p.bytes(4, m) // Profile.location
	return n
}

// sample adds a stack, outermost frame first, and the bytes that its last frame itself holds.
func (p *pprofFile) sample(stack []*Node, own int64) {
	var locations []byte
	for i := len(stack) - 1; i >= 0; i-- { // innermost first
		locations = binary.AppendUvarint(locations, p.location(stack[i].Frame))
	}
	var m message
	m.bytes(1, locations)
	m.bytes(2, binary.AppendUvarint(nil, uint64(own)))
	p.bytes(2, m) // Profile.sample
}

// pieceBytes are compressed at once.
const pieceBytes = 64 << 10

// WritePprof writes a gzipped profile for `go tool pprof`, with bytes as its only value.
func (g *Graph) WritePprof(w io.Writer) error {
	p := newPprofFile()
	var kind message
	kind.number(1, p.text("inuse_space"))
	kind.number(2, p.text("bytes"))
	p.bytes(1, kind) // Profile.sample_type
	for _, comment := range append([]string{g.Title}, g.Comments...) {
		p.number(13, p.text(comment)) // Profile.comment
	}
	z := gzip.NewWriter(w)
	var err error
	flush := func(least int) { // all samples together are much larger than the graph
		if err == nil && len(p.message) > least {
			_, err = z.Write(p.message)
			p.message = p.message[:0]
		}
	}
	g.leaves(func(stack []*Node, own int64) {
		p.sample(stack, own)
		flush(pieceBytes)
	})
	flush(0)
	return errors.Join(err, z.Close())
}
