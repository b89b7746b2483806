package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/faces/source"
	"github.com/memgauge/memgauge/internal/fleet/bus"
)

// HubOptions are the flags of a command that asks many machines.
type HubOptions struct {
	source.Way
	Strict bool
	Live   bool // ask the sessions, also for what the hub's lake has
	Wait   time.Duration
}

// patience is how long nodes have to begin their answer, where nobody says.
const patience = 2 * time.Second

// hubFlags are their names.
var hubFlags = []string{"strict", "live", "deadline", "token-file", "ca", "shared-secrets"}

// Execute runs a command line.
func (a *App) Execute(ctx context.Context, args []string) error {
	root := a.RootCommand()
	args, err := a.takeEndpoint(root, args)
	if err != nil {
		return err
	}
	defer a.leave()
	root.SetArgs(args)
	err = root.ExecuteContext(ctx)
	if !IsUsage(err) && isFlagError(err) { // of a flag before the command
		err = Usage(wrongFlag(root, err))
	}
	return a.strictly(err)
}

func isFlagError(err error) bool {
	return errors.As(err, new(*pflag.InvalidValueError)) || errors.As(err, new(*pflag.NotExistError)) ||
		errors.As(err, new(*pflag.ValueRequiredError)) || errors.As(err, new(*pflag.InvalidSyntaxError))
}

// addEndpoint adds the flags that say what is asked, and how it is reached.
func (a *App) addEndpoint(root *cobra.Command) {
	f := root.PersistentFlags()
	a.Say(os.Getenv("MEMGAUGE_TARGET"))
	f.VarP(said{a}, "target", "t",
		"what to ask: `ENDPOINT` is a PID, name, id, directory, rank=N, hub, job=NAME or lake=WHERE")
	wait := (*units.Duration)(&a.Hub.Wait)
	a.Hub = HubOptions{Wait: patience}
	f.BoolVar(&a.Hub.Strict, "strict", false, "exit with 1 where a node is missing")
	f.BoolVar(&a.Hub.Live, "live", false, "query, tables and leak: ask the sessions, not what the hub has of them")
	f.Var(wait, "deadline", "how long nodes have to begin their answer")
	f.StringVar(&a.Hub.Token, "token-file", "", "`FILE` with the hub's ask token (MEMGAUGE_TOKEN_FILE)")
	f.StringVar(&a.Hub.CA, "ca", "", "`FILE` with the authorities of the hub's certificate, where it is one of yours")
	f.BoolVar(&a.Hub.Shared, "shared-secrets", bus.SharedSecrets(), bus.SharedHint)
	f.Lookup("shared-secrets").DefValue = "false"
	Check(f, "deadline", func(text string) error {
		if d, err := units.ParseDuration(text); err != nil || d <= 0 {
			return errors.New("not a duration such as 2s")
		}
		return nil
	})
	root.Flags().AddFlagSet(f) // cobra's traversal looks at these alone
	root.Flags().StringVar(&a.SessionDir, "session", "", "the session in `DIR`")
	_ = root.Flags().MarkHidden("session") // commands list their own
}

// said is the value of -t.
type said struct{ a *App }

func (s said) String() string {
	if s.a == nil { // pflag makes a zero one
		return ""
	}
	return s.a.said
}

func (s said) Set(text string) error {
	s.a.Say(text)
	return nil
}

func (said) Type() string { return "string" }

// Say takes an ENDPOINT. One that means nothing is refused by the command that needs it.
func (a *App) Say(texts ...string) {
	a.said = strings.Join(texts, " ")
	a.Endpoint, a.wrong = source.Parse(texts...)
}

// Said is the ENDPOINT as it was said.
func (a *App) Said() string { return a.said }

// Named says whether the command line, or MEMGAUGE_TARGET, says what is asked.
func (a *App) Named() bool {
	return a.SessionDir != "" || a.Far != nil || a.Endpoint.Given() || a.wrong != nil
}

// takeEndpoint takes the ENDPOINT that stands before the command, as in `memgauge 27891 query …`.
func (a *App) takeEndpoint(root *cobra.Command, args []string) ([]string, error) {
	if len(args) > 0 && isCompletion(args[0]) {
		return a.completing(root, args), nil
	}
	n := wordsBefore(root, args)
	if n == 0 {
		return TextArguments(args), nil
	}
	words, rest := args[:n], args[n:]
	if len(rest) == 0 || !strings.HasPrefix(rest[0], "-") && !IsCommand(root, rest[0]) {
		return nil, Usage(noCommand(root, words, rest))
	}
	a.Say(words...)
	root.PersistentFlags().Lookup("target").Changed = true
	return TextArguments(rest), nil
}

// ErrNoCommand is about a word that stands where a command should.
var ErrNoCommand = errors.New("is not a command")

