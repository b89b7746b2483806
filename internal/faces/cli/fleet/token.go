package fleet

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/source"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/hub"
)

// hubDir adds --dir, and gives the options of the hub that has its files there.
func hubDir(c *cobra.Command) func() (hub.Options, error) {
	dir := c.Flags().String("dir", "", "`DIR` with the hub's files (default hub in MEMGAUGE_HOME)")
	shared := c.Flags().Bool("shared-secrets", bus.SharedSecrets(), bus.SharedHint)
	return func() (o hub.Options, err error) {
		o = hub.Options{Dir: *dir, SharedSecrets: *shared}
		if o.Dir == "" {
			o.Dir, err = source.HubHome()
		}
		return o, err
	}
}

func (a *commands) tokenCommand() *cobra.Command {
	c := &cobra.Command{
		Use:         "token",
		Annotations: app.AboutNoSession(),
		Short:       "Exchange the tokens of this machine's hub",
		Example:     "  memgauge hub token rotate\n  memgauge hub token rotate --role ask --now",
		Args:        app.Alone,
		RunE: func(*cobra.Command, []string) error {
			return app.Usage(remedy.Add(errors.New("hub token: what shall be done with it?"),
				"memgauge hub token rotate makes a new one"))
		},
	}
	c.AddCommand(a.rotateCommand())
	return c
}

func (a *commands) rotateCommand() *cobra.Command {
	var role string
	var now bool
	c := &cobra.Command{
		Use:         "rotate",
		Annotations: app.AboutNoSession(),
		Short:       "Make a new token, beside which the one before stays valid until the next rotation",
		Long: "Writes a new token into the hub's file. The hub takes it within 10 s, and nodes read their file\n" +
			"again for each connection that they make: copy it to them, and rotate once more when all have it.",
		Example: "  memgauge hub token rotate\n  memgauge hub token rotate --role ask --now",
		Args:    app.Alone,
	}
	dir := hubDir(c)
	c.Flags().StringVar(&role, "role", string(bus.Join), "the token for nodes (`join`) or the one for people (ask)")
	c.Flags().BoolVar(&now, "now", false, "the one before lets nobody in any more; who is connected stays so")
	app.Words(c, "role", string(bus.Join), string(bus.Asks))
	c.RunE = func(*cobra.Command, []string) error {
		o, err := dir()
		if err == nil {
			err = o.Rotate(bus.Role(role), now)
		}
		if err != nil {
			return fmt.Errorf("rotate the token: %w", err)
		}
		path := hub.JoinToken(o.Dir)
		if bus.Role(role) == bus.Asks {
			path = hub.AskToken(o.Dir)
		}
		fmt.Fprintln(a.Text(), path)
		return nil
	}
	return c
}

func (a *commands) forgetCommand() *cobra.Command {
	c := &cobra.Command{
		Use:         "forget NODE",
		Annotations: app.AboutNoSession(),
		Short:       "Have this machine's hub forget a node that is gone: nobody misses it, and its name is free",
		Long: "The hub does it within 10 s, or when it is started, and says so in its log; one that is connected is\n" +
			"not forgotten. The node's rows stay in the lake.",
		Example: "  memgauge hub forget gpu-17\n  memgauge hub forget gpu-17 --dir /data/hub",
		Args:    cobra.ExactArgs(1),
	}
	dir := hubDir(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		o, err := dir()
		if err == nil {
			err = o.Forget(args[0])
		}
		if err != nil {
			return fmt.Errorf("forget a node: %w", err)
		}
		return nil
	}
	return c
}
