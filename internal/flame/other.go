package flame

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// This file writes what other viewers read.

// text is a frame in one line.
func (f Frame) text() string {
	if f.File == "" {
		return f.Name
	}
	return fmt.Sprintf("%s (%s:%d)", f.Name, f.File, f.Line)
}

// WriteFolded writes one line for each stack: frames from the outermost to the innermost, separated by semicolons, then
// bytes. https://github.com/brendangregg/FlameGraph
func (g *Graph) WriteFolded(w io.Writer) error {
	b := bufio.NewWriter(w)
	clean := strings.NewReplacer(";", ":", "\n", " ", "\r", " ")
	g.each(func(stack []*Node) {
		own := stack[len(stack)-1].own()
		if own <= 0 || len(stack) == 1 {
			return
		}
		for i, n := range stack[1:] {
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
	Samples    [][]int `json:"samples"`
	Weights    []int64 `json:"weights"`
}

// WriteSpeedscope writes a sampled profile whose weights are bytes.
func (g *Graph) WriteSpeedscope(w io.Writer) error {
	p := speedscopeProfile{Type: "sampled", Name: g.Title, Unit: "bytes", Samples: [][]int{}, Weights: []int64{}}
	file := speedscopeFile{Schema: "https://www.speedscope.app/file-format-schema.json", Name: g.Title,
		Exporter: "memgauge"}
	numbers := map[Frame]int{}
	g.each(func(stack []*Node) {
		own := stack[len(stack)-1].own()
		if own <= 0 || len(stack) == 1 {
			return
		}
		sample := make([]int, 0, len(stack)-1)
		for _, n := range stack[1:] {
			i, ok := numbers[n.Frame]
			if !ok {
				i = len(numbers)
				numbers[n.Frame] = i
				file.Shared.Frames = append(file.Shared.Frames, speedscopeFrame{n.Name, n.File, max(n.Line, 0)})
			}
			sample = append(sample, i)
		}
		p.Samples, p.Weights, p.EndValue = append(p.Samples, sample), append(p.Weights, own), p.EndValue+own
	})
	if file.Shared.Frames == nil {
		file.Shared.Frames = []speedscopeFrame{}
	}
	file.Profiles = []speedscopeProfile{p}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(file)
}
