package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"
)

// source is a text and where it comes from. A notebook's code cells are one text, so that a list that one cell makes
// and another fills is one list; its lines are mapped back to cell and line.
type source struct {
	path     string
	text     []byte
	starts   []int // of the lines, in bytes
	notebook bool
	cells    []codeCell
}

// codeCell is a cell of code: its number among all cells, from 1, and its first line in the joined text, from 1.
type codeCell struct{ number, first int }

var bom = []byte("\xef\xbb\xbf")

// newSource reads a file's content by its name.
func newSource(path string, data []byte) (*source, error) {
	s := &source{path: path}
	if strings.HasSuffix(path, ".ipynb") {
		s.notebook = true
		if err := s.readNotebook(data); err != nil {
			return nil, err
		}
	} else {
		s.text = data
	}
	s.starts = append(s.starts, 0)
	for i, b := range s.text {
		if b == '\n' {
			s.starts = append(s.starts, i+1)
		}
	}
	return s, nil
}

// notebookFile is what is read of a notebook (nbformat 4; 3 has worksheets).
type notebookFile struct {
	Cells      []notebookCell `json:"cells"`
	Worksheets []struct {
		Cells []notebookCell `json:"cells"`
	} `json:"worksheets"`
}

type notebookCell struct {
	Type   string          `json:"cell_type"`
	Source json.RawMessage `json:"source"`
	Input  json.RawMessage `json:"input"` // nbformat 3
}

func (s *source) readNotebook(data []byte) error {
	if len(data) > maxFile {
		return tooLarge(maxFile)
	}
	var nb notebookFile
	if err := json.Unmarshal(bytes.TrimPrefix(data, bom), &nb); err != nil {
		return fmt.Errorf("not a notebook: %w", err)
	}
	cells := nb.Cells
	for _, w := range nb.Worksheets {
		cells = append(cells, w.Cells...)
	}
	if cells == nil && len(nb.Worksheets) == 0 {
		return errors.New("not a notebook: it has no cells")
	}
	var text bytes.Buffer
	line := 1
	for i, c := range cells {
		if c.Type != "code" {
			continue
		}
		body, err := cellText(c)
		if err != nil {
			return fmt.Errorf("not a notebook: the source of cell %d: %w", i+1, err)
		}
		s.cells = append(s.cells, codeCell{i + 1, line})
		var m magics
		for _, l := range strings.Split(strings.TrimRight(body, "\n"), "\n") {
			text.WriteString(m.comment(l) + "\n")
			line++
		}
	}
	s.text = text.Bytes()
	return nil
}

// cellText is a cell's source: a text, or a list of lines.
func cellText(c notebookCell) (string, error) {
	raw := c.Source
	if raw == nil {
		raw = c.Input
	}
	if raw == nil {
		return "", nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return one, nil
	}
	var lines []string
	err := json.Unmarshal(raw, &lines)
	return strings.Join(lines, ""), err
}

// line is the line of a byte, from 1, in the joined text.
func (s *source) line(at int) int { return sort.SearchInts(s.starts, at+1) }

// position is where a byte stands: the cell (0 outside of notebooks), its line and its column in characters, from 1.
func (s *source) position(at int) (cell, line, col int) {
	line = s.line(at)
	at = min(at, len(s.text))
	col = utf8.RuneCount(s.text[s.starts[line-1]:at]) + 1
	if s.notebook {
		i := sort.Search(len(s.cells), func(i int) bool { return s.cells[i].first > line }) - 1
		if i >= 0 {
			return s.cells[i].number, line - s.cells[i].first + 1, col
		}
	}
	return 0, line, col
}

// lineText is the whole line around a byte.
func (s *source) lineText(at int) string { return s.lineAt(s.line(at)) }

// lineAt is a line's text by its number, from 1.
func (s *source) lineAt(line int) string {
	if line < 1 || line > len(s.starts) {
		return ""
	}
	rest := s.text[s.starts[line-1]:]
	if i := bytes.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i]
	}
	return strings.TrimSuffix(string(rest), "\r")
}

// indent is the white space that the line around a byte begins with.
func (s *source) indent(at int) string {
	l := s.lineText(at)
	return l[:len(l)-len(strings.TrimLeft(l, " \t"))]
}
