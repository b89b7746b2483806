package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	typed "github.com/memgauge/memgauge/internal/base/prompt"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/source"
)

func (a *commands) interactiveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "interactive",
		Short: "A prompt for SQL, all commands, and code inside the trainer",
		Long: "Reads lines and answers each of them about one session:\n\n" +
			"  SELECT …            SQL, as memgauge query takes it; goes on until it is whole, or to an empty line\n" +
			"  leak, where, oom …  every command of memgauge, with its flags\n" +
			"  >>> len(losses)     Python, run in the live trainer; a line that ends in : goes on to an empty one\n" +
			"  \\chart SELECT …     the columns over the first one, drawn\n" +
			"  \\d, \\d TABLE, \\l    tables, columns, sessions; \\bt, \\w: backtrace, where\n" +
			"  use ENDPOINT, \\c    another session from now on\n" +
			"  help, exit, \\q\n\n" +
			"A line that ends in \\ goes on. Tab completes commands, flags, tables, columns, and the trainer's names\n" +
			"behind >>>; the arrow keys recall earlier lines, Ctrl-R those that contain the text. An answer that does\n" +
			"not fit opens in a pager. Ctrl-C ends the question, Ctrl-D the prompt. From a pipe or a file lines are\n" +
			"read without a prompt.",
		Example: "  memgauge interactive\n" +
			"  memgauge 27891 interactive\n" +
			"  memgauge outputs interactive < questions.txt",
		Args: app.Alone,
		RunE: func(c *cobra.Command, _ []string) error { return a.interactive(c.Context()) },
	}
}

// talk is the state of the interactive prompt.
type talk struct {
	a      *commands
	lines  lineReader
	tty    *terminal     // nil where lines come from a pipe
	target *ask.Target   // nil where there is none
	tables []typed.Table // for completion; asked when first needed
}

// lineReader returns a line without its newline; io.EOF after the last.
type lineReader interface {
	line(prompt string) (string, error)
}

func (a *commands) interactive(ctx context.Context) error {
	// Ctrl-C ends the current command only, and must not affect later ones.
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, os.Interrupt)
	defer signal.Stop(ignored)
	ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM)
	defer stop()
	p := &talk{a: a}
	p.lines = p.reader(ctx)
	if t, err := a.Target(ctx); err == nil {
		p.target = &t
	} else if a.Named() {
		return fmt.Errorf("interactive: %w", err)
	}
	p.greet()
	for ctx.Err() == nil {
		line, err := p.lines.line(p.name() + "> ")
		if errors.Is(err, errInterrupted) {
			continue
		}
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("interactive: %w", err)
		}
		if p.answer(ctx, line) {
			return nil
		}
	}
	return nil
}

func (p *talk) name() string {
	if p.target == nil {
		return "memgauge"
	}
	return p.target.Name()
}

func (p *talk) greet() {
	if _, ok := p.lines.(*terminal); !ok {
		return
	}
	about := "no session yet"
	if p.target != nil {
		about = "session " + p.name()
	}
	fmt.Fprintf(p.a.Text(),
		"memgauge %s, %s. SQL, a command, or >>> code in the trainer; help tells more, Ctrl-D ends.\n", app.Version,
		about)
}

// answer runs a line. It returns true if the prompt is to end.
func (p *talk) answer(ctx context.Context, line string) (over bool) {
	line = strings.TrimSpace(line)
	if long, ok := typed.Shortcut(line); ok {
		p.keep(line)
		line = long
	}
	first, rest, _ := strings.Cut(line, " ")
	switch {
	case line == "":
		return false
	case slices.Contains([]string{"exit", "quit", `\q`}, line):
		return true
	case first == "use":
		p.keep(line)
		p.use(strings.TrimSpace(rest))
		return false
	case first == "interactive":
		fmt.Fprintln(p.a.Stderr, "memgauge: this is the prompt; use ENDPOINT asks another session")
		return false
	case line == "help" || line == "?":
		p.run(ctx, []string{"interactive", "--help"})
		return false
	}
	words, err := p.more(line)
	if errors.Is(err, errInterrupted) {
		return false
	}
	if err != nil {
		fmt.Fprintf(p.a.Stderr, "memgauge: %v\n", err)
		return false
	}
	p.run(ctx, words)
	return false
}

