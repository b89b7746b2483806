package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/monitor/follow"
	"github.com/memgauge/memgauge/internal/door/monitor/machine"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/hub"
	"github.com/memgauge/memgauge/internal/fleet/node"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/judge/forecast"
	"github.com/memgauge/memgauge/internal/record/sink"
)

type distributedOptions struct {
	watchOptions
	role, host, name, token string
	port                    uint16
	feed                    bool // answers requests on standard input, for the Python class
	pid                     int
}

func (a *commands) distributedCommand() *cobra.Command {
	o := distributedOptions{watchOptions: watchOptions{tool: "distributed", history: 10000}}
	c := &cobra.Command{
		Use:         "distributed --role master|worker",
		Annotations: app.AboutNoSession(),
		Short:       "Watch the memory of several machines: one master, and workers that report to it",
		Long: "The master listens on --port as a hub does (docs/fleet.md), watches its own machine, and " +
			"asks each\nworker for what it sees. Its report has every machine that has joined, and names those that " +
			"have gone.\nA worker needs the token that the master has made: hub/join.token in its MEMGAUGE_HOME, " +
			"found by itself\nwhere they share a home.\n" +
			"Exit code 3 means that a machine is about to run out of memory.",
		Example: "  memgauge distributed --role master --port 29500 --duration 600 --output cluster.json\n" +
			"  memgauge distributed --role worker --master-host 192.168.1.100 --port 29500 --token-file join.token",
		RunE: func(c *cobra.Command, args []string) error {
			if o.role != "master" && o.role != "worker" {
				return app.Usage(fmt.Errorf("distributed: --role %q: master or worker", o.role))
			}
			if err := o.take(c, args); err != nil {
				return err
			}
			o.oom.Window = forecastWindow
			return a.distributed(c.Context(), o)
		},
	}
	f := c.Flags()
	o.AddFlags(f, "300", "3")
	_ = f.MarkHidden("machine") // it looks at nothing else
	f.StringVar(&o.role, "role", "master", "`ROLE` of this machine: master or worker")
	f.StringVar(&o.host, "master-host", "localhost", "`HOST` of the master")
	f.Uint16Var(&o.port, "port", 29500, "TCP `PORT` of the master")
	f.StringVar(&o.token, "token-file", os.Getenv("MEMGAUGE_TOKEN_FILE"),
		"`FILE` with the master's join token (default hub/join.token in MEMGAUGE_HOME)")
	f.StringVar(&o.name, "name", "", "`NAME` of this machine in the report (default the host's)")
	f.BoolVar(&o.feed, "feed", false, "")
	f.IntVar(&o.pid, "pid", 0, "")
	_ = f.MarkHidden("feed")
	_ = f.MarkHidden("pid")
	o.oom.Threshold, o.oom.Critical = forecast.DefaultThreshold, forecast.DefaultCritical
	return c
}

// cluster is a master or a worker at work.
type cluster struct {
	*commands
	o     distributedOptions
	home  string
	name  string
	watch *monitor.Watch
	doc   *clusterBook
	asker *fanout.Asker // of a master

	mu      sync.Mutex
	seen    []byte // the report on this machine
	askedBy int    // times that a master has had it
}

func (a *commands) distributed(ctx context.Context, o distributedOptions) error {
	err := a.runCluster(ctx, o)
	if err != nil && !app.IsExit(err) && !app.IsUsage(err) {
		return fmt.Errorf("distributed: %w", err)
	}
	return err
}

func (a *commands) runCluster(ctx context.Context, o distributedOptions) error {
	home, err := ask.Home()
	if err != nil {
		return err
	}
	c := &cluster{commands: a, o: o, home: home}
	if c.name = o.name; c.name == "" {
		if c.name, err = node.Name(); err != nil {
			return err
		}
	}
	out, err := o.open()
	if err != nil {
		return err
	}
	defer out.Discard()
	src, err := follow.Machine(machine.Options{PID: o.pid, GPUs: localGPUs()})
	if err != nil {
		return err
	}
	defer src.Close()
	c.watch, err = monitor.New(ctx, src, monitor.Options{Devices: o.devices, Interval: time.Duration(o.interval),
		MaxHistory: o.history, OOM: o.oom, Job: src.Job()})
	if err != nil {
		return err
	}
	c.doc = newClusterBook(c.name, o.role)
	if err := c.look(ctx); err != nil { // so that there is something to tell from the first question on
		return err
	}
	if err := c.join(ctx); err != nil {
		return err
	}
	return c.deliver(out.report)
}

// join makes this machine a part of the cluster, and watches until the time is over or Ctrl-C.
func (c *cluster) join(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	address := net.JoinHostPort(c.o.host, strconv.Itoa(int(c.o.port)))
	if c.o.role == "master" {
		h, err := c.openHub()
		if err != nil {
			return err
		}
		defer h.Close()
		g.Go(func() error { return h.Run(ctx) })
		conn, err := bus.Dial(bus.DialOptions{URL: c.own(), Token: h.Identity.Ask})
		if err != nil {
			return err
		}
		defer conn.Close()
		c.asker = fanout.NewAsker(conn, min(2*time.Second, max(time.Duration(c.o.interval), 500*time.Millisecond)))
		address = c.own()
	}
	n, err := c.node(address)
	if err != nil {
		return err
	}
	g.Go(func() error { return node.Run(ctx, n) })
	g.Go(func() error {
		defer cancel()
		if c.o.feed {
			return c.serve(ctx)
		}
		return c.loop(ctx)
	})
	err = g.Wait()
	if err == nil && c.o.role == "worker" && !c.o.feed && c.asked() == 0 {
		return remedy.Add(fmt.Errorf("the master at %s has not asked this machine once", address),
			"is memgauge distributed --role master running there, and the port open? A report of this machine alone: "+
				"memgauge monitor")
	}
	return err
}

