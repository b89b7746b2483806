package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/ask"
	"github.com/memgauge/memgauge/internal/cli/app"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/node"
	"github.com/memgauge/memgauge/internal/remedy"
)

// NodeOptions say how a machine joins a hub, for all commands that do.
type NodeOptions struct {
	Join     string // address of the hub
	Token    string // file
	CA       string // file
	Creds    string // file
	Name     string
	Job      string
	Insecure bool
	Allow    []string
}

type nodeOptions struct {
	NodeOptions
	noShip bool
}

func (a *commands) nodeCommand() *cobra.Command {
	var o nodeOptions
	c := &cobra.Command{
		Use:         "node --join ADDRESS",
		Annotations: app.AboutNoSession(),
		Short:       "Make this machine a node of a hub: it answers questions for all its sessions",
		Long: "Runs until Ctrl-C, beside any number of trainings, and answers the hub's questions for all sessions of this user. A hub\n" +
			"that is away is waited for; nothing is lost meanwhile, since the sessions stay the truth. eval runs only where --allow eval is\n" +
			"said here and on the hub.",
		Example: "  memgauge node --join nats://gpu-1:4222 --token-file join.token\n" +
			"  memgauge node --join gpu-1:4222 --token-file join.token --name rack2-7 --allow eval",
		Args: app.Alone,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.node(cmd.Context(), o) },
	}
	f := c.Flags()
	f.StringVar(&o.Join, "join", os.Getenv("MEMGAUGE_HUB"), "`ADDRESS` of the hub, or of a NATS cluster: nats://host:port,…")
	f.StringVar(&o.Token, "token-file", os.Getenv("MEMGAUGE_TOKEN_FILE"), "`FILE` with the hub's join token")
	f.StringVar(&o.CA, "ca", "", "`FILE` with the authorities of the hub's own certificate (hub --cert)")
	f.StringVar(&o.Creds, "creds", "", "`FILE` with credentials of a NATS cluster of yours")
	f.StringVar(&o.Name, "name", "", "`NAME` of this node (default the host's)")
	f.StringVar(&o.Job, "job", "", "`NAME` of the job of sessions that don't say theirs (default from Slurm, torchrun or Kubernetes)")
	f.BoolVar(&o.Insecure, "insecure", false, "without TLS and token, as a hub with --insecure wants it")
	f.StringSliceVar(&o.Allow, "allow", nil, "also answer what changes trainings: eval")
	return c
}

func (a *commands) node(ctx context.Context, o nodeOptions) error {
	n, err := o.Options()
	if err != nil {
		return err
	}
	n.Log, n.NoShip = a.log(), o.noShip
	if err := node.Run(ctx, n); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	return nil
}

// Options checks what the user said.
func (o NodeOptions) Options() (n node.Options, err error) {
	if o.Join == "" {
		return n, app.Usage(remedy.Add(errors.New("node: no --join"), "memgauge hub prints the whole line"))
	}
	n.Grant, err = allowed("node", o.Allow)
	if err != nil {
		return n, app.Usage(err)
	}
	if n.Name = o.Name; n.Name == "" {
		if n.Name, err = node.Name(); err != nil {
			return n, err
		}
	}
	home, err := ask.Home()
	if err != nil {
		return n, err
	}
	n.Job = node.JobFromEnv(os.Getenv)
	if o.Job != "" {
		n.Job.Name = o.Job
	}
	n.Version = app.Version
	n.Dial = bus.DialOptions{URL: o.Join, CA: o.CA, Creds: o.Creds, Plain: o.Insecure,
		Key: filepath.Join(home, nodeDir, node.Clean(n.Name)+".key")}
	if o.Insecure || o.Creds != "" {
		return n, nil
	}
	if o.Token == "" {
		return n, app.Usage(remedy.Add(errors.New("node: no --token-file"),
			"memgauge hub prints the name of the file on its machine: copy it here, chmod 600"))
	}
	n.Dial.Token, err = bus.ReadToken(o.Token)
	if err == nil && n.Dial.Token.Role != bus.Join {
		err = remedy.Add(fmt.Errorf("the token in %s lets one ask, not be a node", o.Token),
			"take join.token of the hub")
	}
	return n, err
}
