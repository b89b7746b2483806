package export

import (
	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/cli/app"
)

func (a *commands) mcpCommand() *cobra.Command {
	return &cobra.Command{Use: "mcp", Args: app.Alone}
}
