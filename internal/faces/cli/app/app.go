// Package app owns what all commands share: streams, endpoint, exit codes, inputs, help. It knows no command.
package app

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

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/faces/source"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
)

// Exit codes, as docs and scripts know them.
const (
	exitFine        = 0
	ExitFailed      = 1
	exitUsage       = 2
	ExitFindings    = 3
	ExitTimeout     = 124
	ExitInterrupted = 130
)

// App is what the commands share.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Endpoint       source.Endpoint // from the command line or MEMGAUGE_TARGET; zero for the only live session
	SessionDir     string          // --session
	Hub            HubOptions      // where the ENDPOINT means many machines
	Families       []Family
	Far            *ask.Target // the session, where it was found already
	Rights         api.Rights  // of a command that somebody else asks for; 0: the user's own, all
	// Apart says that somebody else asks, whom this process answers and outlives: a finished session is asked in a
	// process of its own, and all that is asked is of this machine.
	Apart bool
	Reach Reach // a hub; nil: the one that Hub says

	said    string // the ENDPOINT as it was said
	wrong   error  // why it means nothing
	command string // that runs
	source  *source.Source
	missing []fanout.Missing // nodes that did not answer
}

// Family makes the commands of one package.
type Family func(*App) []*cobra.Command

// usageError is a mistake on the command line.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// Usage returns an error about a wrong command line, with exit code 2.
func Usage(err error) error { return usageError{err} }

// IsUsage reports whether an error is a mistake on the command line.
func IsUsage(err error) bool {
	var usage usageError
	return errors.As(err, &usage)
}

// exitError ends the program with a code of its own and, unless err is nil, a message.
type exitError struct {
	code int
	err  error
}

// IsExit reports whether an error is an exit code of its own and no failure.
func IsExit(err error) bool {
	var exit *exitError
	return errors.As(err, &exit)
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// Exit ends the program with a code of its own and, unless err is nil, a message.
func Exit(code int, err error) error { return &exitError{code, err} }

// Main runs the command line and returns the exit code.
func Main(families []Family, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &App{Stdin: stdin, Stdout: term.StdoutEdge(stdout), Stderr: term.NewEdge(stderr), Families: families}
	defer term.FlushEdges(a.Stdout, a.Stderr)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process even if the first had no effect
	ctx = ask.Telling(ctx, func(line string) { plain.Fprintf(a.Stderr, "memgauge: %s\n", line) })
	return a.Report(a.Execute(ctx, args))
}

// RootCommand returns the command memgauge with all families below it. Its flags are fields of a.
func (a *App) RootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "memgauge",
		Short: "See, question and record the memory of AI training jobs",
		Long: "memgauge observes a training job from inside with a small agent and keeps what it saw in a database that outlives it.\n\n" +
			"  memgauge [ENDPOINT] COMMAND [flags] [arguments]\n\n" +
			"ENDPOINT says which session: a PID of the job, a session's name or id, a session directory, or rank=N. Without one:\n" +
			"MEMGAUGE_TARGET, else the only live session, else the newest finished one.\n" +
			"hub, host:port and job=NAME ask many machines (memgauge hub --help), lake=WHERE the rows that one keeps.",
		Version:          Version,
		SilenceErrors:    true,
		SilenceUsage:     true,
		TraverseChildren: true, // a flag before the command is ours, also where the command has one of that name
		Example:          "  memgauge run -- python train.py\n  memgauge query \"SELECT step, max(allocated) FROM python.torch_trace GROUP BY step ORDER BY step\"\n  memgauge 27891 eval \"print(len(all_losses))\"",
	}
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.SetUsageFunc(printUsage)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return Usage(wrongFlag(c, err)) })
	a.addEndpoint(root)
	for _, family := range a.Families {
		root.AddCommand(family(a)...)
	}
	for _, c := range root.Commands() {
		a.FinishCommand(c)
	}
	a.completeRoot(root)
	return root
}

// noSession is the annotation of commands that need no session or make one of their own.
const noSession = "no session"

// TakesSession reports whether a command needs a session, and so accepts an ENDPOINT before it and --session.
func TakesSession(c *cobra.Command) bool {
	_, none := c.Annotations[noSession]
	return !none
}

// AboutNoSession returns the Annotations of such a command.
func AboutNoSession() map[string]string { return map[string]string{noSession: ""} }

