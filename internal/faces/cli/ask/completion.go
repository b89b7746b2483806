package ask

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/memgauge/memgauge/internal/base/pattern"
	typed "github.com/memgauge/memgauge/internal/base/prompt"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
)

// complete is what Tab makes of a line with the cursor at its end. Where several words fit it becomes what they have in
// common; pressed again, they are listed.
func (p *talk) complete(ctx context.Context, line string) string {
	start, list := p.words(ctx).Complete(line)
	common := typed.Common(list)
	switch {
	case len(list) == 0:
		return line
	case len(list) == 1 && !strings.HasSuffix(common, "(") && !strings.HasPrefix(strings.TrimSpace(line), ">>>"):
		return line[:start] + common + " "
	case len(common) > len(line)-start || len(list) == 1:
		return line[:start] + common
	}
	if p.tty != nil {
		wide, _, _ := p.tty.size()
		fmt.Fprint(p.tty.edit, inColumns(list, wide))
	}
	return line
}

// mostListed words are listed on Tab: more would scroll away what was there.
const mostListed = 60

// inColumns lists words side by side.
func inColumns(list []string, wide int) string {
	more := len(list) - mostListed
	if more > 0 {
		list = list[:mostListed]
	}
	each := 0
	for _, s := range list {
		each = max(each, len([]rune(s))+2)
	}
	across := max(1, wide/max(1, each))
	var b strings.Builder
	for i, s := range list {
		b.WriteString(s)
		if (i+1)%across == 0 || i == len(list)-1 {
			b.WriteByte('\n')
		} else {
			b.WriteString(strings.Repeat(" ", each-len([]rune(s))))
		}
	}
	if more > 0 {
		fmt.Fprintf(&b, "… %d more\n", more)
	}
	return b.String()
}

func (p *talk) words(ctx context.Context) typed.Words {
	return typed.Words{Commands: p.commandNames, Flags: p.flagNames, Sessions: sessionNames,
		Tables: func() []typed.Table { return p.tableNames(ctx) },
		Python: func(dotted string) []string { return p.pythonNames(ctx, dotted) }}
}

func (p *talk) commandNames() []string {
	known := []string{"use", "help", "exit"}
	for _, c := range p.a.RootCommand().Commands() {
		if !c.Hidden {
			known = append(known, c.Name())
		}
	}
	return known
}

func (p *talk) flagNames(command string) (list []string) {
	c, _, err := p.a.RootCommand().Find([]string{command})
	if err != nil {
		return nil
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			list = append(list, "--"+f.Name)
		}
	})
	return list
}

func sessionNames() (list []string) {
	live, err := ask.Live()
	if err != nil {
		return nil
	}
	for _, t := range live {
		list = append(list, t.Name())
	}
	return list
}

func (p *talk) tableNames(ctx context.Context) []typed.Table {
	if p.tables != nil || p.target == nil {
		return p.tables
	}
	p.tables = []typed.Table{}
	session, err := p.target.Connect(ctx)
	if err != nil {
		return nil // the next question says why
	}
	defer session.Close()
	list, err := session.Tables(ctx, false)
	if err != nil {
		return nil
	}
	for _, t := range list {
		table := typed.Table{Name: t.Schema + "." + t.Name}
		for _, c := range t.Columns {
			table.Columns = append(table.Columns, c.Name)
		}
		p.tables = append(p.tables, table)
	}
	return p.tables
}

// Code that prints the trainer's names: of an object that a dotted path leads to, or those that code at the prompt can
// use, the locals of the user's frames among them. It makes no name of its own.
const (
	attributesCode = `print(*sorted(n for n in dir(%s) if n.startswith(%s)), sep="\n")`
	namesCode      = `print(*sorted({n for n in [*globals(), *dir(__import__("builtins")), *(k ` +
		`for f in __import__("sys")._current_frames().values() for g, _ in __import__("traceback").walk_stack(f) ` +
		`if "/lib/python" not in g.f_code.co_filename and "/memgauge/" not in g.f_code.co_filename ` +
		`for k in g.f_locals)] if n.startswith(%s)}), sep="\n")`
)

// tabPatience is how long Tab waits for the trainer, and tabBytes how much it takes.
const (
	tabPatience = 2 * time.Second
	tabBytes    = 64 << 10
)

// dottedPath is what may be evaluated for Tab: names and attributes, no calls.
var dottedPath = pattern.Of(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$`)

// pythonNames asks the live trainer for names that begin as typed. It is an eval as any other, and stands among the
// session's events.
func (p *talk) pythonNames(ctx context.Context, dotted string) (list []string) {
	if p.target == nil || !p.target.IsLive() {
		return nil
	}
	base, part, code := "", dotted, ""
	if i := strings.LastIndexByte(dotted, '.'); i >= 0 {
		base, part = dotted[:i], dotted[i+1:]
		if !dottedPath().MatchString(base) {
			return nil
		}
		code = fmt.Sprintf(attributesCode, base, strconv.Quote(part))
		base += "."
	} else {
		code = fmt.Sprintf(namesCode, strconv.Quote(part))
	}
	session := p.target.Open()
	defer session.Close()
	var out strings.Builder
	_, err := session.Eval(ctx, api.EvalRequest{Choice: p.target.Choice(), Code: code, Place: api.Main,
		Timeout: tabPatience}, api.EvalOutput{
		Chosen: func([]api.Process) error { return nil },
		Print: func(_ int, stderr bool, text []byte) error {
			if !stderr && out.Len() < tabBytes {
				out.Write(text)
			}
			return nil
		}})
	if err != nil {
		return nil
	}
	for name := range strings.FieldsSeq(out.String()) {
		if part != "" || !strings.HasPrefix(name, "_") {
			list = append(list, base+name)
		}
	}
	return list
}
