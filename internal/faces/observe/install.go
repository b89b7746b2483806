package observe

import (
	"errors"
	"fmt"
	"slices"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/trust"
	"github.com/memgauge/memgauge/internal/probe/agent"
	"github.com/memgauge/memgauge/internal/record/session"
)

// installAgent unpacks the agent's files into the first directory where no other user can change them. If that is not
// the directory of the sessions, note says why.
func installAgent() (dir, note string, err error) {
	home, err := session.Home()
	if err != nil {
		return "", "", err
	}
	places, err := session.Places()
	if err != nil {
		return "", "", err
	}
	var why error
	for _, place := range places[slices.Index(places, home):] {
		dir, err := agent.Install(place)
		switch {
		case err == nil && why != nil:
			return dir, fmt.Sprintf("%v; the agent's files are in %s", why, dir), nil
		case err == nil:
			return dir, "", nil
		case why == nil && !errors.Is(err, trust.ErrOthers):
			if remedy.Of(err) == "" {
				err = remedy.Add(err, "set MEMGAUGE_HOME to a writable directory")
			}
			return "", "", err
		case why == nil:
			why = err
		}
	}
	return "", "", remedy.Add(why, "set MEMGAUGE_HOME to a directory that only you can write")
}
