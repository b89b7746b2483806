package evidence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/judge/check"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// Job is what of a session says where its code lies.
type Job struct {
	Cwd     string
	Command []string
	Started time.Time
}

// Proposal is a change of a file after which a leak should be gone.
type Proposal struct {
	Path  string // of the file, absolute
	Short string // as seen from the command's directory
	Line  int
	What  string // is done, in a few words
	Look  string // at what to look before it is made; "" where results stay the same for sure
	Rule  string // of check, whose fix it is; "" where the session alone says what to do
	Edits []check.Edit
	Text  []byte // of the file, which the edits are for
}

// Sure reports whether results stay the same for sure.
func (p Proposal) Sure() bool { return p.Look == "" }

// ErrNoRemedy says that no change is known for a leak.
var ErrNoRemedy = errors.New("no change of the code is known that mends it for sure or likely")

// Propose looks in the code for a change after which a leak should be gone: in the file that the leak names, then in
// the script that was run. The error says why there is none: ErrNoRemedy, or that a file has changed since.
func Propose(l detect.Finding, job Job) (Proposal, error) {
	none := ErrNoRemedy
	for _, file := range files(l, job) {
		p, err := proposeIn(file, l, job)
		if err == nil {
			return p, nil
		}
		if none == ErrNoRemedy {
			none = err
		}
	}
	return Proposal{}, none
}

// Place is the file that a leak names, or the script that was run, with the line in it; "" where neither is here.
func Place(l detect.Finding, job Job) (file string, line int) {
	list := files(l, job)
	if len(list) == 0 {
		return "", 0
	}
	return list[0], lineIn(list[0], l, job)
}

// files are the Python files in which a leak's cause may stand, absolute. A library's are not the user's to change.
func files(l detect.Finding, job Job) (list []string) {
	for _, site := range []string{l.Site, script(job.Command)} {
		file, _ := splitSite(site)
		if file == "" || !strings.HasSuffix(file, ".py") {
			continue
		}
		file = path.Clean(absolute(file, job.Cwd))
		if !slices.Contains(list, file) && !library(file) {
			list = append(list, file)
		}
	}
	return list
}

func library(file string) bool {
	return slices.ContainsFunc(strings.Split(file, "/"), func(part string) bool {
		return part == "site-packages" || part == "dist-packages" || strings.HasPrefix(part, "python3.") ||
			strings.HasPrefix(part, "<")
	})
}

// lineIn is the leak's line, if it stands in that file; else 0.
func lineIn(file string, l detect.Finding, job Job) int {
	site, line := splitSite(l.Site)
	if path.Clean(absolute(site, job.Cwd)) != file {
		return 0
	}
	return line
}

// Unchanged reads a file, and refuses one that has changed since a session began: its lines may be others.
func Unchanged(file string, job Job) ([]byte, error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, remedy.Add(fmt.Errorf("%s is not here", short(file, job.Cwd)), "run this where the code lies")
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("read %s: not a regular file", file)
	case info.Size() > maxCode:
		return nil, fmt.Errorf("read %s: larger than %d bytes", file, maxCode)
	case info.ModTime().After(job.Started):
		return nil, remedy.Add(fmt.Errorf("%s has changed since the session began", short(file, job.Cwd)),
			"run it again under observation: what was seen may be mended, or stand on another line")
	}
	return os.ReadFile(file)
}

// maxCode is how large a file may be that is changed, in bytes: ten times what people write by hand.
const maxCode = 4 << 20

func proposeIn(file string, l detect.Finding, job Job) (Proposal, error) {
	data, err := Unchanged(file, job)
	if err != nil {
		return Proposal{}, err
	}
	p := Proposal{Path: file, Short: short(file, job.Cwd), Text: data}
	alone := l.Site == "" && l.Holder == ""
	if byRule(&p, l, job, alone) {
		return p, nil
	}
	if alone {
		return p, ErrNoRemedy
	}
	list, err := check.Cures(file, data, leakOf(file, l, job))
	if err != nil {
		return p, err
	}
	if len(list) == 0 {
		return p, ErrNoRemedy
	}
	p.Line, p.What, p.Look, p.Edits = list[0].Line, list[0].What, list[0].Look, list[0].Edits
	return p, nil
}

func leakOf(file string, l detect.Finding, job Job) check.Leak {
	main, _ := splitSite(script(job.Command))
	return check.Leak{Class: string(l.Class), Holder: l.Holder, Held: l.Held, Line: lineIn(file, l, job),
		Grown: int64(l.Total), Steps: int64(l.End), Script: path.Clean(absolute(main, job.Cwd)) == file,
		Views: slices.ContainsFunc(l.Advice, func(a string) bool { return strings.Contains(a, ".clone()") })}
}

// byRule takes the fix of a rule of check that the leak's place matches; where nothing is named, of one about code that
// keeps ever more. What takes a graph from a tensor helps only where a graph is kept.
func byRule(p *Proposal, l detect.Finding, job Job, alone bool) bool {
	place := l
	if place.Site = placed(l.Site, l.Holder, job.Command); place.Site == "" {
		place.Site = script(job.Command)
	}
	found, err := check.File(p.Path, p.Text, ofCode)
	if err != nil {
		return false
	}
	for _, f := range found {
		if f.Fix == nil || f.Cell > 0 || !explains(f, place, job.Cwd, alone) ||
			l.Class != detect.AutogradGraph && !alone && slices.ContainsFunc(f.Fix, func(e check.Edit) bool {
				return strings.Contains(e.New, ".detach()")
			}) {
			continue
		}
		if _, ok := check.Changed(p.Text, f.Fix); !ok {
			continue
		}
		p.Line, p.What, p.Rule, p.Edits = f.Line, f.Hint, f.Rule.ID, f.Fix
		if f.Unsafe {
			p.Look = "whether results stay the same: memgauge check --explain " + f.Rule.ID
		}
		return true
	}
	return false
}
