package check

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// topics are the words of which a file must have one to be of interest: the rules are about nothing else. What has none
// isn't parsed.
var topics = [][]byte{[]byte("torch"), []byte("lightning"), []byte("accelerate"), []byte("pyplot"),
	[]byte("transformers"),
	[]byte("ultralytics"), []byte("fastai"), []byte("gc.disable")}

func ofInterest(text []byte) bool {
	return slices.ContainsFunc(topics, func(word []byte) bool { return bytes.Contains(text, word) })
}

// File checks a file's content by its name; path ends in .ipynb for a notebook.
func File(path string, data []byte, rules Selection) ([]Finding, error) {
	src, err := newSource(path, data)
	if err != nil {
		return nil, err
	}
	if !ofInterest(src.text) {
		return nil, nil
	}
	f, err := newFile(src)
	if err != nil {
		return nil, err
	}
	return f.check(rules), nil
}

// Read checks a file on disk. What can't be read is a finding of its own: one bad file must not hide the others.
func Read(path string, rules Selection) ([]Finding, []byte) {
	data, err := readBounded(path)
	if err == nil {
		var found []Finding
		if found, err = File(path, data, rules); err == nil {
			return found, data
		}
	}
	rule, _ := Find(Unreadable)
	if !rules.Has(rule) {
		return nil, nil
	}
	return []Finding{{Rule: rule, Path: path, Line: 1, Col: 1, EndLine: 1, EndCol: 1, Lines: []int{1},
		Message: fmt.Sprintf("can't be checked: %v",
			err), Hint: "name it under exclude in [tool.memgauge.check] if it is meant to be so"}}, nil
}

func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > 4*maxSource {
		return nil, errTooLarge
	}
	return os.ReadFile(path)
}

// check runs the rules over a parsed file.
func (f *file) check(rules Selection) (found []Finding) {
	for _, rule := range Rules() {
		if rule.find == nil || !rules.Has(rule) {
			continue
		}
		r := reporter{f: f, rule: rule, seen: map[int]bool{}}
		rule.find(f, &r)
		found = append(found, r.list...)
	}
	found = f.src.pragmas(f, withoutDoubles(found), rules)
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.Rule.ID, b.Rule.ID))
	})
	return found
}

// kin are rules that may find the same mistake at the same place: the earlier one of a row speaks.
var kin = [][]string{{"MG102", "MG103", "MG105", "MG206", "MG120", "MG121", "MG113"}, {"MG101", "MG103"}, {"MG301",
	"MG302"}}

// withoutDoubles leaves one finding a place among rules that say the same.
func withoutDoubles(found []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(found), func(f Finding) bool {
		for _, row := range kin[:2] {
			mine := slices.Index(row, f.Rule.ID)
			for _, g := range found {
				if i := slices.Index(row, g.Rule.ID); mine > 0 && i >= 0 && i < mine && g.at == f.at {
					return true
				}
			}
		}
		return false
	})
}

// pragma is a comment that silences findings of its line: # memgauge: ignore[MG101] reason.
var pragma = regexp.MustCompile(`#\s*memgauge:\s*ignore\[([^\]\n]*)\]\s*([^\n]*)`)

// pragmas takes out what a comment silences, and asks those that give no reason for one.
func (s *source) pragmas(f *file, found []Finding, rules Selection) []Finding {
	if !bytes.Contains(s.text, []byte("memgauge:")) {
		return found
	}
	rule, _ := Find(NoReason)
	r := reporter{f: f, rule: rule, seen: map[int]bool{}}
	f.root().all(func(n node) bool {
		if !n.is("comment") {
			return true
		}
		m := pragma.FindStringSubmatch(n.text())
		if m == nil {
			return true
		}
		line := s.line(n.start())
		found = slices.DeleteFunc(found, func(f Finding) bool {
			return slices.Contains(ids(m[1]), f.Rule.ID) && s.covers(line, f)
		})
		if m[2] == "" && rules.Has(rule) {
			r.report(n, "a finding is silenced without a reason",
				"write it behind the bracket: # memgauge: ignore["+m[1]+"] why it is no leak")
		}
		return true
	})
	return append(found, r.list...)
}

// covers reports whether a comment in a line speaks of a finding: it stands in one of its lines, or alone above it.
func (s *source) covers(line int, f Finding) bool {
	first := s.line(f.at)
	last := first + f.EndLine - f.Line
	return line >= first && line <= last ||
		line == first-1 && strings.HasPrefix(strings.TrimSpace(s.lineAt(line)), "#")
}
