package cli

import (
	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/ask"
)

// which are the flags that say which live processes a command is for.
type which struct {
	rank int // -1: not said
	pid  int // 0: not said
	all  bool
}

// choice is the process that the flags say, else what the endpoint says.
func (w which) choice(t ask.Target) api.Choice {
	c := t.Choice()
	if c.PID, c.All = w.pid, w.all; w.rank >= 0 {
		c.Rank = &w.rank
	}
	return c
}
