package evidence

import (
	"path/filepath"
	"testing"

	"github.com/memgauge/memgauge/internal/judge/check"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

func TestMatches(t *testing.T) {
	here, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := check.Finding{Path: filepath.Join(here, "src", "train.py"), Holder: "self.outputs", Lines: []int{28, 20}}
	for _, c := range []struct {
		site, holder, cwd string
		want              bool
	}{
		{filepath.Join(here, "src/train.py") + ":28", "Trainer.fit().self.outputs[*]['logits']", here, true},
		{filepath.Join(here, "src/train.py") + ":28", "", here, true},
		{filepath.Join(here, "src/train.py") + ":99", "Trainer.fit().self.outputs[*]", here, true}, // by name alone
		{filepath.Join(here, "src/train.py") + ":99", "Trainer.fit().self.other[*]", here, false},
		{filepath.Join(here, "src/train.py") + ":28", "Trainer.fit().self.other[*]", here,
			false}, // another in one line
		{"/job/src/train.py:28", "", "/job",
			true}, // the same tree on another machine
		{"/job/lib/train.py:28", "", "/job", false},
		{"/elsewhere/src/train.py:28", "", "/job", false},
		{"src/train.py:28", "", here, true},
		{"train.py", "self.outputs", here, false},
		{"", "self.outputs", here, false},
	} {
		if got := matches(f, c.site, c.holder, c.cwd); got != c.want {
			t.Errorf("site %q, holder %q, in %s: %v, want %v", c.site, c.holder, c.cwd, got, c.want)
		}
	}
}

// What both saw is joined; the leak's figures come first, and a census's count is not put beside them.
func TestFor(t *testing.T) {
	site, holder := "/job/train.py:5", "__main__.losses[*]"
	s := &Session{cwd: "/job", held: []heldRow{{&site, &holder, 1 << 20, 40}}}
	f := check.Finding{Path: "/job/train.py", Lines: []int{5}, Holder: "losses"}
	m, ok := s.For(f)
	if want := "this line holds 1 MiB in 40 items"; !ok || m.String() != want {
		t.Errorf("%v %q, want %q", ok, m, want)
	}
	leak := detect.Finding{Memory: "host heap", Site: site, Holder: "__main__.losses"}
	leak.Verdict, leak.Rate, leak.Start, leak.Total = detect.Leak, 1<<20, 212, 412<<20
	s.leaks = []detect.Finding{leak}
	m, ok = s.For(f)
	if want := "this line holds 412 MiB, +1 MiB a step since step 212 (host heap of rank 0)"; !ok ||
		m.String() != want {
		t.Errorf("%v %q, want %q", ok, m, want)
	}
	if m, ok := s.For(check.Finding{Path: "/job/other.py", Lines: []int{5}}); ok {
		t.Errorf("another file has %q", m)
	}
}