// FinishCommand adds what all commands have: the flag --session, and usage errors for wrong arguments. A command that
// only leads to others shows its help, and refuses what is none of them.
func (a *App) FinishCommand(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.FinishCommand(sub)
	}
	if c.HasSubCommands() && !c.Runnable() {
		leadOn(c)
	}
	if TakesSession(c) && c.Flags().Lookup("session") == nil {
		c.Flags().StringVar(&a.SessionDir, "session", "", "the session in `DIR`")
	}
	checkAll(c)
	complete(c)
	check := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		a.command = Called(c)
		if err := a.checkEndpoint(c); err != nil {
			return Usage(err)
		}
		if check == nil {
			return nil
		}
		err := check(c, args)
		if err == nil {
			return nil
		}
		if strings.HasPrefix(err.Error(), "unknown command") { // cobra.NoArgs takes any argument for one
			err = fmt.Errorf("unexpected argument %q", args[0])
		}
		if remedy.Of(err) == "" {
			err = remedy.Add(err, "it is called as "+c.UseLine())
		}
		return Usage(fmt.Errorf("%s: %w", Called(c), err))
	}
}

// Called returns a command's name as it is typed behind memgauge: snapshot query.
func Called(c *cobra.Command) string { return strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ") }

// Alone refuses arguments. Users who give one mostly mean the session, so the error explains where that goes.
func Alone(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unexpected argument %q", args[0])
	switch {
	case TakesSession(c):
	case c.HasSubCommands():
		return remedy.Add(err, listsCommands(c))
	default:
		return err
	}
	return remedy.Add(err,
		fmt.Sprintf("a session or PID stands before the command: memgauge %s %s", args[0], Called(c)))
}

// TextArguments marks a statement that begins with an SQL comment ("-- growth") as an argument, so that it isn't parsed
// as a flag: no flag has a blank after its dashes. Arguments after `run` are the user's command and stay as they are.
func TextArguments(args []string) []string {
	out := slices.Clone(args)
	for i, a := range out {
		if a == "run" {
			break
		}
		if rest, ok := strings.CutPrefix(a, "--"); ok && strings.TrimLeft(rest, " \t\r\n") != rest {
			out[i] = "\n" + a
		}
	}
	return out
}

// IsCommand reports whether name is a command of root, an alias of one, or a command that cobra adds.
func IsCommand(root *cobra.Command, name string) bool {
	if name == "help" || name == "completion" || isCompletion(name) { // cobra adds these when it runs
		return true
	}
	return slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool {
		return c.Name() == name ||
			c.HasAlias(name)
	})
}

var furtherLines = strings.NewReplacer("\n\n", "\n\n  ", "\n", "\n  ")

// indented moves all lines of a text but the first away from the margin, where our own lines begin. So a file's name
// with a line break in it, or a reason that another process gives, forges no hint of ours.
func indented(text string) string { return furtherLines.Replace(strings.TrimRight(text, "\n")) }

// Report prints an error with its remedy, and returns the exit code.
func (a *App) Report(err error) int { return report(a.Stderr, err) }

func report(to io.Writer, err error) int {
	if err == nil {
		return exitFine
	}
	var exit *exitError
	if errors.As(err, &exit) && exit.err == nil {
		return exit.code
	}
	err = wordGroups(err)
	fmt.Fprintf(to, "memgauge: %s\n", indented(err.Error()))
	if hint := remedy.Of(err); hint != "" {
		fmt.Fprintf(to, "hint: %s\n", indented(hint))
	}
	switch {
	case exit != nil:
		return exit.code
	case IsUsage(err), errors.Is(err, ask.ErrAmbiguous), errors.Is(err, source.ErrCannot),
		strings.HasPrefix(err.Error(), "unknown command"):
		return exitUsage
	case errors.Is(err, api.ErrTimeout):
		return ExitTimeout
	case errors.Is(err, api.ErrCanceled), errors.Is(err, context.Canceled):
		return ExitInterrupted
	}
	return ExitFailed
}

// Text is standard output for prose. Escape sequences are removed even if it is a file, since somebody may show that
// on a terminal.
func (a *App) Text() io.Writer { return plain.NewWriter(a.Stdout) }

// Answer is where a command's answer goes that is either JSON or prose.
func (a *App) Answer(asJSON bool) io.Writer {
	if asJSON {
		return a.Stdout
	}
	return a.Text()
}

// Again returns an App for another command line, with the same streams.
func (a *App) Again() *App {
	return &App{Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr, Families: a.Families, Rights: a.Rights,
		Apart: a.Apart, Reach: a.Reach}
}
