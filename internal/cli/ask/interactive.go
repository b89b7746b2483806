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

	"github.com/memgauge/memgauge/internal/ask"
	"github.com/memgauge/memgauge/internal/cli/app"
)

func (a *commands) interactiveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "interactive",
		Short: "A prompt for SQL, all commands, and code inside the trainer",
		Long: "Reads lines and answers each of them about one session:\n\n" +
			"  SELECT …            SQL, as memgauge query takes it\n" +
			"  leak, where, oom …  every command of memgauge, with its flags\n" +
			"  >>> len(losses)     Python, run in the live trainer; a line that ends in : goes on to the next empty one\n" +
			"  use ENDPOINT        another session from now on\n" +
			"  help, exit\n\n" +
			"A line that ends in \\ goes on. Tab completes commands and tables. Ctrl-C ends what runs, Ctrl-D the prompt. From a pipe or a\n" +
			"file lines are read without a prompt.",
		Example: "  memgauge interactive\n" +
			"  memgauge 27891 interactive\n" +
			"  memgauge outputs interactive < questions.txt",
		Args: app.Alone,
		RunE: func(c *cobra.Command, _ []string) error { return a.interactive(c.Context()) },
	}
}

// prompt is the state of the interactive prompt.
type prompt struct {
	a      *commands
	lines  lineReader
	target *ask.Target // nil if there is no session
	tables []string    // for completion; queried when first needed
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
	p := &prompt{a: a}
	p.lines = p.reader(ctx)
	if t, err := a.Target(ctx); err == nil {
		p.target = &t
	} else if a.Endpoint != "" || a.SessionDir != "" {
		return fmt.Errorf("interactive: %w", err)
	}
	p.greet()
	for ctx.Err() == nil {
		line, err := p.lines.line(p.name() + "> ")
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

func (p *prompt) name() string {
	if p.target == nil {
		return "memgauge"
	}
	return p.target.Name()
}

func (p *prompt) greet() {
	if _, ok := p.lines.(*terminal); !ok {
		return
	}
	about := "no session yet"
	if p.target != nil {
		about = "session " + p.name()
	}
	fmt.Fprintf(p.a.Stdout,
		"memgauge %s, %s. SQL, a command, or >>> code in the trainer; help tells more, Ctrl-D ends.\n", app.Version,
		about)
}

// answer runs a line. It returns true if the prompt is to end.
func (p *prompt) answer(ctx context.Context, line string) (over bool) {
	line = strings.TrimSpace(line)
	first, rest, _ := strings.Cut(line, " ")
	switch {
	case line == "":
		return false
	case slices.Contains([]string{"exit", "quit", `\q`}, line):
		return true
	case first == "use":
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
	if err != nil {
		fmt.Fprintf(p.a.Stderr, "memgauge: %v\n", err)
		return false
	}
	p.run(ctx, words)
	return false
}

// sqlWords begin the statements that query takes.
var sqlWords = []string{"select", "with", "from", "show", "describe", "explain", "summarize", "table", "values",
	"pivot", "unpivot"}

// more makes a command's words of a line and its continuation lines.
func (p *prompt) more(line string) ([]string, error) {
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
		return []string{"eval", code}, err
	case slices.Contains(sqlWords, strings.ToLower(first)):
		return []string{"query", strings.TrimSuffix(line, ";")}, nil
	case (first == "eval" || first == "query") && rest != "" && !strings.ContainsAny(rest[:1], `-"'`):
		return []string{first, rest}, nil // as it is, with its quotes
	}
	return words(line)
}

// block reads the remaining lines of a Python block.
func (p *prompt) block(code string) (string, error) {
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
func (p *prompt) run(ctx context.Context, args []string) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	sub := p.a.Again()
	root := sub.RootCommand()
	c, _, err := root.Find(args[:1])
	if p.target != nil && err == nil && c != root && app.TakesSession(c) && app.IsCommand(root, args[0]) {
		args = append([]string{"--target", p.target.Dir()}, app.TextArguments(args)...)
	} else {
		if args, err = sub.TakeEndpoint(root, args); err != nil {
			sub.Report(err)
			return
		}
	}
	root.SetArgs(args)
	sub.Report(root.ExecuteContext(ctx))
}

func (p *prompt) use(endpoint string) {
	t, err := ask.Find(endpoint)
	if err != nil {
		p.a.Report(err)
		return
	}
	if t.Note != "" {
		fmt.Fprintf(p.a.Stderr, "memgauge: %s\n", t.Note)
	}
	p.target, p.tables = &t, nil
}

// complete completes a line with the cursor at its end: the name of a command or of a table.
func (p *prompt) complete(ctx context.Context, line string) string {
	start := strings.LastIndexAny(line, " (,") + 1
	var known []string
	if start == 0 {
		for _, c := range p.a.RootCommand().Commands() {
			if !c.Hidden {
				known = append(known, c.Name())
			}
		}
		known = append(known, "use", "help", "exit", "SELECT")
	} else {
		known = p.tableNames(ctx)
	}
	prefix := ""
	for _, k := range known {
		if !strings.HasPrefix(k, line[start:]) {
			continue
		}
		if prefix == "" {
			prefix = k + " "
		}
		for !strings.HasPrefix(k+" ", prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	if prefix == "" {
		return line
	}
	return line[:start] + prefix
}

func (p *prompt) tableNames(ctx context.Context) []string {
	if p.tables != nil || p.target == nil {
		return p.tables
	}
	p.tables = []string{}
	session, err := p.target.Connect(ctx)
	if err != nil {
		return nil // the next command reports the error
	}
	defer session.Close()
	list, err := session.Tables(ctx, false)
	if err != nil {
		return nil
	}
	for _, t := range list {
		p.tables = append(p.tables, t.Schema+"."+t.Name)
	}
	return p.tables
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
