package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/ask"
	"github.com/memgauge/memgauge/internal/cli/app"
	"github.com/memgauge/memgauge/internal/doc"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/hub"
	"github.com/memgauge/memgauge/internal/model"
	"github.com/memgauge/memgauge/internal/remedy"
	"github.com/memgauge/memgauge/internal/render"
	"github.com/memgauge/memgauge/internal/term"
	"github.com/memgauge/memgauge/internal/units"
)

type hubOptions struct {
	hub.Options
	allow []string
}

func (a *commands) hubCommand() *cobra.Command {
	var o hubOptions
	c := &cobra.Command{
		Use:         "hub",
		Annotations: app.AboutNoSession(),
		Short:       "Connect many machines: carry questions to them and their answers back",
		Long: "Runs until Ctrl-C, and prints the line that makes another machine a node of it. " +
			"Without --listen only\n" +
			"this machine can connect. Connections are TLS 1.3 with a certificate that the hub makes, which the\n" +
			"token names; whoever has the join token can be a node, whoever has the ask token can ask.\n\n" +
			"  memgauge hub [job=NAME] [node=NAME] [rank=N] COMMAND [--strict] [--deadline 2s]\n\n" +
			"asks all machines: query, tables, leak, where, list, backtrace, tensors, oom, report, and eval --all\n" +
			"where hub and node allow it. Nodes that did not answer are named, and with --strict the exit code is\n" +
			"then 1 (docs/fleet.md).",
		Example: "  memgauge hub --listen 0.0.0.0:4222\n" +
			"  memgauge hub status\n" +
			"  memgauge hub leak\n" +
			"  memgauge hub job=llama rank=7 query \"SELECT max(step) FROM python.steps\"",
		Args: app.Alone,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.hub(cmd.Context(), o) },
	}
	f := c.Flags()
	f.StringVar(&o.Listen, "listen", "127.0.0.1:"+defaultPort,
		"`ADDRESS` to listen at: host:port; 0.0.0.0 is every interface")
	f.StringVar(&o.Dir, "dir", "", "`DIR` for the hub's files (default hub in MEMGAUGE_HOME)")
	f.StringVar(&o.CertFile, "cert", "", "`FILE` with a certificate of your own, in place of one that the hub makes")
	f.StringVar(&o.KeyFile, "key", "", "`FILE` with its key")
	f.StringSliceVar(&o.allow, "allow", nil, "also carry what changes trainings: eval")
	f.BoolVar(&o.Insecure, "insecure", false, "neither TLS nor tokens; on this machine's loopback only")
	c.MarkFlagsRequiredTogether("cert", "key")
	c.AddCommand(a.statusCommand())
	return c
}

func (a *commands) hub(ctx context.Context, o hubOptions) error {
	if err := o.check(); err != nil {
		return app.Usage(err)
	}
	o.Log = a.log()
	h, err := hub.Open(o.Options)
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	defer h.Close()
	a.greet(h, o)
	return h.Run(ctx)
}

func (o *hubOptions) check() error {
	o.MaxDisk = waiting
	var err error
	if o.Grant, err = allowed("hub", o.allow); err != nil {
		return err
	}
	if o.Dir != "" {
		return nil
	}
	home, err := ask.Home()
	o.Dir = filepath.Join(home, hubDir)
	return err
}

// waiting bounds what waits on the hub's disk, in bytes.
const waiting = 8 << 30

// allowed reads --allow.
func allowed(command string, list []string) (eval bool, err error) {
	for _, what := range list {
		if what != "eval" {
			return false, fmt.Errorf("%s: --allow %q: only eval can be allowed", command, what)
		}
		eval = true
	}
	return eval, nil
}

// greet prints the one line to paste elsewhere, on standard output.
func (a *commands) greet(h *hub.Hub, o hubOptions) {
	host, port, _ := net.SplitHostPort(h.Identity.Addr)
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	addr := net.JoinHostPort(host, port)
	if o.Insecure {
		fmt.Fprintf(a.Stdout, "memgauge node --join nats://%s --insecure\n", addr)
		return
	}
	fmt.Fprintf(a.Stdout, "memgauge node --join nats://%s --token-file %s\n", addr, hub.JoinToken(o.Dir))
	fmt.Fprintf(a.Stderr, "memgauge: copy that file to the other machine; %s lets people ask from elsewhere\n",
		hub.AskToken(o.Dir))
}

