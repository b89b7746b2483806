package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/source"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/hub"
	"github.com/memgauge/memgauge/internal/fleet/lake"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/render"
)

type hubOptions struct {
	hub.Options
	allow []string
	lake  lake.Options
	age   units.Duration
	size  units.Bytes

	health  string // address for probes; "": none
	metrics string // address for scrapers; "": none
}

// defaultReplicas are the servers of a NATS of the user's that keep each frame: one of three may be lost.
const defaultReplicas = 3

func (a *commands) hubCommand() *cobra.Command {
	var o hubOptions
	c := &cobra.Command{
		Use:         "hub",
		Annotations: app.AboutNoSession(),
		Short:       "Connect many machines: carry questions to them and their answers back",
		Long: "Runs until Ctrl-C, and prints the line that makes another machine a node of it. " +
			"Without --listen only\n" +
			"this machine can connect. Nodes send it the rows of their sessions, which it keeps in a lake (memgauge\n" +
			"lake --help). Connections are TLS 1.3 with a certificate that the hub makes, which the\n" +
			"token names; whoever has the join token can be a node, whoever has the ask token can ask.\n\n" +
			"  memgauge hub [job=NAME] [node=NAME] [rank=N] COMMAND [--strict] [--live] [--deadline 2s]\n\n" +
			"asks all machines: query, tables, leak, where, list, backtrace, tensors, oom, report, and eval --all\n" +
			"where hub and node allow it. query and tables are about the rows in the lake; --live asks each session\n" +
			"instead. Nodes that did not answer are named, and with --strict the exit code is then 1\n" +
			"(docs/fleet.md).",
		Example: "  memgauge hub --listen 0.0.0.0:4222\n" +
			"  memgauge hub status\n" +
			"  memgauge hub leak\n" +
			"  memgauge hub job=llama rank=7 query \"SELECT max(step) FROM python.steps\"",
		Args: app.Alone,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.checkNATS(cmd.Flags()); err != nil {
				return app.Usage(err)
			}
			return a.hub(cmd.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Listen, "listen", "127.0.0.1:"+defaultPort,
		"`ADDRESS` to listen at: host:port; 0.0.0.0 is every interface")
	f.StringVar(&o.Dir, "dir", "", "`DIR` for the hub's files (default hub in MEMGAUGE_HOME)")
	f.StringVar(&o.CertFile, "cert", "", "`FILE` with a certificate of your own, in place of one that the hub makes")
	f.StringVar(&o.KeyFile, "key", "", "`FILE` with its key")
	f.StringSliceVar(&o.allow, "allow", nil, "also carry what changes trainings: eval")
	f.BoolVar(&o.Insecure, "insecure", false, "neither TLS nor tokens; on this machine's loopback only")
	f.StringVar(&o.lake.Location, "lake", "",
		"keep what nodes send in `WHERE`: a directory, s3://BUCKET/PREFIX, or none (default lake in the hub's DIR)")
	f.Var(&o.age, "max-age", "give up hours of the lake older than a `DURATION` such as 720h (default never)")
	f.Lookup("max-age").DefValue = "0"
	f.Var(&o.size, "max-size", "give up the lake's oldest hours beyond a `SIZE` such as 500GiB (default none)")
	f.Lookup("max-size").DefValue = "0"
	f.StringVar(&o.External.URLs, "nats", "",
		"let NATS servers of yours at `ADDRESS` carry, such as nats://a:4222,nats://b:4222")
	f.StringVar(&o.External.Creds, "token-file", "", "`FILE` with credentials for it (.creds)")
	f.StringVar(&o.External.CA, "ca", "", "`FILE` with the authorities of its certificates (default the machine's)")
	f.BoolVar(&o.SharedSecrets, "shared-secrets", bus.SharedSecrets(), bus.SharedHint)
	f.IntVar(&o.External.Replicas, "replicas", defaultReplicas, "how many of its servers keep each frame, 1 to 5")
	f.StringVar(&o.health, "health", "", "answer probes (GET /healthz) at `ADDRESS` host:port, without TLS")
	f.StringVar(&o.metrics, "metrics", "",
		"tell Prometheus (GET /metrics) of all jobs, ranks and nodes at `ADDRESS` host:port, without TLS")
	f.StringVar(&o.AlertTo.Alertmanager, "alertmanager", "",
		"tell Alertmanager at `URL` of jobs that leak or have an odd rank, such as http://alerts:9093")
	f.StringVar(&o.AlertTo.Webhook, "webhook", "", "post a short message about each such alert to `URL`")
	f.StringVar(&o.AlertTo.Form, "webhook-form", "json", "`FORM` of those messages: json or slack")
	app.Check(f, "metrics", app.Listens)
	app.Check(f, "listen", app.Listens)
	app.Check(f, "health", app.Listens)
	app.Check(f, "lake", lake.CheckLocation)
	c.MarkFlagsRequiredTogether("cert", "key")
	c.AddCommand(a.statusCommand(), a.tokenCommand(), a.forgetCommand())
	return c
}

func (a *commands) hub(ctx context.Context, o hubOptions) error {
	if err := o.check(); err != nil {
		return app.Usage(err)
	}
	o.Log = a.log()
	debug.SetMemoryLimit(softMemory)
	if err := o.Prepare(); err != nil {
		return err
	}
	w, err := o.openLake(ctx)
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	if w != nil {
		defer w.Close()
		o.Keep, o.Lake, o.Rows, o.LakeMax = w, o.lake.Location, lakeRows(o.lake.Location), o.lake.MaxBytes
	}
	h, err := hub.Open(o.Options)
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	defer h.Close()
	a.greet(h, o)
	g, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	if w != nil {
		g.Go(func() error { w.Tidy(ctx, h.Tidied); return nil })
	}
	if o.health != "" {
		g.Go(func() error { return h.ServeHealth(ctx, o.health) })
	}
	if o.metrics != "" {
		g.Go(func() error { return h.ServeMetrics(ctx, o.metrics) })
	}
	g.Go(func() error {
		defer cancel()
		return h.Run(ctx)
	})
	return g.Wait()
}

// checkNATS refuses what makes no sense beside a NATS of the user's, or without one.
func (o *hubOptions) checkNATS(f *pflag.FlagSet) error {
	x := o.External
	if x.URLs == "" {
		for _, name := range []string{"token-file", "ca", "replicas"} {
			if f.Changed(name) {
				return remedy.Add(fmt.Errorf("hub: --%s is about a NATS of yours", name), "--nats says where it is")
			}
		}
		return nil
	}
	for name, instead := range map[string]string{"listen": "its servers listen",
		"cert": "its servers have certificates"} {
		if f.Changed(name) {
			return remedy.Add(fmt.Errorf("hub: --%s and --nats: the hub has no server then", name), instead)
		}
	}
	switch {
	case x.Replicas < 1 || x.Replicas > 5:
		return fmt.Errorf("hub: --replicas %d is not within 1 to 5", x.Replicas)
	case o.Insecure:
		return remedy.Add(errors.New("hub: --insecure and --nats: your servers want TLS and credentials"),
			"leave out --insecure")
	case x.Creds == "":
		return remedy.Add(errors.New("hub: --nats without credentials"), "--token-file hub.creds has them")
	}
	if err := bus.CheckURLs(x.URLs); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

// openLake opens what keeps the rows; nil for a hub that keeps none.
func (o *hubOptions) openLake(ctx context.Context) (*lake.Writer, error) {
	if o.lake.Location == noLake {
		return nil, nil
	}
	o.lake.MaxAge, o.lake.MaxBytes = time.Duration(o.age), int64(o.size)
	return lake.New(ctx, o.lake)
}

// noLake stands for a hub that keeps no rows.
const noLake = "none"

func (o *hubOptions) check() error {
	o.MaxDisk = waiting
	var err error
	if o.Grant, err = allowed("hub", o.allow); err != nil {
		return err
	}
	if err := o.AlertTo.Check(); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	o.Gather = bus.Gather{Every: lake.FlushEvery, Bytes: gatherBytes}
	if o.age < 0 {
		return errors.New("hub: --max-age is below 0")
	}
	if o.Dir == "" {
		if o.Dir, err = source.HubHome(); err != nil {
			return err
		}
	}
	for _, path := range []*string{&o.External.Creds, &o.External.CA} { // others are told of them
		if *path != "" {
			if *path, err = filepath.Abs(*path); err != nil {
				return err
			}
		}
	}
	switch {
	case o.lake.Location == "":
		o.lake.Location = filepath.Join(o.Dir, lakeDir)
	case o.lake.Location != noLake && !strings.HasPrefix(o.lake.Location, "s3://"):
		o.lake.Location, err = filepath.Abs(o.lake.Location) // others are told of it
	}
	return err
}

const (
	// gatherBytes is what is kept at a time, packed: some 60,000 rows of steps, of a thousand nodes those of half a
	// minute. Unpacked they take ten to twenty times as much memory.
	gatherBytes = 4 << 20
	// softMemory is what Go's collector tries to stay within, in bytes: the machine is a node too, mostly.
	softMemory = 200 << 20
)

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
	if urls := o.External.URLs; urls != "" {
		a.greetExternal(urls)
		return
	}
	host, port, _ := net.SplitHostPort(h.Identity.Addr)
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	addr := net.JoinHostPort(host, port)
	if o.Insecure {
		fmt.Fprintf(a.Text(), "memgauge node --join nats://%s --insecure\n", addr)
		return
	}
	fmt.Fprintf(a.Text(), "memgauge node --join nats://%s --token-file %s\n", addr, hub.JoinToken(o.Dir))
	plain.Fprintf(a.Stderr, "memgauge: copy that file to the other machine; %s lets people ask from elsewhere\n",
		hub.AskToken(o.Dir))
}

// greetExternal is greet where a NATS of the user's decides who comes in.
func (a *commands) greetExternal(urls string) {
	fmt.Fprintf(a.Text(), "memgauge node --join %s --token-file node.creds\n", urls)
	fmt.Fprintln(a.Stderr, "memgauge: node.creds stands for credentials of that node (docs/fleet.md)")
}

func (a *commands) statusCommand() *cobra.Command {
	var addr string
	var asJSON bool
	c := &cobra.Command{
		Use:         "status",
		Annotations: app.AboutHub(),
		Short:       "Tell which nodes there are, how far their rows are, and what was refused",
		Long: "Asks the hub of this machine, or the one at --hub, for its nodes and their jobs, how far behind\n" +
			"their rows are, what the lake has, what was lost and why, and for what it has refused.",
		Example: "  memgauge hub status\n" +
			"  memgauge hub status --hub gpu-1:4222 --token-file ask.token --json",
		Args: app.Alone,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.status(cmd.Context(), addr, asJSON) },
	}
	f := c.Flags()
	f.StringVar(&addr, "hub", "", "the hub at `ADDRESS` host:port (default this machine's)")
	f.BoolVar(&asJSON, "json", false, "as JSON (docs/fleet.md)")
	return c
}

