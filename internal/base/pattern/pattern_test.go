package pattern

import "testing"

// A pattern is compiled when it is asked for, not before, and once.
func TestCompiledAtFirstUse(t *testing.T) {
	wrong := Of(`(`)
	defer func() {
		if recover() == nil {
			t.Error("a wrong expression was compiled without a word")
		}
	}()
	right := Of(`^a+$`)
	if first := right(); !first.MatchString("aa") || right() != first {
		t.Error("it does not match, or was compiled twice")
	}
	wrong()
}
