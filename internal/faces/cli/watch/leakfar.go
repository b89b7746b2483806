package watch

import (
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// LeakText is what leak prints for people about a session that was judged elsewhere.
func LeakText(r detect.Report, about api.About, end api.End) string {
	return leakText(r, farContext(about, end))
}

// LeakDocument is what leak prints with --json about such a session.
func LeakDocument(r detect.Report, about api.About, end api.End) ([]byte, error) {
	return leakJSON(r, farContext(about, end))
}

func farContext(about api.About, end api.End) leakContext {
	return leakContext{Session: about.Name, Cwd: about.Cwd, Command: about.Command, Live: about.Live,
		Started: about.Started, Ended: end.Ended, Now: time.Now()}
}
