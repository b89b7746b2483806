package monitor

import "testing"

// TestBlocksBeyondTheBudget: where the training's budget allows no list of blocks now, that is said.
func TestBlocksBeyondTheBudget(t *testing.T) {
	for _, device := range []string{Host, "0"} {
		_, missing, err := ReadBlocks(`{"spent":"the next in 3 s"}`, device)
		if missing != "the next in 3 s" || err != nil {
			t.Errorf("%s: %q, %v", device, missing, err)
		}
	}
}
