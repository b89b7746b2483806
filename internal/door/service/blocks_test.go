package service

import (
	"strings"
	"testing"
)

// TestPrintedIsBounded: what a process prints in answer to code of ours is kept up to a bound, beyond which it is given
// up.
func TestPrintedIsBounded(t *testing.T) {
	var b bounded
	piece := []byte(strings.Repeat("x", 1<<20))
	for range maxPrinted >> 20 {
		if _, err := b.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Write([]byte("x")); err == nil || b.Len() != maxPrinted {
		t.Errorf("%d bytes are kept: %v", b.Len(), err)
	}
}
