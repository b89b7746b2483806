package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/judge/check"
	"github.com/memgauge/memgauge/internal/record/sink"
)

// baseline has the findings of an earlier run, which are known and not told again. A finding is known by its file, its
// rule and its line's text, so that code above may come and go.
type baseline struct {
	SchemaVersion int        `json:"schema_version"`
	Findings      []baseLine `json:"findings"`
}

// baseLine are findings that look the same.
type baseLine struct {
	Path  string `json:"path"` // relative to the baseline's own directory
	Rule  string `json:"rule"`
	Line  string `json:"line"` // the text, white space at its ends left out
	Count int    `json:"count"`
}

// maxBaseline bounds the file, in bytes: 100,000 findings with lines as long as a screen is wide.
const maxBaseline = 32 << 20

// lineOf is what a finding is known by, in a baseline that lies in a directory.
func lineOf(dir string, f check.Finding) baseLine {
	path := f.Path
	if abs, err := filepath.Abs(path); err == nil {
		if rel, err := filepath.Rel(dir, abs); err == nil {
			path = rel
		}
	}
	return baseLine{Path: filepath.ToSlash(path), Rule: f.Rule.ID, Line: strings.TrimSpace(f.Source), Count: 1}
}

// known takes out the findings that a baseline has, and counts them.
func (r *result) known(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxBaseline {
		err = errors.New("the file is too large")
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	var b baseline
	if err == nil {
		err = json.Unmarshal(data, &b)
	}
	if err != nil {
		return remedy.Add(fmt.Errorf("--baseline %s: %w", path, err), "--write-baseline "+path+" makes one")
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return err
	}
	left := map[baseLine]int{}
	for _, l := range b.Findings {
		n := l.Count
		l.Count = 1
		left[l] += n
	}
	r.findings = slices.DeleteFunc(r.findings, func(m measured) bool {
		l := lineOf(dir, m.Finding)
		if left[l] == 0 {
			return false
		}
		left[l]--
		r.old++
		return true
	})
	return nil
}

// writeBaseline writes all findings as known.
func (r *result) writeBaseline(path string) error {
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return err
	}
	b := baseline{SchemaVersion: doc.JSONVersion, Findings: []baseLine{}}
	at := map[baseLine]int{}
	for _, m := range r.findings {
		l := lineOf(dir, m.Finding)
		if i, there := at[l]; there {
			b.Findings[i].Count++
			continue
		}
		at[l] = len(b.Findings)
		b.Findings = append(b.Findings, l)
	}
	var out bytes.Buffer
	if err := doc.WriteJSON(&out, b); err != nil {
		return err
	}
	to, err := sink.Create(path)
	if err != nil {
		return err
	}
	defer to.Discard()
	if _, err := to.Write(out.Bytes()); err != nil {
		return err
	}
	return to.Commit()
}
