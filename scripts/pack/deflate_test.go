package main

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestDeflate: whatever is compressed is read back by compress/flate, which Close sees to: nothing, one byte, random
// bytes, runs, copies from just inside and just outside of the window, and codes as unequal as they get.
func TestDeflate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	piece := random(300)
	unequal := []byte{}
	for i, n := 0, 1; n < 1<<20; i, n = i+1, n*2 { // each byte twice as often as the one before: codes of 20 bits
		unequal = append(unequal, bytes.Repeat([]byte{byte(i)}, n)...)
	}
	r.Shuffle(len(unequal), func(i, k int) { unequal[i], unequal[k] = unequal[k], unequal[i] })
	cases := [][]byte{nil, {7}, {7, 7, 7}, random(100_000), bytes.Repeat([]byte("a"), 100_000), unequal,
		bytes.Repeat([]byte("machine code, say; "), 9000)}
	for _, apart := range []int{window - 300, window - 1, window, window + 1, 2*window + 7} {
		cases = append(cases, bytes.Join([][]byte{piece, random(apart - len(piece)), piece, piece}, nil))
	}
	for i, data := range cases {
		var out bytes.Buffer
		c := &compressor{to: &out}
		for part := data; len(part) > 0; part = part[min(len(part), 1000):] {
			c.Write(part[:min(len(part), 1000)])
		}
		if err := c.Close(); err != nil {
			t.Errorf("case %d, of %d bytes: %v", i, len(data), err)
		}
	}
}
