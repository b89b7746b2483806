package flame

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// This file writes what other viewers read.

// maxText is how many letters of a frame are written: a text of 1 MiB may be in every frame of every stack.
const maxText = 1000

// text is a frame in one line.
func (f Frame) text() string {
	name := fit(f.Name, maxText)
	if f.File == "" {
		return name
	}
	return fmt.Sprintf("%s (%s:%d)", name, fit(f.File, maxText), f.Line)
}

// WriteFolded writes one line for each stack: frames from the outermost to the innermost, separated by semicolons, then
// bytes. https://github.com/brendangregg/FlameGraph
func (g *Graph) WriteFolded(w io.Writer) error {
	b := bufio.NewWriter(w)
	clean := strings.NewReplacer(";", ":", "\n", " ", "\r", " ")
	g.leaves(func(stack []*Node, own int64) {
		for i, n := range stack {
			if i > 0 {
				b.WriteByte(';')
			}
			b.WriteString(clean.Replace(n.text()))
		}
		fmt.Fprintf(b, " %d\n", own)
	})
	return b.Flush()
}

// speedscope's file format: https://www.speedscope.app/file-format-schema.json
type speedscopeFile struct {
	Schema   string              `json:"$schema"`
	Name     string              `json:"name"`
	Exporter string              `json:"exporter"`
	Shared   speedscopeShared    `json:"shared"`
	Profiles []speedscopeProfile `json:"profiles"`
}

type speedscopeShared struct {
	Frames []speedscopeFrame `json:"frames"`
}

type speedscopeFrame struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

type speedscopeProfile struct {
	Type       string  `json:"type"`
	Name       string  `json:"name"`
	Unit       string  `json:"unit"`
	StartValue int64   `json:"startValue"`
	EndValue   int64   `json:"endValue"`
	Weights    []int64 `json:"weights"`
	Samples    [][]int `json:"samples"` // last, see WriteSpeedscope
}

// WriteSpeedscope writes a sampled profile whose weights are bytes. Samples are written one by one, since all of them
// together are much larger than the graph.
func (g *Graph) WriteSpeedscope(w io.Writer) error {
	p := speedscopeProfile{Type: "sampled", Name: g.Title, Unit: "bytes", Samples: [][]int{}, Weights: []int64{}}
	file := speedscopeFile{Schema: "https://www.speedscope.app/file-format-schema.json", Name: g.Title,
		Exporter: "memgauge", Shared: speedscopeShared{Frames: []speedscopeFrame{}}}
	numbers := map[Frame]int{}
	g.leaves(func(stack []*Node, own int64) {
		for _, n := range stack {
			if _, ok := numbers[n.Frame]; !ok {
				numbers[n.Frame] = len(numbers)
				file.Shared.Frames = append(file.Shared.Frames, speedscopeFrame{n.Name, n.File, max(n.Line, 0)})
			}
		}
		p.Weights, p.EndValue = append(p.Weights, own), p.EndValue+own
	})
	file.Profiles = []speedscopeProfile{p}
	var all bytes.Buffer
	e := json.NewEncoder(&all)
	e.SetEscapeHTML(false)
	if err := e.Encode(file); err != nil {
		return err
	}
	const end = "]}]}\n" // of samples, their profile, profiles, the file
	b := bufio.NewWriter(w)
	b.Write(bytes.TrimSuffix(all.Bytes(), []byte(end)))
	open := "["
	g.leaves(func(stack []*Node, _ int64) {
		for _, n := range stack {
			b.WriteString(open)
			b.WriteString(strconv.Itoa(numbers[n.Frame]))
			open = ","
		}
		b.WriteByte(']')
		open = ",["
	})
	b.WriteString(end)
	return b.Flush()
}

// leaves calls f for every stack whose innermost frame itself holds something, outermost frame first, without the root.
func (g *Graph) leaves(f func(stack []*Node, own int64)) {
	g.each(func(stack []*Node) {
		if own := stack[len(stack)-1].own(); own > 0 && len(stack) > 1 {
			f(stack[1:], own)
		}
	})
}
