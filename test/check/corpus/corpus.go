// Package corpus owns what memgauge check is measured by: pairs of code before and after a fix, and well-kept packages
// with a review of what was found in them. It imports nothing that it checks and runs none of it.
package corpus

import (
	"embed"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/judge/check"
	"golang.org/x/tools/txtar"
)

// What is promised.
const (
	MinRecall = 0.8 // of the leaks in the pairs
	MaxWrong  = 1.0 // wrong findings in 10,000 lines of the packages
)

// Pair is code before and after a fix.
type Pair struct {
	Name, Source string // the thread or document
	Want         []string
	Found, Quiet bool // before is found by a rule of Want; after is left alone
	Before       []string
	After        []string // what was found, by rule
}

//go:embed pairs/*.txtar heldout/*.txtar
var pairs embed.FS

// The folders of pairs: those that rules are made with, and those that were labelled before and only scored after.
const (
	Known   = "pairs"
	HeldOut = "heldout"
)

// Pairs checks every pair of a folder.
func Pairs(folder string) (list []Pair, err error) {
	entries, err := pairs.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		data, err := pairs.ReadFile(path.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		p, err := pair(strings.TrimSuffix(e.Name(), ".txtar"), data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		list = append(list, p)
	}
	return list, nil
}

// pair reads "source: …", "want: MG101 …" and the files before.* and after.*.
func pair(name string, data []byte) (Pair, error) {
	p := Pair{Name: name}
	a := txtar.Parse(data)
	for line := range strings.Lines(string(a.Comment)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "source":
			p.Source = value
		case "want":
			p.Want = strings.Fields(value)
		}
	}
	if p.Source == "" || len(p.Want) == 0 || len(a.Files) != 2 {
		return p, fmt.Errorf("want source:, want: and two files, have %d", len(a.Files))
	}
	for i, into := range []*[]string{&p.Before, &p.After} {
		found, err := check.File(a.Files[i].Name, a.Files[i].Data, check.Selection{})
		if err != nil {
			return p, err
		}
		for _, f := range found {
			*into = append(*into, f.Rule.ID)
		}
	}
	p.Found = slices.ContainsFunc(p.Before, func(id string) bool { return slices.Contains(p.Want, id) })
	p.Quiet = len(p.After) == 0
	return p, nil
}

// Recall is the share of pairs whose leak is found and whose repair is left alone.
func Recall(list []Pair) float64 {
	n := 0
	for _, p := range list {
		if p.Found && p.Quiet {
			n++
		}
	}
	return float64(n) / float64(max(len(list), 1))
}

// WrongRate is how many findings in 10,000 lines the review calls wrong; what nobody has judged counts as wrong.
func WrongRate(list []Package) float64 {
	wrong, lines := 0, 0
	for _, p := range list {
		wrong += p.Count("wrong") + p.Count("")
		lines += p.Lines
	}
	return float64(wrong) / float64(max(lines, 1)) * 1e4
}

// Print writes the tables as Markdown.
func Print(w io.Writer, pairs, heldOut []Pair, labelled []Labelled, packages []Package) {
	for _, p := range pairs {
		if !p.Found || !p.Quiet {
			fmt.Fprintf(w, "missed: %s (%s): before %v, want one of %v; after %v\n", p.Name, p.Source, p.Before,
				p.Want, p.After)
		}
	}
	fmt.Fprintf(w, "| pairs before/after | | found before | not silent after | both right |\n|---|---|---|---|---|\n")
	for i, list := range [][]Pair{pairs, heldOut} {
		found, loud := 0, 0
		for _, p := range list {
			if p.Found {
				found++
			}
			if !p.Quiet {
				loud++
			}
		}
		fmt.Fprintf(w, "| %s | %d | %d | %d | %.2f |\n", []string{Known, HeldOut}[i], len(list), found, loud,
			Recall(list))
	}
	fmt.Fprintln(w)
	fmt.Fprintf(w, "| labelled programs of test/accuracy | leaking | found | healthy | wrong "+
		"|\n|---|---|---|---|---|\n")
	for _, l := range labelled {
		fmt.Fprintf(w, "| %s | %d | %d | %d | %d |\n", l.Folder, l.Leaks, l.Found, l.Healthy, l.Wrong)
	}
	fmt.Fprintln(w)
	fmt.Fprintf(w, "| package | lines | findings | right | wrong | not judged | wrong in 10,000 lines "+
		"|\n|---|---|---|---|---|---|---|\n")
	var all Package
	for _, p := range append(slices.Clone(packages), all) {
		if p.Name == "" {
			all.Name = "all"
			p = all
		}
		fmt.Fprintf(w, "| %s | %d | %d | %d | %d | %d | %.3f |\n", p.Name, p.Lines, len(p.Findings), p.Count("right"),
			p.Count("wrong"), p.Count(""), WrongRate([]Package{p}))
		all.Lines += p.Lines
		all.Seconds += p.Seconds
		all.Findings = append(all.Findings, p.Findings...)
	}
	fmt.Fprintf(w, "\nCPU time, of all cores together: %.2f s for 100,000 lines\n",
		all.Seconds/float64(max(all.Lines, 1))*1e5)
}
