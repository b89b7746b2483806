package check

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/formats/doc"
)

// place is where a finding is: path:line:column, with the cell of a notebook.
func (m measured) place() string {
	if m.Cell > 0 {
		return fmt.Sprintf("%s:cell %d:%d:%d", m.Path, m.Cell, m.Line, m.Col)
	}
	return fmt.Sprintf("%s:%d:%d", m.Path, m.Line, m.Col)
}

func writeText(out *bytes.Buffer, r *result) error {
	fixable, more := 0, 0
	for _, f := range r.findings {
		mark := ""
		if f.Fixable() {
			fixable++
			mark = "[*] "
		} else if f.Suggested() {
			more++
		}
		plain.Fprintf(out, "%s: %s %s%s\n", f.place(), f.Rule.ID, mark, f.Message)
		f.quote(out)
		if f.Measured != nil {
			fmt.Fprintf(out, "  measured: %s\n", f.Measured)
		}
		fmt.Fprintf(out, "  hint: %s\n\n", strings.ReplaceAll(f.Hint, "\n", "\n        "))
	}
	if r.mended > 0 {
		fmt.Fprintf(out, "Mended %s. ", doc.Plural(r.mended, "finding"))
	}
	if r.old > 0 {
		fmt.Fprintf(out, "%s in the baseline. ", doc.Plural(r.old, "finding"))
	}
	if len(r.findings) == 0 {
		fmt.Fprintf(out, "No findings in %s.\n", doc.Plural(r.files, "file"))
		return nil
	}
	fmt.Fprintf(out, "%s in %s.", doc.Plural(len(r.findings), "finding"), doc.Plural(r.files, "file"))
	if fixable > 0 {
		fmt.Fprintf(out, " [*] %d can be mended with --fix (--diff shows how).", fixable)
	}
	if more > 0 {
		fmt.Fprintf(out, " %d more with --fix --unsafe.", more)
	}
	out.WriteString("\n")
	return nil
}

// widest bounds the quoted part of a line, in characters, since lines may be minified code.
const widest = 160

// quote shows the line with a caret below the place.
func (m measured) quote(out *bytes.Buffer) {
	if m.Source == "" || utf8.RuneCountInString(m.Source) > widest {
		return
	}
	number := fmt.Sprint(m.Line)
	before := []rune(m.Source)[:min(m.Col-1, utf8.RuneCountInString(m.Source))]
	blank := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, string(before))
	n := 1
	if m.EndLine == m.Line {
		n = max(1, m.EndCol-m.Col)
	} else {
		n = max(1, utf8.RuneCountInString(m.Source)-len(before))
	}
	gap := strings.Repeat(" ", len(number))
	plain.Fprintf(out, "  %s |\n  %s | %s\n  %s | %s%s\n", gap, number, m.Source, gap, blank, strings.Repeat("^", n))
}
