package attach

import (
	"testing"
	"time"
)

// TestDeepStack attaches to a program that keeps going down to the end of a small stack and up again.
func TestDeepStack(t *testing.T) {
	py := debian(t)
	py.Path = "sh"
	p := start(t, py, "-c", "ulimit -s 512; exec /usr/bin/python3 testdata/doing.py deep")
	deadline := time.Now().Add(20 * time.Second)
	for n := 0; n < 30 && time.Now().Before(deadline); n++ {
		inject(t, p, "")
	}
	if s := state(p.Process.Pid); s == 'Z' || s == 0 {
		t.Fatalf("its state is %c", s)
	}
}
