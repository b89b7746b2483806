package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/memgauge/memgauge/test/env"
)

// nativeLine is what the JSON of native says of a line.
type nativeLine struct {
	Site                 string
	Bytes, Grown, Before int64
}

func (w *world) nativeLines(args ...string) []nativeLine {
	w.t.Helper()
	var d struct{ Lines []nativeLine }
	if err := json.Unmarshal([]byte(w.mg(append(args, "--json")...)), &d); err != nil || len(d.Lines) == 0 {
		w.t.Fatalf("%v: no lines of %v: %v", args, d, err)
	}
	return d.Lines
}

// A leak in C code: leak names the line with its function, native lists it first, its growth and its stack are known in
// every form. 25 seconds, since leak wants 20.
func TestNativeLeakHasALine(t *testing.T) {
	t.Parallel()
	env.Program(t, "cc") // it was built with the library then
	w := newWorld(t)
	s := filepath.Join(w.home, "s")
	const line = "leaknative.py:14"
	w.mg("run", "--quiet", "--native", "--session", s, "--", "python3", script(t, "leaknative.py"), "25")

	var verdict struct {
		Findings []struct{ Verdict, Holder, Site string }
	}
	if r := w.do("memgauge", "-t", s, "leak", "--json"); r.code != 3 ||
		json.Unmarshal([]byte(r.stdout), &verdict) != nil || len(verdict.Findings) == 0 {
		t.Fatalf("leak: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if f := verdict.Findings[0]; !strings.HasSuffix(f.Site, line) || !strings.HasPrefix(f.Holder, "native code: ") {
		t.Errorf("held by %q at %q", f.Holder, f.Site)
	}
	if top := w.nativeLines("-t", s, "native")[0]; !strings.HasSuffix(top.Site, line) || top.Bytes < 50e6 {
		t.Errorf("holds most: %+v", top)
	}
	top := w.nativeLines("-t", s, "native", "diff", "--from", "5s", "--to", "15s")[0]
	if !strings.HasSuffix(top.Site, line) || top.Grown < 20e6 || top.Grown != top.Bytes-top.Before {
		t.Errorf("grew most: %+v", top)
	}
	n := w.number(s, `SELECT count(*) AS n FROM native.live WHERE bytes NOT BETWEEN bytes_low AND bytes_high`)
	if n != 0 {
		t.Errorf("%v rows lie outside of their interval", n)
	}
	nativeFlames(t, w, s)

	b := w.browse(w.served("-t", s, "web"), "en-US")
	b.open("#/s/" + b.id() + "/native")
	b.shows("main td", line)
	b.until("the flame graph", "document.querySelectorAll('.frame').length > 3")
	b.accessible("native memory")

	b.do(chromedp.Navigate(w.report(s, "page.html"))) // has what the page has
	b.shows("#v-native td", line)
	b.until("the flame graph", "document.querySelectorAll('#v-native .frame').length > 3")
}

func nativeFlames(t *testing.T, w *world, s string) {
	t.Helper()
	for name, want := range map[string]string{"a.html": "leaknative.py", "a.svg": "leak", "a.folded": "leak",
		"a.speedscope.json": "leaknative.py", "a.pb.gz": "\x1f\x8b"} {
		out := filepath.Join(w.home, name)
		w.mg("-t", s, "native", "flame", "--at", "growth", "-o", out)
		if b, err := os.ReadFile(out); err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	type frame struct {
		Func   string
		Lineno *int
	}
	var d struct {
		Bytes  int64
		Stacks []struct {
			Bytes  int64
			Frames []frame
		}
	}
	text := w.mg("-t", s, "native", "flame", "--at", "peak", "--json")
	if err := json.Unmarshal([]byte(text), &d); err != nil || len(d.Stacks) == 0 || d.Bytes < d.Stacks[0].Bytes {
		t.Fatalf("%v\n%.500s", err, text)
	}
	found := false
	for _, f := range d.Stacks[0].Frames {
		found = found || f.Func == "leak" && f.Lineno != nil && *f.Lineno == 14
	}
	if first := d.Stacks[0].Frames[0]; !found || first.Lineno != nil {
		t.Errorf("of C first, and through leak: %+v", d.Stacks[0])
	}
}

// What can't be done is said, with what can, and nothing is started.
func TestNativeRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := filepath.Join(w.home, "without")
	w.mg("run", "--quiet", "--session", s, "--", "python3", "-c", "pass")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"run", "--native=0", "--", "touch", "started"}, 2, "not a size between 16 KiB and 64 MiB"},
		{[]string{"run", "--native=abc", "--", "touch", "started"}, 2, "not a size between"},
		{[]string{"run", "--native=", "--", "touch", "started"}, 2, "lacks a size"},
		{[]string{"attach", "--native=1", "1"}, 2, "not a size between 16 KiB and 64 MiB"},
		{[]string{"attach", "--native=", "1"}, 2, "lacks a size"},
		{[]string{"-t", s, "native"}, 1, "start the training with memgauge run --native"},
		{[]string{"-t", s, "native", "flame"}, 2, "-o OUTPUT is missing"},
		{[]string{"-t", s, "native", "flame", "-o", "a.png"}, 2, "end the name in .html"},
		{[]string{"-t", s, "native", "flame", "-o", "a.svg", "--json"}, 2, "exclude each other"},
		{[]string{"-t", s, "native", "flame", "-o", "a.svg", "--at", "noon"}, 2, "is not a moment"},
		{[]string{"-t", s, "native", "diff", "--from", "-3s"}, 2, "is not a moment"},
	} {
		r := w.do("memgauge", c.args...)
		if r.code != c.code || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%v: exit %d: %s", c.args, r.code, r.stderr)
		}
	}
	if exists(filepath.Join(w.home, "started")) || exists(filepath.Join(w.home, "a.svg")) {
		t.Error("something was done all the same")
	}
}