// keep adds what was typed to the history, without the semicolon that ended it on a terminal.
func (p *talk) keep(line string) {
	if p.tty == nil {
		return
	}
	if err := p.tty.history.Keep(line); err != nil && !p.tty.complained {
		p.tty.complained = true // once: the disk may be full for long
		fmt.Fprintf(p.a.Stderr, "memgauge: %v\n", err)
	}
}

// more makes a command's words of a line and its continuation lines.
func (p *talk) more(line string) ([]string, error) {
	code, python := strings.CutPrefix(line, ">>>")
	for strings.HasSuffix(line, `\`) {
		next, err := p.lines.line("... ")
		if err != nil {
			return nil, err
		}
		line = strings.TrimSuffix(line, `\`) + "\n" + next
		code, python = strings.CutPrefix(line, ">>>")
	}
	first, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch {
	case python:
		code, err := p.block(strings.TrimPrefix(code, " "))
		if err == nil {
			p.keep(">>> " + code)
		}
		return []string{"eval", code}, err
	case typed.IsSQL(line):
		line, err := p.statement("", line)
		return []string{"query", line}, err
	case first == `\chart`:
		line, err := p.statement(`\chart `, rest)
		return []string{`\chart`, line}, err
	}
	p.keep(line)
	switch {
	case (first == "eval" || first == "query") && rest != "" && !strings.ContainsAny(rest[:1], `-"'`):
		return []string{first, rest}, nil // as it is, with its quotes
	}
	return words(line)
}

// statement reads on until a statement is whole, or to an empty line. From a pipe each line is whole. What stood before
// it on its line goes into the history with it.
func (p *talk) statement(before, sql string) (string, error) {
	if p.tty != nil {
		for !typed.Whole(sql) {
			next, err := p.lines.line("... ")
			if err != nil {
				return "", err
			}
			if strings.TrimSpace(next) == "" {
				break
			}
			sql += "\n" + next
		}
	}
	p.keep(before + sql)
	return strings.TrimSuffix(strings.TrimSpace(sql), ";"), nil
}

// block reads the remaining lines of a Python block.
func (p *talk) block(code string) (string, error) {
	if !strings.HasSuffix(strings.TrimSpace(code), ":") {
		return code, nil
	}
	for {
		next, err := p.lines.line("... ")
		if errors.Is(err, io.EOF) || err == nil && strings.TrimSpace(next) == "" {
			return code, nil
		}
		if err != nil {
			return "", err
		}
		code += "\n" + next
	}
}

// run runs words like a command line, for this session unless they name another.
func (p *talk) run(ctx context.Context, args []string) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	if args[0] == `\chart` {
		p.a.Report(p.chart(ctx, args[1]))
		return
	}
	sub := p.a.Again()
	if p.tty != nil && args[0] == "query" && len(args) == 2 {
		defer p.page(ctx, sub)()
	}
	root := sub.RootCommand()
	c, _, err := root.Find(args[:1])
	if p.target != nil && err == nil && c != root && app.TakesSession(c) && app.IsCommand(root, args[0]) {
		args = append([]string{"--target", p.target.Dir()}, args...)
	}
	err = sub.Execute(ctx, args)
	if errors.Is(err, app.ErrNoCommand) {
		err = app.Usage(remedy.Add(fmt.Errorf("%q is not a command", args[0]),
			"help tells what a line may be; >>> CODE runs Python in the trainer"))
	}
	sub.Report(err)
}

func (p *talk) use(endpoint string) {
	e, err := source.Parse(endpoint)
	if err == nil && (e.Many || e.Lake != "") {
		err = fmt.Errorf("use: %q is no session of this machine", endpoint)
	}
	var t ask.Target
	if err == nil {
		t, err = ask.Find(e.Wanted)
	}
	if err != nil {
		p.a.Report(err)
		return
	}
	if t.Note != "" {
		fmt.Fprintf(p.a.Stderr, "memgauge: %s\n", t.Note)
	}
	p.target, p.tables = &t, nil
}

// words splits a line as a shell does: at blanks outside of quotes, without its variables, globs and escapes.
func words(line string) ([]string, error) {
	var out []string
	var word strings.Builder
	quote, in := rune(0), false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, in = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if in {
				out = append(out, word.String())
				word.Reset()
			}
			in = false
		default:
			word.WriteRune(r)
			in = true
		}
	}
	if quote != 0 {
		return nil, app.Usage(fmt.Errorf("a quote %c is not closed", quote))
	}
	if in {
		out = append(out, word.String())
	}
	return out, nil
}