func (a *commands) statusCommand() *cobra.Command {
	var asJSON, strict bool
	q := &question{App: a.App, wait: patience}
	c := &cobra.Command{
		Use:         "status",
		Annotations: app.AboutNoSession(),
		Short:       "Tell which nodes there are, and what was refused",
		Long: "Asks the hub of this machine, or the one at --hub, for its nodes and their jobs, and for what it has\n" +
			"refused.",
		Example: "  memgauge hub status\n" +
			"  memgauge hub status --hub gpu-1:4222 --token-file ask.token --json",
		Args: app.Alone,
		RunE: func(cmd *cobra.Command, _ []string) error { return q.status(cmd.Context(), asJSON) },
	}
	f := c.Flags()
	f.StringVar(&q.addr, "hub", "", "the hub at `ADDRESS` host:port (default this machine's)")
	f.StringVar(&q.token, "token-file", "", "`FILE` with the hub's ask token")
	f.BoolVar(&asJSON, "json", false, "as JSON (docs/fleet.md)")
	f.BoolVar(&strict, "strict", false, "exit with 1 where a node is missing")
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		q.strict = strict
		return run(cmd, args)
	}
	return c
}

func (q *question) status(ctx context.Context, asJSON bool) error {
	conn, err := q.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, q.wait)
	defer cancel()
	b, err := fanout.NewAsker(conn, q.wait).Request(ctx, "status", nil)
	if err != nil {
		return fmt.Errorf("hub status: %w", err)
	}
	var s hub.Status
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("hub status: %w", err)
	}
	if asJSON {
		err = doc.WriteJSON(q.Stdout, struct {
			SchemaVersion int `json:"schema_version"`
			hub.Status
		}{doc.JSONVersion, s})
	} else {
		err = q.writeStatus(s)
	}
	if down := len(s.Nodes) - up(s.Nodes); err == nil && q.strict && down > 0 {
		return app.Exit(app.ExitFailed, remedy.Add(fmt.Errorf("%d of %d nodes are missing", down, len(s.Nodes)), ""))
	}
	return err
}

func up(list []fanout.Node) (n int) {
	for _, node := range list {
		if node.Up {
			n++
		}
	}
	return n
}

func (q *question) writeStatus(s hub.Status) error {
	now, width := time.Now(), term.TerminalWidth(q.Stdout)
	out := q.Text()
	fmt.Fprintf(out, "hub at %s, since %s: %d of %d nodes connected\n", s.Addr, units.Age(s.Began, now), up(s.Nodes),
		len(s.Nodes))
	if s.Keeps {
		fmt.Fprintf(out, "waiting for the lake: %d frames, %s of %s\n", s.Waiting.Frames,
			units.Bytes(s.Waiting.Bytes), units.Bytes(s.MaxDisk))
	}
	for _, why := range slices.Sorted(maps.Keys(s.Refused)) {
		fmt.Fprintf(out, "refused: %s, %s times\n", why, units.Count(s.Refused[why]))
	}
	l := &doc.Listing{Head: []model.Column{doc.Text("node"), doc.Text("state"), doc.Text("seen"), doc.Text("jobs"),
		doc.Number("sessions"), doc.Text("version")}}
	for _, n := range s.Nodes {
		state := "missing"
		if n.Up {
			state = "connected"
		}
		l.Rows = append(l.Rows, []any{n.Name, state, units.Age(n.Seen, now), strings.Join(n.Jobs, ", "),
			int64(n.Sessions), n.Version})
	}
	if len(l.Rows) == 0 {
		return nil
	}
	return render.Write(out, l, render.Table, render.Options{Width: width, NoRows: true,
		Whole: "nothing is left out with --json or in a pipe", Spare: []string{"version", "sessions"}})
}
