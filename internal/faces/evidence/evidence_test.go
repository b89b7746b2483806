package evidence

import (
	"os"
	"path/filepath"
	"testing"
	"time"

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

// Where no census saw a holder, a rule about code that keeps more is told, as what it is; one about settings is not.
func TestExplainAlone(t *testing.T) {
	here := t.TempDir()
	write := func(name, text string) []string {
		if err := os.WriteFile(filepath.Join(here, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"python", filepath.Join(here, name)}
	}
	leak := detect.Finding{Memory: detect.Heap}
	leak.Verdict = detect.Leak
	grows := write("grows.py", "import pandas as pd\nimport torch\n\ndef train(model, loader, criterion):\n"+
		"    log = pd.DataFrame()\n    for x, y in loader:\n        loss = criterion(model(x), y)\n"+
		"        loss.backward()\n        log = pd.concat([log, pd.DataFrame([{'loss': loss.item()}])])\n")
	later := time.Now().Add(time.Hour)
	m, ok := Explain(leak, here, grows, later)
	if !ok || m.Rule.ID != "MG208" || !m.Alone || m.Line != 9 {
		t.Errorf("%+v %v", m, ok)
	}
	tidy := write("tidy.py", "import torch\n\ndef fit(loader, model):\n    for x in loader:\n        model(x)\n"+
		"        torch.cuda.empty_cache()\n")
	if m, ok := Explain(leak, here, tidy, later); ok {
		t.Errorf("%+v", m)
	}
	leak.Holder, leak.Site = "main().kept", filepath.Join(here, "grows.py")+":99"
	if m, ok := Explain(leak, here, grows, later); ok {
		t.Errorf("another holder was named, and %+v told", m)
	}
}
