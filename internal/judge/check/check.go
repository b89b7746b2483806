package check

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/memgauge/memgauge/internal/base/order"
)

// topics are the words of which a file must have one to be of interest: the rules are about nothing else. What has none
// isn't parsed.
var topics = [][]byte{[]byte("torch"), []byte("lightning"), []byte("accelerate"), []byte("pyplot"),
	[]byte("transformers"), []byte("dataloader"), []byte("plt."), []byte("_step_outputs"),
	[]byte("ultralytics"), []byte("fastai"), []byte("gc.disable")}

func ofInterest(text []byte) bool {
	return slices.ContainsFunc(topics, func(word []byte) bool { return bytes.Contains(text, word) })
}

// File checks a file's content by its name; path ends in .ipynb for a notebook.
func (p *Project) File(path string, data []byte, rules Selection) ([]Finding, error) {
	seen, err := p.inspect(path, data, rules)
	return seen.findings, err
}

// File checks a file that stands alone.
func File(path string, data []byte, rules Selection) ([]Finding, error) {
	return (*Project)(nil).File(path, data, rules)
}

// Read checks a file on disk that stands alone.
func Read(path string, rules Selection) ([]Finding, []byte) { return (*Project)(nil).Read(path, rules) }

// Mend makes fixes in a file that stands alone.
func Mend(path string, data []byte, rules Selection) (after []byte, left []Finding, mended int, err error) {
	return (*Project)(nil).Mend(path, data, rules)
}

// tellers are words of which a file must have one to tell others something, though it is of no interest itself: meters
// need no PyTorch. A package's __init__.py hands on what others have.
var tellers = [][]byte{[]byte("Meter"), []byte("def update("), []byte("def add(")}

func tells(path string, text []byte) bool {
	return filepath.Base(path) == "__init__.py" ||
		slices.ContainsFunc(tellers, func(word []byte) bool { return bytes.Contains(text, word) })
}

// inspection is what was found in a file, in how many steps, and whether all of it was understood.
type inspection struct {
	findings []Finding
	steps    int
	whole    bool
}

// inspect is File, which tells more.
func (p *Project) inspect(path string, data []byte, rules Selection) (inspection, error) {
	src, err := newSource(path, data)
	if err != nil {
		return inspection{}, err
	}
	wrong := src.fault()
	interest, first := ofInterest(src.text), p != nil && !p.linked
	if wrong == nil && !interest && !(first && tells(path, src.text)) {
		return inspection{whole: true}, nil
	}
	f, err := newFile(src)
	if err != nil {
		return inspection{}, err
	}
	if f.project = p; p != nil && p.linked {
		f.told = p.modules[moduleKey(path)]
	}
	var found []Finding
	why := ""
	if interest {
		found, why = f.check(rules)
	} else {
		f.within(f.read)
	}
	if first {
		p.add(f.summarise(len(found) > 0))
	}
	// Who doesn't understand a text, or has read it in part, changes nothing in it.
	whole := wrong == nil && !f.broken && why == ""
	if !whole || !mayMend(src.text) {
		for i := range found {
			found[i].Fix = nil
		}
	}
	for i := range found {
		found[i].Unsafe = found[i].Unsafe && !rules.Unsafe
	}
	if rule, _ := Find(Unreadable); rules.Has(rule) {
		if why != "" {
			found = append(found, unreadable(path, "can be checked only in part, and --fix leaves it alone: "+why))
		}
		if wrong != nil {
			found = append([]Finding{src.unparsed(wrong)}, found...)
		}
	}
	return inspection{found, stepsFor(len(src.text)) - f.left, whole}, nil
}

// fault is where the text is no Python. Cells of a notebook need not be.
func (s *source) fault() *fault {
	if s.notebook {
		return nil
	}
	return faultIn(string(s.text))
}