// own is where the master's own connections reach it.
func (c *cluster) own() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(c.o.port))) }

// maxWaiting bounds what waits on the master's disk: it keeps no rows.
const maxWaiting = 64 << 20

func (c *cluster) openHub() (*hub.Hub, error) {
	dir := filepath.Join(c.home, "hub")
	h, err := hub.Open(hub.Options{Dir: dir, Listen: net.JoinHostPort("0.0.0.0", strconv.Itoa(int(c.o.port))),
		MaxDisk: maxWaiting, Log: c.log()})
	if err != nil {
		return nil, err
	}
	plain.Fprintf(c.Stderr, "[MASTER] %s listens on port %d. On another machine, with a copy of %s:\n"+
		"   memgauge distributed --role worker --master-host %s --port %d --token-file join.token\n", c.name, c.o.port,
		hub.JoinToken(dir), c.name, c.o.port)
	return h, nil
}

func (c *cluster) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(c.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// node is this machine's part, which answers the master.
func (c *cluster) node(address string) (node.Options, error) {
	token := c.o.token
	if token == "" || c.o.role == "master" {
		token = hub.JoinToken(filepath.Join(c.home, "hub"))
	}
	n, err := node.Settings{Join: address, Token: token, Name: c.name, Version: app.Version,
		Shared: bus.SharedSecrets()}.Options(c.home, os.Getenv)
	if errors.Is(err, os.ErrNotExist) {
		return n, remedy.Add(err, "copy hub/join.token from the master's MEMGAUGE_HOME, and name it with --token-file")
	}
	if err != nil {
		return n, err
	}
	n.Log, n.Machine = c.log(), c.told
	if c.o.role == "worker" {
		plain.Fprintf(c.Stderr, "[WORKER] %s reports to the master at %s\n", c.name, address)
	}
	return n, nil
}

// told is what the master hears of this machine.
func (c *cluster) told() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.askedBy++
	return c.seen
}

func (c *cluster) asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.askedBy
}

// loop looks at each interval.
func (c *cluster) loop(ctx context.Context) error {
	tick := time.NewTicker(time.Duration(c.o.interval))
	defer tick.Stop()
	var over <-chan time.Time
	if c.o.duration > 0 {
		end := time.NewTimer(time.Duration(c.o.duration))
		defer end.Stop()
		over = end.C
	}
	for {
		if err := c.round(ctx); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-over:
			return c.round(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// round looks at this machine, and as the master asks the others.
func (c *cluster) round(ctx context.Context) error {
	if err := c.look(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if c.asker == nil {
		return nil
	}
	sel, q := fanout.Machine()
	answers, _, err := c.asker.All(ctx, sel, q)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	nodes, err := c.asker.Nodes(ctx)
	if err != nil {
		return err
	}
	if line := c.doc.take(nodes, answers); line != "" {
		plain.Fprintf(c.Stderr, "%s\n", line)
	}
	return nil
}

// look reads this machine once.
func (c *cluster) look(ctx context.Context) error {
	warnings, err := c.watch.Tick(ctx)
	if err != nil {
		return err
	}
	for i := range warnings {
		if c.o.json || c.o.feed {
			fmt.Fprint(c.Stderr, warnings[i].Text())
			continue
		}
		fmt.Fprint(c.Text(), warnings[i].Text())
	}
	r := c.watch.Report(monitor.What{Tool: "monitor", Now: time.Now()})
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.seen = text
	c.mu.Unlock()
	return c.doc.self(text)
}

// serve answers a program's requests for the report until its input ends.
func (c *cluster) serve(ctx context.Context) error {
	out := json.NewEncoder(c.Stdout)
	ready := feedMessage{Type: "ready"}
	for _, t := range c.watch.Devices {
		ready.Devices = append(ready.Devices, t.Device.ID)
	}
	if err := out.Encode(ready); err != nil {
		return err
	}
	tick := time.NewTicker(time.Duration(c.o.interval))
	defer tick.Stop()
	for lines := requests(ctx, c.Stdin); ; {
		if err := c.round(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case _, more := <-lines:
			if !more {
				return nil
			}
			if err := c.round(ctx); err != nil {
				return err
			}
			message := struct {
				Type   string          `json:"type"`
				Report clusterDocument `json:"report"`
			}{"report", c.document()}
			if err := out.Encode(message); err != nil {
				return err
			}
		}
	}
}

func (c *cluster) document() clusterDocument {
	d := c.doc.document()
	d.Info.Asked = c.asked()
	return d
}

// deliver writes the report.
func (c *cluster) deliver(to sink.Sink) error {
	if c.o.feed {
		return nil
	}
	d := c.document()
	if to != nil {
		err := doc.WriteJSON(to, d)
		if err == nil {
			err = to.Commit()
		}
		if err != nil {
			return err
		}
		plain.Fprintf(c.Stderr, "memgauge: wrote %s\n", c.o.output)
	}
	var err error
	if c.o.json {
		err = doc.WriteJSON(c.Stdout, d)
	} else {
		err = d.text(c.Text())
	}
	if err == nil && d.atRisk() {
		return app.Exit(app.ExitFindings, nil)
	}
	return err
}