// noCommand says what is missing, or what is taken for a command and is none.
func noCommand(root *cobra.Command, words, rest []string) error {
	wrong := words[0]
	if e, err := source.Parse(wrong); err != nil || e.Name == "" {
		if len(rest) == 0 {
			return remedy.Add(errors.New("there is no command"), "memgauge "+wrong+" leak judges what is meant")
		}
		wrong = rest[0]
	}
	if len(rest) > 0 && meant(root, wrong) == "" && meant(root, rest[0]) != "" { // as in `memgauge mysession lek`
		wrong = rest[0]
	}
	return remedy.Add(fmt.Errorf("%q %w", wrong, ErrNoCommand), meant(root, wrong)+
		"memgauge --help lists the commands; memgauge ENDPOINT COMMAND asks a certain session")
}

// wordsBefore counts the words before the first flag or the command.
func wordsBefore(root *cobra.Command, args []string) int {
	for i, word := range args {
		if strings.HasPrefix(word, "-") || IsCommand(root, word) && !(word == "hub" && asksHub(root, args[i+1:])) {
			return i
		}
		if i > 0 && !source.IsWord(word) && !source.IsWord(args[i-1]) { // neither says what is asked
			return i
		}
	}
	return len(args)
}

// asksHub tells `memgauge hub leak` from `memgauge hub --listen …` and `memgauge hub status`, by what follows `hub`.
func asksHub(root *cobra.Command, args []string) bool {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name, _, joined := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
		f := root.PersistentFlags().Lookup(name)
		if f == nil || !strings.HasPrefix(args[0], "--") {
			return false
		}
		if args = args[1:]; !joined && f.NoOptDefVal == "" {
			args = args[min(1, len(args)):]
		}
	}
	if len(args) == 0 || source.IsWord(args[0]) {
		return len(args) > 0
	}
	return slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool {
		return c.Name() == args[0] && asksMany(c)
	})
}

// The annotations of commands that no session is for, but many machines are.
const (
	allSessions = "all sessions"
	aboutHub    = "the hub itself"
)

// AboutAllSessions returns the Annotations of a command about the sessions that there are, here or elsewhere.
func AboutAllSessions() map[string]string { return map[string]string{noSession: "", allSessions: ""} }

// AboutHub returns the Annotations of a command that reaches a hub, for what that itself knows.
func AboutHub() map[string]string { return map[string]string{noSession: "", aboutHub: ""} }

// asksMany says whether a command can be asked of sessions on other machines.
func asksMany(c *cobra.Command) bool {
	_, all := c.Annotations[allSessions]
	return all || TakesSession(c)
}

// reachesHub says whether a command can be asked of a hub, or through one.
func reachesHub(c *cobra.Command) bool {
	_, hub := c.Annotations[aboutHub]
	return hub || asksMany(c)
}

// found says that the words have been followed already, or that --session says more.
func (a *App) found() bool { return a.Far != nil || a.SessionDir != "" }

// Many says whether the sessions of many machines are meant.
func (a *App) Many() bool { return !a.found() && a.Endpoint.Many }

// far says whether a command is asked of many machines.
func (a *App) far(c *cobra.Command) bool { return a.Many() && asksMany(c) }

// checkEndpoint refuses an ENDPOINT, or a way to it, that a command has no use for.
func (a *App) checkEndpoint(c *cobra.Command) error {
	if err := a.handSession(c); err != nil {
		return err
	}
	named := c.Root().PersistentFlags().Lookup("target").Changed
	switch {
	case a.wrong != nil && (named || asksMany(c)) && !a.found():
		return a.wrong
	case named && !TakesSession(c) && !a.far(c):
		return remedy.Add(fmt.Errorf("%s: it asks no session, so that %q has no meaning before it", Called(c), a.said),
			"it is called as "+c.UseLine())
	}
	if reachesHub(c) && !asksMany(c) || a.far(c) || a.Far != nil {
		return nil
	}
	for _, name := range hubFlags {
		if c.Root().PersistentFlags().Lookup(name).Changed {
			return remedy.Add(fmt.Errorf("%s: --%s is about many machines", Called(c), name),
				"hub, host:port or job=NAME stands before the command: memgauge hub "+c.Name())
		}
	}
	return nil
}

// handSession gives a --session before the command to the command that has one of its own, as run does.
func (a *App) handSession(c *cobra.Command) error {
	said := c.Root().Flags().Lookup("session")
	if !said.Changed || TakesSession(c) {
		return nil
	}
	dir := said.Value.String()
	a.SessionDir = ""
	if c.Flags().Lookup("session") == nil {
		return remedy.Add(fmt.Errorf("%s: it asks no session, so that --session has no meaning before it", Called(c)),
			"it is called as "+c.UseLine())
	}
	return c.Flags().Set("session", dir)
}
