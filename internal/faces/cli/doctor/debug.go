package doctor

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/formats/wire"
)

// debugCommand is hidden: it prints file formats for developers.
func (a *commands) debugCommand() *cobra.Command {
	debug := &cobra.Command{Use: "debug", Short: "Shows memgauge's own files as text", Hidden: true}
	debug.AddCommand(&cobra.Command{
		Use:         "ring FILE",
		Annotations: app.AboutNoSession(),
		Short:       "Prints a ring: header, names, records",
		Example:     "  memgauge debug ring rings/4711.123456.1.ring",
		Args:        cobra.ExactArgs(1),
		RunE:        func(_ *cobra.Command, args []string) error { return a.debugRing(args[0]) },
	})
	return debug
}

// debugRing prints the readable part of a ring before it reports damage, since damaged rings are what it is for.
func (a *commands) debugRing(path string) error {
	f, err := rootdir.OpenNamed(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if err := wire.Dump(a.Text(), f, st.Size()); err != nil {
		return fmt.Errorf("dump %s: %w", path, err)
	}
	return nil
}
