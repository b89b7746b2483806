package main

import (
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"math/bits"
	"slices"
)

// Deflate (RFC 1951) with matches of three bytes as well. compress/flate and its like in Go begin at four, which makes
// machine code 3 % larger. What it makes depends on the data alone.

const (
	window    = 1 << 15
	leastCopy = 3
	mostCopy  = 258
	tries     = 128     // earlier places that are compared at most: four times as many gain half a per cent
	enough    = 128     // a copy so long is taken without a look whether the next byte begins a longer one
	tooFar    = 4096    // a copy of three bytes from farther away costs more than the bytes
	blockSize = 1 << 15 // symbols that share their codes
	hashBits  = 15
)

// symbol is a byte, or a copy of so many bytes from so far back.
type symbol struct {
	length, back uint16 // length 0: back is a byte
}

// compressor keeps what is written and compresses it when it is closed.
type compressor struct {
	bytes.Buffer
	to io.Writer
}

// Close writes what a reader gives back unchanged, or nothing.
func (c *compressor) Close() error {
	out := deflate(c.Bytes())
	again, err := io.ReadAll(flate.NewReader(bytes.NewReader(out)))
	if err != nil || !bytes.Equal(again, c.Bytes()) {
		return errors.Join(errors.New("deflate: it can't be read back"), err)
	}
	_, err = c.to.Write(out)
	return err
}

func deflate(data []byte) []byte {
	var w bitWriter
	m := matcher{data: data, head: make([]int32, 1<<hashBits), before: make([]int32, window)}
	block := make([]symbol, 0, blockSize)
	emit := func(s symbol) {
		if block = append(block, s); len(block) == blockSize {
			w.block(block, false)
			block = block[:0]
		}
	}
	for at := 0; at < len(data); {
		here := m.best(at)
		if here.length == 0 {
			emit(symbol{back: uint16(data[at])})
			at++
			continue
		}
		// a longer copy may begin at the next byte
		for at+1 < len(data) && here.length < enough {
			next := m.best(at + 1)
			if next.length <= here.length {
				break
			}
			emit(symbol{back: uint16(data[at])})
			at, here = at+1, next
		}
		emit(here)
		at += int(here.length)
	}
	w.block(block, true)
	return w.out
}

// matcher finds what was there before.
type matcher struct {
	data         []byte
	head, before []int32 // places of three bytes by their hash, from 1: the last, and of each place the one before it
	known        int     // places below are in these
}

func (m *matcher) hash(at int) uint32 {
	d := m.data[at:]
	return (uint32(d[0])<<16 | uint32(d[1])<<8 | uint32(d[2])) * 0x9E3779B1 >> (32 - hashBits)
}

// best is the longest copy of what begins at a place; of equally long ones the nearest.
func (m *matcher) best(at int) (found symbol) {
	for ; m.known < at && m.known+leastCopy <= len(m.data); m.known++ {
		h := m.hash(m.known)
		m.before[m.known%window], m.head[h] = m.head[h], int32(m.known+1)
	}
	most := min(mostCopy, len(m.data)-at)
	if most < leastCopy {
		return found
	}
	here := m.data[at : at+most]
	length := leastCopy - 1
	place := int(m.head[m.hash(at)]) - 1
	for range tries {
		if place < 0 || at-place > window {
			break
		}
		there := m.data[place : place+most]
		if there[length] == here[length] && there[0] == here[0] {
			n := 0
			for n < most && there[n] == here[n] {
				n++
			}
			if n > length && (n > leastCopy || at-place <= tooFar) {
				length, found = n, symbol{uint16(n), uint16(at - place)}
				if n == most {
					break
				}
			}
		}
		earlier := int(m.before[place%window]) - 1
		if earlier >= place {
			break
		}
		place = earlier
	}
	return found
}

// bitWriter writes the lowest bits first.
type bitWriter struct {
	out  []byte
	bits uint64
	n    int
}

func (w *bitWriter) write(v uint32, n int) {
	w.bits |= uint64(v) << w.n
	for w.n += n; w.n >= 8; w.n -= 8 {
		w.out = append(w.out, byte(w.bits))
		w.bits >>= 8
	}
}

// class is the code of a value, and the extra bits behind it: values below split have codes of their own, each doubling
// above it has half as many.
func class(v uint32, split int) (code int, extra uint32, n int) {
	if v < uint32(split) {
		return int(v), 0, 0
	}
	n = bits.Len32(v) - bits.Len32(uint32(split)) + 1
	return n*split/2 + int(v>>n), v & (1<<n - 1), n
}

const (
	endOfBlock  = 256
	firstLength = 257 // code of a copy of three bytes
	longest     = 285 // of one of 258, which needs no extra bits
	literals    = 286
	distances   = 30
)

func (s symbol) lengthClass() (code int, extra uint32, n int) {
	if s.length == mostCopy {
		return longest, 0, 0
	}
	code, extra, n = class(uint32(s.length)-leastCopy, 8)
	return firstLength + code, extra, n
}

func (s symbol) backClass() (code int, extra uint32, n int) { return class(uint32(s.back)-1, 4) }