// unparsed is the finding about a text that is no Python.
func (s *source) unparsed(wrong *fault) Finding {
	found := unreadable(s.path, "does not parse: "+wrong.what)
	found.at = wrong.at
	_, found.Line, found.Col = s.position(wrong.at)
	found.EndLine, found.EndCol, found.Lines = found.Line, found.Col+1, []int{found.Line}
	if found.Source = s.lineText(wrong.at); len(found.Source) > maxLine {
		found.Source = ""
	}
	found.Hint = "mend it first: what is found in the file else may be wrong or missing, and --fix leaves it alone"
	return found
}

// Read checks a file on disk. What can't be read is a finding of its own: one bad file must not hide the others.
func (p *Project) Read(path string, rules Selection) ([]Finding, []byte) {
	data, err := readBounded(path, maxFile)
	if err == nil {
		var found []Finding
		if found, err = p.File(path, data, rules); err == nil {
			return found, data
		}
	}
	rule, _ := Find(Unreadable)
	if !rules.Has(rule) {
		return nil, nil
	}
	return []Finding{unreadable(path, fmt.Sprintf("can't be checked: %v", err))}, nil
}

// MaxWeight is what files that are read at the same time may weigh together: a byte of source takes up to 350 of
// memory.
const MaxWeight = maxSource

// Weight is what a file weighs.
func Weight(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return min(max(info.Size(), 0), MaxWeight)
}

// unreadable is the finding that says that a file was not read, or in part only.
func unreadable(path, message string) Finding {
	rule, _ := Find(Unreadable)
	return Finding{Rule: rule, Path: path, Line: 1, Col: 1, EndLine: 1, EndCol: 1, Lines: []int{1}, Message: message,
		Hint: "name it under exclude in [tool.memgauge.check] if it is meant to be so"}
}

// readBounded reads a regular file: a pipe may have no writer, and a device no end.
func readBounded(path string, most int64) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("read %s: not a regular file", path)
	case info.Size() > most:
		return nil, fmt.Errorf("read %s: %w", path, tooLarge(most))
	}
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if int64(len(data)) > most { // it grows while it is read
		return nil, fmt.Errorf("read %s: %w", path, tooLarge(most))
	}
	return data, err
}

// check runs the rules over a parsed file. Where they stop before the end, why says the reason; what they have found
// until then is right.
func (f *file) check(rules Selection) (found []Finding, why string) {
	if f.deep {
		why = fmt.Sprintf("what lies below %d levels of nesting is not read", maxDepth)
	}
	done := f.within(f.read)
	foreign := done && f.otherFramework()
	test := done && f.unitTest()
	for _, rule := range Rules() {
		if !done || test || rule.find == nil || !rules.Has(rule) || foreign && !strings.HasPrefix(rule.ID, "MG3") {
			continue
		}
		r := reporter{f: f, rule: rule, seen: map[int]bool{}, room: maxFindings - len(found)}
		done = f.within(func() { rule.find(f, &r) })
		found = append(found, r.list...)
	}
	if !done {
		why = fmt.Sprintf("cut short after %d steps or %d findings, more than source that people write needs",
			stepsFor(len(f.src.text)), maxFindings)
	}
	found = f.silence(withoutDoubles(found), rules, done)
	order.Stable(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.Rule.ID, b.Rule.ID))
	})
	return found, why
}

// kin are rules that may find the same mistake at the same place: the earlier one of a row speaks.
var kin = [][]string{{"MG102", "MG103", "MG124", "MG105", "MG206", "MG120", "MG121", "MG113"}, {"MG101", "MG103"},
	{"MG301",
		"MG302"}}

// withoutDoubles leaves one finding a place among rules that say the same.
func withoutDoubles(found []Finding) []Finding {
	type place struct{ row, at int }
	first := map[place]int{} // the rule of the row that speaks there
	of := func(f Finding, each func(p place, i int)) {
		for row := range kin[:2] {
			if i := slices.Index(kin[row], f.Rule.ID); i >= 0 {
				each(place{row, f.at}, i)
			}
		}
	}
	for _, f := range found {
		of(f, func(p place, i int) {
			if best, known := first[p]; !known || i < best {
				first[p] = i
			}
		})
	}
	return slices.DeleteFunc(slices.Clone(found), func(f Finding) (double bool) {
		of(f, func(p place, i int) { double = double || first[p] < i })
		return double
	})
}
