package evidence

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/secret"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

const (
	around   = 25  // lines of code before and behind the leak's line
	maxNamed = 20  // further lines that name what holds the memory
	widest   = 200 // characters of a line
)

// Prompt is a request to an assistant, or to somebody else, to mend a leak: what was measured, the code, what is asked.
// Secrets in the code are hidden.
func Prompt(l detect.Finding, job Job) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Mend a memory leak in a training program. memgauge has measured it while the program ran.\n\n"+
		"What was measured\n- memory: %s grows by %s since %s %.0f\n", l.Name(), l.PerStep(), l.Unit(), l.Start)
	item := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "- %s: %s\n", name, text)
		}
	}
	item("class", string(l.Class))
	item("held by", l.Holder)
	item("which is", l.Held)
	item("created at", l.Created())
	item("command", strings.Join(secret.Args(job.Command), " "))
	for _, e := range l.Evidence {
		item("evidence", e)
	}
	for _, a := range l.Advice {
		item("what helps in general", a)
	}
	b.WriteString(code(l, job))
	b.WriteString("\nWhat is asked\n" +
		"1. Say in one sentence why the memory is kept.\n" +
		"2. Change as little as possible so that it is not kept any longer than it is needed. Losses, the order of " +
		"random\n" +
		"   numbers and what is saved must stay the same; say so where they can't.\n" +
		"3. Answer with a unified diff against the file above.\n" +
		"The change is right when the program, run again with `memgauge run -- COMMAND`, is called healthy by\n" +
		"`memgauge leak` after as many steps.\n\n")
	return b.String()
}

// code is the text around the leak's line, and the other lines that name what holds the memory.
func code(l detect.Finding, job Job) string {
	file, line := Place(l, job)
	if file == "" {
		return "\nThe code is not on this machine.\n"
	}
	data, err := Unchanged(file, job)
	if err != nil {
		return fmt.Sprintf("\nThe code is not shown: %v\n", err)
	}
	var b strings.Builder
	lines := strings.Split(secret.Text(string(data)), "\n")
	write := func(i int) {
		text := []rune(lines[i])
		fmt.Fprintf(&b, "%5d  %s\n", i+1, string(text[:min(len(text), widest)]))
	}
	from, to := 0, min(len(lines), 2*around)
	if line > 0 {
		from, to = max(0, line-1-around), min(len(lines), line+around)
	}
	fmt.Fprintf(&b, "\nThe code: %s, lines %d to %d\n", short(file, job.Cwd), from+1, to)
	for i := from; i < to; i++ {
		write(i)
	}
	name := holderName(l.Holder)
	named := 0
	for i := range lines {
		if name == "" || i >= from && i < to || !slices.Contains(strings.FieldsFunc(lines[i], notName), name) {
			continue
		}
		if named++; named == 1 {
			fmt.Fprintf(&b, "Other lines that name %s\n", name)
		}
		if named <= maxNamed {
			write(i)
		}
	}
	return b.String()
}

func notName(r rune) bool {
	return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r < 0x80
}

// holderName is the last name of a path to what holds memory.
func holderName(holder string) string {
	parts := strings.FieldsFunc(holder, notName)
	if len(parts) == 0 {
		return ""
	}
	return parts[len(parts)-1]
}