// block writes symbols with codes of their own.
func (w *bitWriter) block(symbols []symbol, last bool) {
	counts, backs := make([]int, literals), make([]int, distances)
	counts[endOfBlock] = 1
	for _, s := range symbols {
		if s.length == 0 {
			counts[s.back]++
			continue
		}
		code, _, _ := s.lengthClass()
		counts[code]++
		code, _, _ = s.backClass()
		backs[code]++
	}
	const most = 15 // bits of a code
	main, back := newCode(counts, most), newCode(backs, most)
	final := uint32(0)
	if last {
		final = 1
	}
	w.write(final|2<<1, 3) // with dynamic codes
	w.codes(main.trimmed(firstLength), back.trimmed(1))
	for _, s := range symbols {
		if s.length == 0 {
			w.put(main, int(s.back))
			continue
		}
		code, extra, n := s.lengthClass()
		w.put(main, code)
		w.write(extra, n)
		code, extra, n = s.backClass()
		w.put(back, code)
		w.write(extra, n)
	}
	w.put(main, endOfBlock)
	if last {
		w.write(0, 7) // to the end of a byte
	}
}

func (w *bitWriter) put(c code, symbol int) { w.write(c.bits[symbol], int(c.lengths[symbol])) }

// order is in which the lengths of the codes for lengths come.
var order = [...]int{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// codes writes the lengths of both codes, runs of equal ones as one.
func (w *bitWriter) codes(literals, distances []uint8) {
	type run struct {
		symbol, n int
		extra     uint32
	}
	var runs []run
	all := append(append([]uint8{}, literals...), distances...)
	for i := 0; i < len(all); {
		n := 1
		for i+n < len(all) && all[i+n] == all[i] {
			n++
		}
		i += n
		value := int(all[i-1])
		if value != 0 { // 16 repeats the one before
			runs = append(runs, run{symbol: value})
			n--
		}
		for n > 0 {
			switch {
			case value == 0 && n >= 11:
				k := min(n, 138)
				runs, n = append(runs, run{18, 7, uint32(k - 11)}), n-k
			case value == 0 && n >= 3:
				runs, n = append(runs, run{17, 3, uint32(n - 3)}), 0
			case value != 0 && n >= 3:
				k := min(n, 6)
				runs, n = append(runs, run{16, 2, uint32(k - 3)}), n-k
			default:
				runs, n = append(runs, run{symbol: value}), n-1
			}
		}
	}
	counts := make([]int, len(order))
	for _, r := range runs {
		counts[r.symbol]++
	}
	c, used := newCode(counts, 7), len(order)
	for c.lengths[order[used-1]] == 0 {
		used--
	}
	w.write(uint32(len(literals)-firstLength), 5)
	w.write(uint32(len(distances)-1), 5)
	w.write(uint32(used-4), 4)
	for _, symbol := range order[:used] {
		w.write(uint32(c.lengths[symbol]), 3)
	}
	for _, r := range runs {
		w.put(c, r.symbol)
		w.write(r.extra, r.n)
	}
}

// code is a canonical Huffman code.
type code struct {
	lengths []uint8
	bits    []uint32 // the first bit is the lowest
}

// newCode makes the code for symbols by how often they come, of at most so many bits.
func newCode(counts []int, most int) code {
	lengths := huffman(counts)
	for counts = slices.Clone(counts); int(slices.Max(lengths)) > most; lengths = huffman(counts) {
		for i, n := range counts {
			counts[i] = (n + 1) / 2 // they come closer to each other, and none is 0 that wasn't
		}
	}
	c := code{lengths, make([]uint32, len(lengths))}
	next := uint32(0)
	for length := 1; length <= most; length++ {
		next <<= 1
		for i, l := range lengths {
			if int(l) == length {
				c.bits[i] = bits.Reverse32(next) >> (32 - length)
				next++
			}
		}
	}
	return c
}

// trimmed are the lengths up to the last symbol that is used, of at least so many symbols.
func (c code) trimmed(least int) []uint8 {
	n := len(c.lengths)
	for n > least && c.lengths[n-1] == 0 {
		n--
	}
	return c.lengths[:n]
}

// huffman gives the lengths of the best codes; one alone has a bit.
func huffman(counts []int) []uint8 {
	type node struct{ count, above int }
	var nodes []node
	var leaves []int
	for i, n := range counts {
		if n > 0 {
			leaves = append(leaves, i)
		}
	}
	slices.SortStableFunc(leaves, func(a, b int) int { return counts[a] - counts[b] })
	for _, i := range leaves {
		nodes = append(nodes, node{count: counts[i]})
	}
	leaf, inner := 0, len(leaves) // the next ones that have nothing above them: both lists are in order
	least := func() int {
		if leaf < len(leaves) && (inner >= len(nodes) || nodes[leaf].count <= nodes[inner].count) {
			leaf++
			return leaf - 1
		}
		inner++
		return inner - 1
	}
	for range len(leaves) - 1 {
		a, b := least(), least()
		nodes[a].above, nodes[b].above = len(nodes), len(nodes)
		nodes = append(nodes, node{count: nodes[a].count + nodes[b].count})
	}
	lengths, depth := make([]uint8, len(counts)), make([]uint8, len(nodes))
	for i := len(nodes) - 2; i >= 0; i-- {
		depth[i] = depth[nodes[i].above] + 1
	}
	for i, symbol := range leaves {
		lengths[symbol] = max(1, depth[i])
	}
	return lengths
}
