package flame

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

func sample() *Graph {
	g := New("a <b> & c")
	main, step, forward := Frame{"train.py", 1, "main"}, Frame{"train.py", 48, "step;x"}, Frame{"model.py", 9, `f<"&>`}
	g.Add([]Frame{step, main}, 100, false)
	g.Add([]Frame{forward, step, main}, 50, false)
	g.Add([]Frame{forward, step, main}, 25, false)
	g.Add([]Frame{{Name: "C++ only"}}, 5, false)
	return g
}

func TestFolded(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WriteFolded(&b); err != nil {
		t.Fatal(err)
	}
	want := "main (train.py:1);step:x (train.py:48) 100\n" +
		"main (train.py:1);step:x (train.py:48);f<\"&> (model.py:9) 75\n" +
		"C++ only 5\n"
	if b.String() != want {
		t.Errorf("got %s", b.String())
	}
}

// The real reader of profiles takes ours, with all bytes in it.
func TestPprof(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WritePprof(&b); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, s := range p.Sample {
		sum += s.Value[0]
	}
	if sum != 180 || len(p.Function) != 4 || p.SampleType[0].Unit != "bytes" {
		t.Errorf("%d bytes, %d functions, %v", sum, len(p.Function), p.SampleType[0])
	}
	var innermost []string
	for _, s := range p.Sample {
		line := s.Location[0].Line[0]
		innermost = append(innermost, fmt.Sprintf("%s (%s:%d) under %d", line.Function.Name, line.Function.Filename,
			line.Line, len(s.Location)-1))
	}
	want := []string{"step;x (train.py:48) under 1", "f<\"&> (model.py:9) under 2", "C++ only (:0) under 0"}
	if !slices.Equal(innermost, want) {
		t.Errorf("%q", innermost)
	}
}

func TestSpeedscope(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WriteSpeedscope(&b); err != nil {
		t.Fatal(err)
	}
	var f speedscopeFile
	if err := json.Unmarshal(b.Bytes(), &f); err != nil {
		t.Fatal(err)
	}
	p, sum := f.Profiles[0], int64(0)
	for i, s := range p.Samples {
		sum += p.Weights[i]
		for _, n := range s {
			if n < 0 || n >= len(f.Shared.Frames) {
				t.Errorf("sample %d names frame %d of %d", i, n, len(f.Shared.Frames))
			}
		}
	}
	if sum != 180 || p.EndValue != 180 {
		t.Errorf("%d bytes, end %d", sum, p.EndValue)
	}
}

// A picture is well-formed whatever functions are called, boxes of a row lie beside each other, and a child lies in its
// parent.
func TestSVG(t *testing.T) {
	g := sample()
	var b bytes.Buffer
	if err := g.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(&b)
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	g.Add([]Frame{{"old.py", 3, "gone"}, {"train.py", 1, "main"}}, 400, true)
	boxes, _, depth := g.boxes()
	if depth != 3 || len(boxes) != 6 {
		t.Fatalf("%d boxes, %d deep", len(boxes), depth)
	}
	for i, x := range boxes[1:] {
		var parent *box
		for j := i; j >= 0; j-- {
			if boxes[j].depth == x.depth-1 {
				parent = &boxes[j]
				break
			}
		}
		if parent == nil || x.x < parent.x-1e-12 || x.x+x.w > parent.x+parent.w+1e-12 {
			t.Errorf("box %d %+v is not in its parent %+v", i+1, x, parent)
		}
	}
}

func TestHTML(t *testing.T) {
	g := sample()
	g.Compare = true
	g.Add([]Frame{{"old.py", 3, "gone"}}, 60, true)
	var b bytes.Buffer
	if err := g.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a &lt;b&gt; &amp; c", "gone old.py:3", "before: 60 B", "60 B before, 180 B after",
		"</html>"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// A stack without end is cut, and a graph of nothing is a picture too.
func TestBounds(t *testing.T) {
	g := New("deep")
	g.Add(make([]Frame, 10_000), 1, false)
	if _, _, depth := g.boxes(); depth > maxDepth {
		t.Errorf("%d deep", depth)
	}
	for _, write := range []func(io.Writer) error{
		New("nothing").WriteSVG, New("nothing").WriteHTML, New("nothing").WriteFolded, New("nothing").WritePprof,
		New("nothing").WriteSpeedscope,
	} {
		if err := write(io.Discard); err != nil {
			t.Error(err)
		}
	}
}

// Stacks of a hostile file have more frames than fit. Those that come first have all of theirs, no byte is lost, and
// the files that list every stack are written.
func TestGraphIsBounded(t *testing.T) {
	const stacks = 3000
	g := New("")
	for i := range stacks {
		var stack []Frame
		for k := range 600 {
			stack = append(stack, Frame{"a.py", (i >> max(0, k-590)) + k, "g"})
		}
		g.Add(stack, int64(stacks-i), false)
	}
	nodes, deepest := 0, 0
	g.each(func(stack []*Node) { nodes, deepest = nodes+1, max(deepest, len(stack)) })
	if nodes > maxNodes+1 || deepest != maxDepth+1 || g.Cut == 0 || g.Root.Value != stacks*(stacks+1)/2 {
		t.Errorf("%d nodes, %d deep, %d cut, %d bytes", nodes, deepest, g.Cut, g.Root.Value)
	}
	for _, write := range []func(io.Writer) error{g.WriteSpeedscope, g.WritePprof, g.WriteFolded, g.WriteSVG} {
		if err := write(io.Discard); err != nil {
			t.Error(err)
		}
	}
	small := New("")
	small.Bound(10 * nodeBytes)
	small.Add(make([]Frame, 20), 1, false)
	small.Add(make([]Frame, 10), 1, false)
	if small.Cut != 1 || small.Root.Value != 2 {
		t.Errorf("%+v", small)
	}
}

// A picture is XML whatever frames are called, and doesn't hide what that is.
func TestNamesInSVG(t *testing.T) {
	g := New("\x1b[2J\x00")
	g.Add([]Frame{{"a\ufffe\uffff\u202e.py", 1, "bad\x01\x80\x7f\rname"}}, 1, false)
	var b bytes.Buffer
	if err := g.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), `bad\x01\x80\x7f\rname`) {
		t.Error(b.String())
	}
	for d := xml.NewDecoder(&b); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