func (a *commands) status(ctx context.Context, addr string, asJSON bool) error {
	way := a.Hub.Way
	way.Addr = addr
	there, err := way.Reach(a.Hub.Wait)
	if err != nil {
		return err
	}
	defer there.Close()
	s, err := there.Status(ctx)
	if err != nil {
		return fmt.Errorf("hub status: %w", err)
	}
	if asJSON {
		err = doc.WriteJSON(a.Stdout, struct {
			SchemaVersion int `json:"schema_version"`
			hub.Status
		}{doc.JSONVersion, s})
	} else {
		err = a.writeStatus(s)
	}
	if down := s.Total - s.Up - s.Ended; err == nil && a.Hub.Strict && down > 0 {
		return app.Exit(app.ExitFailed, remedy.Add(fmt.Errorf("%d of %d nodes are missing", down, s.Total), ""))
	}
	return err
}

func (a *commands) writeStatus(s hub.Status) error {
	now, width := time.Now(), term.TerminalWidth(a.Stdout)
	out := a.Text()
	plain.Fprintf(out, "hub at %s, since %s: %d of %d nodes connected\n", s.Addr, units.Age(s.Began, now), s.Up,
		s.Total)
	if s.Keeps {
		a.writeKept(out, s)
	}
	for _, why := range slices.Sorted(maps.Keys(s.Refused)) {
		plain.Fprintf(out, "refused: %s, %s times\n", why, units.Count(s.Refused[why]))
	}
	for _, name := range s.Aside {
		plain.Fprintf(out, "set aside in the lake: %s\n", name)
	}
	if s.AsideMore > 0 {
		plain.Fprintf(out, "set aside in the lake before: %d files\n", s.AsideMore)
	}
	if s.Left > 0 {
		plain.Fprintf(out, "left out: %d entries of the hub's nodes.json that were none\n", s.Left)
	}
	l := &doc.Listing{Head: []model.Column{doc.Text("node"), doc.Text("state"), doc.Text("seen"), doc.Text("jobs"),
		doc.Number("sessions"), doc.Number("rows kept"), doc.Text("behind"), doc.Text("version")}}
	for _, n := range s.Nodes {
		state := "missing"
		if n.Up {
			state = "connected"
		} else if n.Ended {
			state = "ended"
		}
		l.Rows = append(l.Rows, []any{n.Name, state, units.Age(n.Seen, now), strings.Join(n.Jobs, ", "),
			int64(n.Sessions), int64(n.Kept), behind(n), n.Version})
	}
	if len(l.Rows) == 0 {
		return nil
	}
	return render.Write(out, l, render.Table, render.Options{Width: width, NoRows: true,
		Whole: "nothing is left out with --json or in a pipe", Spare: []string{"version", "sessions"}})
}

