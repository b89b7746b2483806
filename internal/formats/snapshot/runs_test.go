package snapshot

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// pythonic writes a pickle of protocol 4 as Python does: each value into the memo, and what was there from it.
type pythonic struct {
	bytes.Buffer
	memo   uint32
	texts  map[string]uint32
	frames []uint32 // their places in the memo
}

func (p *pythonic) memoize() uint32 {
	p.WriteByte(0x94)
	p.memo++
	return p.memo - 1
}

func (p *pythonic) get(i uint32) {
	if i < 256 {
		p.Write([]byte{'h', byte(i)})
		return
	}
	p.Write(binary.LittleEndian.AppendUint32([]byte{'j'}, i))
}

func (p *pythonic) text(s string) {
	if len(s) < 256 {
		p.Write([]byte{0x8c, byte(len(s))})
	} else {
		p.Write(binary.LittleEndian.AppendUint32([]byte{'X'}, uint32(len(s))))
	}
	p.WriteString(s)
	p.memoize()
}

// known is a text that all its users share.
func (p *pythonic) known(s string) {
	if i, ok := p.texts[s]; ok {
		p.get(i)
		return
	}
	p.texts[s] = p.memo
	p.text(s)
}

func (p *pythonic) open(container byte) uint32 {
	p.WriteByte(container)
	i := p.memoize()
	p.WriteByte('(')
	return i
}

func (p *pythonic) number(n int) { p.Write(binary.LittleEndian.AppendUint32([]byte{'J'}, uint32(n))) }

// event writes one whose stack has frames of these numbers; the first event of a file has them all, and says what
// they are.
func (p *pythonic) event(i int, lines []int, note string) {
	p.open('}')
	p.known("action")
	p.known("alloc")
	p.known("addr")
	p.number(i << 9)
	p.known("size")
	p.number(512)
	p.known("frames")
	p.open(']')
	for _, f := range lines {
		if f < len(p.frames) {
			p.get(p.frames[f])
			continue
		}
		p.frames = append(p.frames, p.open('}'))
		p.known("name")
		p.known("f")
		p.known("filename")
		p.known("/srv/train.py")
		p.known("line")
		p.number(f)
		p.WriteByte('u')
	}
	p.WriteByte('e')
	if note != "" {
		p.known("user_metadata")
		p.text(note)
	}
	p.WriteByte('u')
}

// TestRunsAcrossPieces: lists of frames are found wherever the input is divided, lists longer than slack and behind
// texts as long as a piece too; a text that looks like one is none; every event gets the stack that it has.
func TestRunsAcrossPieces(t *testing.T) {
	const frames, events = 500, 12_000
	rnd := rand.New(rand.NewPCG(5, 6))
	p := &pythonic{texts: map[string]uint32{}}
	p.Write([]byte{0x80, 4})
	p.open('}')
	p.text("device_traces")
	p.open(']')
	p.open(']')
	stacks, notes := make([][]int, events), make([]string, events)
	for i := range events {
		switch n := rnd.IntN(100); {
		case i == 0:
			for f := range frames {
				stacks[i] = append(stacks[i], f)
			}
		case n < 70:
			stacks[i] = stacks[rnd.IntN(i)]
		default:
			stacks[i] = randomFrames(rnd, 1+rnd.IntN(100), frames)
		}
		switch {
		case i%4000 == 3999:
			stacks[i] = randomFrames(rnd, 60_000, frames)
		case i%5000 == 4998:
			notes[i] = strings.Repeat("x", maxText-rnd.IntN(3))
		case i%7 == 0:
			notes[i] = strings.Repeat("]\x94(h\x01h\x02e", 9)
		}
		p.event(i, stacks[i], notes[i])
	}
	p.WriteString("eeu.")
	c := columns(t, p.Bytes())
	if c.Len() != events {
		t.Fatalf("%d events, want %d", c.Len(), events)
	}
	for i := range events {
		var got []int
		for _, f := range c.StackFrames(c.Stack[i]) {
			_, _, line := c.FrameTexts(f)
			got = append(got, line)
		}
		if !slices.Equal(got, stacks[i]) {
			t.Fatalf("event %d: a stack of %d frames, want %d", i, len(got), len(stacks[i]))
		}
		if c.Text(c.Metadata[i]) != notes[i] || c.Addr[i] != uint64(i<<9) {
			t.Fatalf("event %d: address %#x, another note", i, c.Addr[i])
		}
	}
}

func randomFrames(rnd *rand.Rand, n, of int) (frames []int) {
	for range n {
		frames = append(frames, rnd.IntN(of))
	}
	return frames
}

// TestRunFinder: equal runs have equal numbers, others have not, and what is no run is none.
func TestRunFinder(t *testing.T) {
	f := runFinder{known: newInterner()}
	tail := strings.Repeat("N", 40) // the search ends some bytes before the end of a piece
	in := "]\x94(h\x01h\x02e" + "]\x94(j\x01\x02\x03\x04h\x02eN" + "]\x94(e" + "]\x94(h\x01N" + "](h\x01e" +
		"]\x94(h\x01h\x02e" + tail
	got := f.find(nil, []byte(in), 1000)
	want := []run{{1003, 4, 0}, {1011, 7, 1}, {1038, 4, 0}}
	if !slices.Equal(got, want) {
		t.Errorf("runs %v, want %v", got, want)
	}
	for n := range len(in) { // a part of them, whatever the piece
		part := f.find(nil, []byte(in[:n]), 1000)
		if !slices.Equal(part, want[:len(part)]) {
			t.Errorf("of %d bytes: runs %v", n, part)
		}
	}
}
