package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/ask"
	"github.com/memgauge/memgauge/internal/cli/app"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/hub"
	"github.com/memgauge/memgauge/internal/remedy"
	"github.com/memgauge/memgauge/internal/units"
)

// question is a command line that asks many machines.
type question struct {
	*app.App
	root *cobra.Command

	addr   string // of the hub; "": this machine's
	token  string // file
	ca     string // file
	shared bool   // the token may be readable by others: bus.SharedHint
	sel    fanout.Select
	strict bool
	live   bool // ask the sessions, also for what the hub's lake has
	wait   time.Duration

	lakeFlag string // of a query: one that is about the lake alone; "": none
	byTrino  bool   // a Trino server answers it, which knows nothing of nodes

	args []string // the command and its own
}

// patience is how long nodes have to begin their answer, where nobody says.
const patience = 2 * time.Second

var address = regexp.MustCompile(`^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}$`)

// Endpoint takes a command line that asks many machines: `hub`, host:port or job=NAME before the command or in
// MEMGAUGE_TARGET, narrowed by node=NAME and rank=N.
func Endpoint(ctx context.Context, a *app.App, root *cobra.Command, args []string) (taken bool, err error) {
	q := &question{App: a, root: root, wait: patience, shared: bus.SharedSecrets()}
	words, rest := leading(root, args)
	if !slices.ContainsFunc(words, far) {
		if len(args) == 0 || !app.IsCommand(root, args[0]) || !asksSessions(root, args[0]) {
			return false, nil
		}
		words = strings.FieldsFunc(os.Getenv("MEMGAUGE_TARGET"), func(r rune) bool { return r == ',' || r == ' ' })
		if rest = args; !slices.ContainsFunc(words, far) {
			return false, nil
		}
	}
	if err := q.take(words); err != nil {
		return true, app.Usage(err)
	}
	if q.args, err = q.flags(rest); err != nil {
		return true, app.Usage(err)
	}
	return true, q.run(ctx)
}

// leading are the words before the command that say where to ask.
func leading(root *cobra.Command, args []string) (words, rest []string) {
	if len(args) > 1 && (args[0] == "-t" || args[0] == "--target") {
		words, rest = strings.FieldsFunc(args[1], func(r rune) bool { return r == ',' || r == ' ' }), args[2:]
		return words, rest
	}
	for i, word := range args {
		next := strings.Split(word, ",")
		if !slices.ContainsFunc(next, func(w string) bool { return !far(w) && !narrows(w) }) &&
			!isHubCommand(root, args[i:]) {
			words = append(words, next...)
			continue
		}
		return words, args[i:]
	}
	return nil, args
}

// isHubCommand tells `memgauge hub --listen …` and `memgauge hub status` from `memgauge hub leak`.
func isHubCommand(root *cobra.Command, args []string) bool {
	switch {
	case args[0] != "hub":
		return false
	case len(args) == 1:
		return true
	}
	next := args[1]
	switch {
	case far(next) || narrows(next):
		return false
	case strings.HasPrefix(next, "-"):
		return next != "--strict" && next != "--live" && !strings.HasPrefix(next, "--deadline")
	}
	return !asksSessions(root, next)
}

// far is a word that means many machines.
func far(word string) bool {
	return word == "hub" || strings.HasPrefix(word, "job=") || strings.HasPrefix(word, "node=") ||
		address.MatchString(word)
}

// narrows is a word that leaves some of them.
func narrows(word string) bool { return strings.HasPrefix(word, "rank=") }

// asksSessions says whether a command can be asked of sessions on other machines.
func asksSessions(root *cobra.Command, name string) bool {
	if name == "list" {
		return true
	}
	return slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool {
		return c.Name() == name && app.TakesSession(c)
	})
}

func (q *question) take(words []string) error {
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch {
		case word == "hub":
		case name == "job":
			q.sel.Job = value
		case name == "node":
			q.sel.Node = value
		case name == "rank":
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 {
				return fmt.Errorf("%s: %q is not a rank", word, value)
			}
			q.sel.Rank = &n
		case address.MatchString(word):
			q.addr = word
		default:
			return remedy.Add(fmt.Errorf("%q: it can't be said together with a hub", word),
				"memgauge hub job=NAME node=NAME rank=N COMMAND")
		}
	}
	return nil
}

// flags takes those that are about asking many; what follows -- or is SQL stays.
func (q *question) flags(args []string) (rest []string, err error) {
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		switch name {
		case "--strict":
			q.strict = true
			continue
		case "--live":
			q.live = true
			continue
		case "--shared-secrets":
			q.shared = true
			continue
		case "--deadline", "--token-file", "--ca":
			if !joined {
				if i++; i == len(args) {
					return nil, fmt.Errorf("flag needs an argument: %s", name)
				}
				value = args[i]
			}
		default:
			rest = append(rest, args[i])
			continue
		}
		switch name {
		case "--deadline":
			d, err := units.ParseDuration(value)
			if err != nil || d <= 0 {
				return nil, fmt.Errorf("--deadline %q: not a duration such as 2s", value)
			}
			q.wait = time.Duration(d)
		case "--token-file":
			q.token = value
		case "--ca":
			q.ca = value
		}
	}
	if len(rest) == 0 {
		return nil, remedy.Add(errors.New("there is no command"), "memgauge hub leak judges all machines")
	}
	return app.TextArguments(rest), nil
}

// dial reaches the hub.
func (q *question) dial() (*bus.Conn, error) {
	o, err := q.dialOptions()
	if err != nil {
		return nil, err
	}
	return bus.Dial(o)
}

func (q *question) dialOptions() (o bus.DialOptions, err error) {
	home, err := ask.Home()
	if err != nil {
		return o, err
	}
	dir := filepath.Join(home, hubDir)
	if o.URL = q.addr; o.URL == "" {
		o.URL = os.Getenv("MEMGAUGE_HUB")
	}
	o.CA = q.ca
	file := firstOf(q.token, os.Getenv("MEMGAUGE_TOKEN_FILE"))
	if o.URL == "" {
		f, err := hub.Find(dir)
		if err != nil {
			return o, err
		}
		o.URL, o.Plain, o.CA, file = f.Addr, f.Plain, firstOf(o.CA, f.Cert), firstOf(file, f.Creds)
	}
	file = firstOf(file, hub.AskToken(dir))
	if o.Plain {
		return o, nil
	}
	o.Token, err = bus.ReadToken(file, q.shared)
	if errors.Is(err, os.ErrNotExist) {
		return o, remedy.Add(err,
			"copy "+hub.AskToken(hubDir)+" from the hub's MEMGAUGE_HOME, and name it with --token-file")
	}
	if err == nil && !o.Token.Lets(bus.Asks) {
		return o, remedy.Add(fmt.Errorf("the token in %s lets one be a node, not ask", file),
			"on the hub, hub/ask.token in MEMGAUGE_HOME is the one for that")
	}
	return o, err
}

func firstOf(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}
