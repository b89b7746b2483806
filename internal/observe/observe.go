// Package observe owns how a training comes under observation and how it leaves it: it starts a command with the agent
// in its environment and waits for its end, brings the agent into a process that runs already, takes it out again, and
// runs the collector in the background. It makes the session and guarantees that a collector is started for it, and
// started again when it dies. Results are data; errors carry their remedies. It knows nothing of flags, of output, or
// of this program's exit code; a session's rows are read through package ask.
package observe

import (
	"context"
	"path/filepath"
	"time"

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/ask"
	"github.com/memgauge/memgauge/internal/session"
)

// Ref names a session.
type Ref struct {
	Name     string
	Dir      string
	Endpoint string // what names it in a command: its name where the default home has it, else its directory
}

func refTo(s *session.Session) Ref {
	ref := Ref{Name: s.Meta.Name, Dir: s.Dir, Endpoint: s.Dir}
	if home, err := session.Home(); err == nil && filepath.Dir(filepath.Dir(s.Dir)) == home {
		ref.Endpoint = s.Meta.Name
	}
	return ref
}

// finishTimeout bounds what the end of a session waits for: the rings of a hundred processes drain in less.
const finishTimeout = 20 * time.Second

// finish asks the collector to drain the rings and to sum up, also when ctx has ended: the interrupt that ended the
// command is no reason to lose its data.
func finish(ctx context.Context, s *session.Session) (api.Summary, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	return ask.Finish(ctx, s)
}