// writeKept tells of rows: what is in the lake, what is on its way, and what never will be.
func (a *commands) writeKept(out io.Writer, s hub.Status) {
	size := ""
	if s.LakeHours > 0 { // it is measured each minute
		size = fmt.Sprintf("%s in %d hours; ", units.Bytes(s.LakeBytes), s.LakeHours)
	}
	plain.Fprintf(out, "lake %s: %s%s rows since the start, %s came again and were left out\n", s.Lake, size,
		units.Count(s.Stored), units.Count(s.Again))
	plain.Fprintf(out, "coming in: %.1f rows/s; waiting for the lake: %d frames, %s of %s\n", s.Rate, s.Waiting.Frames,
		units.Bytes(s.Waiting.Bytes), units.Bytes(s.Room))
	if s.Room < s.MaxDisk {
		plain.Fprintf(out, "the hub's disk has room for %s of frames; what is beyond waits on the nodes\n",
			units.Bytes(s.Room))
	}
	for _, text := range s.Trouble {
		plain.Fprintf(out, "rows wait: %s\n", text)
	}
	for _, why := range slices.Sorted(maps.Keys(s.Lost)) {
		plain.Fprintf(out, "lost: %s rows at most, %s\n", units.Count(s.Lost[why]), why)
	}
}

// behind tells since when a node has rows that the hub has not.
func behind(n fanout.Node) string {
	if n.Waits == 0 && n.Trouble == "" {
		return ""
	}
	return (time.Duration(n.Behind) * time.Second).String()
}
