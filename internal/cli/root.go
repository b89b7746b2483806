package cli

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

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/ask"
	"github.com/memgauge/memgauge/internal/plain"
	"github.com/memgauge/memgauge/internal/remedy"
)

// Version is set by the Makefile.
var Version = "0.1.0-dev"

// Exit codes, as docs and scripts know them.
const (
	exitFine        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitFindings    = 3
	exitTimeout     = 124
	exitInterrupted = 130
)

// app is what the commands share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	endpoint       string // from the command line or MEMGAUGE_TARGET; "" for the only live session
	sessionDir     string // --session
	families       []family
}

// family makes the commands of one package.
type family func(*app) []*cobra.Command

// usageError is a mistake on the command line.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// exitError ends the program with a code of its own and, unless err is nil, a message.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// Main runs the command line and returns the exit code.
func Main(families []family, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdoutEdge(stdout), stderr: newEdge(stderr), families: families}
	defer flushEdges(a.stdout, a.stderr)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second one ends what does not hear the first
	root := a.rootCommand()
	args, err := a.takeEndpoint(root, args)
	if err == nil {
		root.SetArgs(args)
		err = root.ExecuteContext(ctx)
	}
	return a.report(err)
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "memgauge",
		Short: "See, question and record the memory of AI training jobs",
		Long: "memgauge observes a training job from inside with a small agent and keeps what it saw in a database that outlives it.\n\n" +
			"  memgauge [ENDPOINT] COMMAND [flags] [arguments]\n\n" +
			"ENDPOINT says which session: a PID of the job, a session's name or id, a session directory, or rank=N. Without one:\n" +
			"MEMGAUGE_TARGET, else the only live session, else the newest finished one.",
		Version:       Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Example:       "  memgauge run -- python train.py\n  memgauge query \"SELECT step, max(allocated) FROM python.torch_trace GROUP BY step ORDER BY step\"\n  memgauge 27891 eval \"print(len(all_losses))\"",
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetUsageFunc(printUsage)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.PersistentFlags().StringVarP(&a.endpoint, "target", "t", os.Getenv("MEMGAUGE_TARGET"),
		"session to ask: `ENDPOINT` is a PID, name, id, directory or rank=N")
	for _, family := range a.families {
		root.AddCommand(family(a)...)
	}
	for _, c := range root.Commands() {
		a.finishCommand(c)
	}
	return root
}

// noSession marks a command that is about no session, or makes one of its own, in its Annotations.
const noSession = "no session"

func takesSession(c *cobra.Command) bool {
	_, none := c.Annotations[noSession]
	return !none
}

// aboutNoSession are the Annotations of such a command.
func aboutNoSession() map[string]string { return map[string]string{noSession: ""} }

// finishCommand gives a command what all have: --session, and wrong arguments as usage errors.
func (a *app) finishCommand(c *cobra.Command) {
	if takesSession(c) && c.Flags().Lookup("session") == nil {
		c.Flags().StringVar(&a.sessionDir, "session", "", "the session in `DIR`")
	}
	check := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if check == nil {
			return nil
		}
		if err := check(c, args); err != nil {
			return usageError{fmt.Errorf("%s: %w", c.Name(), err)}
		}
		return nil
	}
}

// alone refuses arguments; what one types after such a command is mostly the session that it shall ask.
func alone(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return remedy.Add(fmt.Errorf("unexpected argument %q", args[0]),
		fmt.Sprintf("a session or PID stands before the command: memgauge %s %s", args[0], c.Name()))
}

// takeEndpoint takes an ENDPOINT that stands before the command, as in `memgauge 27891 query …`.
func (a *app) takeEndpoint(root *cobra.Command, args []string) ([]string, error) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") || isCommand(root, args[0]) {
		return textArguments(args), nil
	}
	if len(args) > 1 && (isCommand(root, args[1]) || strings.HasPrefix(args[1], "-")) {
		return append([]string{"--target", args[0]}, textArguments(args[1:])...), nil
	}
	return nil, usageError{remedy.Add(fmt.Errorf("%q is not a command", args[0]),
		"memgauge --help lists the commands; memgauge ENDPOINT COMMAND asks a certain session")}
}

// textArguments keeps a statement that begins with an SQL comment ("-- growth") from being taken for a flag: no flag
// has a blank after its dashes. What follows `run` is the user's command and stays as it is.
func textArguments(args []string) []string {
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

func isCommand(root *cobra.Command, name string) bool {
	reserved := []string{"help", "completion", "__complete", "__completeNoDesc"} // cobra adds these when it runs
	if slices.Contains(reserved, name) {
		return true
	}
	return slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool {
		return c.Name() == name ||
			c.HasAlias(name)
	})
}

// report prints an error, its remedy, and gives the exit code.
func (a *app) report(err error) int {
	if err == nil {
		return exitFine
	}
	var exit *exitError
	if errors.As(err, &exit) && exit.err == nil {
		return exit.code
	}
	fmt.Fprintf(a.stderr, "memgauge: %v\n", err)
	if hint := remedy.Of(err); hint != "" {
		fmt.Fprintf(a.stderr, "hint: %s\n", hint)
	}
	var usage usageError
	switch {
	case exit != nil:
		return exit.code
	case errors.As(err, &usage), errors.Is(err, ask.ErrAmbiguous), strings.HasPrefix(err.Error(),
		"unknown command"),
		strings.HasPrefix(err.Error(), "if any flags in the group"): // cobra's word for flags that exclude each other
		return exitUsage
	case errors.Is(err, api.ErrTimeout):
		return exitTimeout
	case errors.Is(err, api.ErrCanceled), errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return exitFailed
}

// target finds the session that the command line means.
func (a *app) target(_ context.Context) (ask.Target, error) {
	if a.sessionDir != "" {
		return ask.At(a.sessionDir)
	}
	t, err := ask.Find(a.endpoint)
	if err == nil && t.Note != "" {
		fmt.Fprintf(a.stderr, "memgauge: %s\n", t.Note)
	}
	return t, err
}

// connect finds the session and who answers for it.
func (a *app) connect(ctx context.Context) (api.Session, error) {
	t, err := a.target(ctx)
	if err != nil {
		return nil, err
	}
	return t.Connect(ctx)
}

// text is standard output for prose, which is made safe wherever it goes: somebody may show the file.
func (a *app) text() io.Writer { return plain.NewWriter(a.stdout) }

// again is an app for one more command line, with the same streams.
func (a *app) again() *app {
	return &app{stdin: a.stdin, stdout: a.stdout, stderr: a.stderr, families: a.families}
}
