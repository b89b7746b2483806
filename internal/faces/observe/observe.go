// Package observe owns the begin and end of an observation. It starts a command with the agent in its environment and
// waits for its end; it brings the agent into a running process and removes it again; and it runs the collector in the
// background. It makes the session and guarantees that a collector is started for it, and restarted if it dies. Results
// are data; errors carry their remedies. It knows nothing of flags, of output, or of this program's exit code. It reads
// a session's rows through package ask.
package observe

import (
	"context"
	"path/filepath"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/record/session"
)

// Ref names a session.
type Ref struct {
	Name     string
	Dir      string
	Endpoint string // names it on a command line: its name if it is in the default home, else its directory
}

func refTo(s *session.Session) Ref {
	ref := Ref{Name: s.Meta.Name, Dir: s.Dir, Endpoint: s.Dir}
	if home, err := session.Home(); err == nil && filepath.Dir(filepath.Dir(s.Dir)) == home {
		ref.Endpoint = s.Meta.Name
	}
	return ref
}

// finishTimeout bounds the wait for the end of a session: the rings of a hundred processes drain in less time. The
// collector goes on without us.
const finishTimeout = 10 * time.Second

// finish has the collector drain the rings and summarize the session. It does so even if ctx has ended: the interrupt
// that ended the command must not lose its data. pending says that the collector needs longer than anybody should wait.
func finish(ctx context.Context, s *session.Session, timeout time.Duration) (sum api.Summary, pending bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if sum, err = ask.Finish(ctx, s); err != nil && ctx.Err() != nil {
		return api.Summary{}, true, nil
	}
	return sum, false, err
}
