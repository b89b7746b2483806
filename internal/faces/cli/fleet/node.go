package fleet

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/node"
)

func (a *commands) nodeCommand() *cobra.Command {
	var o node.Settings
	c := &cobra.Command{
		Use:         "node --join ADDRESS",
		Annotations: app.AboutNoSession(),
		Short:       "Make this machine a node of a hub: it answers for all its sessions, and sends their rows",
		Long: "Runs until Ctrl-C, beside any number of trainings, and answers the hub's questions " +
			"for all sessions of\n" +
			"this user; their rows go to the hub's lake every half minute. A hub that is away is waited\n" +
			"for; nothing is lost meanwhile, since the sessions stay the truth. eval runs only\n" +
			"where --allow eval is said here and on the hub, and so do recording allocations and taking snapshots;\n" +
			"--allow record,snapshot allows these without eval.",
		Example: "  memgauge node --join nats://gpu-1:4222 --token-file join.token\n" +
			"  memgauge node --join gpu-1:4222 --token-file join.token --name rack2-7 --allow eval",
		Args: app.Alone,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.node(cmd.Context(), o) },
	}
	f := c.Flags()
	f.StringVar(&o.Join, "join", os.Getenv("MEMGAUGE_HUB"), "`ADDRESS` of the hub: nats://host:port")
	f.StringVar(&o.Token, "token-file", os.Getenv("MEMGAUGE_TOKEN_FILE"), "`FILE` with the hub's join token")
	f.StringVar(&o.CA, "ca", "", "`FILE` with the authorities of the hub's own certificate (hub --cert)")
	f.StringVar(&o.Name, "name", "", "`NAME` of this node (default the host's)")
	f.StringVar(&o.Job, "job", "",
		"`NAME` of the job of sessions that don't say theirs (default from Slurm, torchrun or Kubernetes)")
	f.BoolVar(&o.Shared, "shared-secrets", bus.SharedSecrets(), bus.SharedHint)
	f.BoolVar(&o.Insecure, "insecure", false, "without TLS and token, as a hub with --insecure wants it")
	f.StringSliceVar(&o.Allow, "allow", nil,
		"also answer what changes trainings: eval, record, snapshot; eval means all three")
	f.BoolVar(&o.Resend, "resend", false,
		"send all rows once more, after a hub has lost some: what its lake still has is there twice then")
	app.Words(c, "allow", "eval", "record", "snapshot")
	return c
}

func (a *commands) node(ctx context.Context, o node.Settings) error {
	home, err := ask.Home()
	if err != nil {
		return err
	}
	o.Version = app.Version
	n, err := o.Options(home, os.Getenv)
	if err != nil {
		return app.Usage(fmt.Errorf("node: %w", err))
	}
	n.Log = a.log()
	if err := node.Run(ctx, n); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	return nil
}
