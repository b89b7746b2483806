package app

import (
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
)

// Which has the flags that select the live processes of a command.
type Which struct {
	Rank int // -1: not said
	Pid  int // 0: not said
	All  bool
}

// Choice returns the selection of the flags; without flags, that of the endpoint.
func (w Which) Choice(t ask.Target) api.Choice {
	c := t.Choice()
	if c.PID, c.All = w.Pid, w.All; w.Rank >= 0 {
		c.Rank = &w.Rank
	}
	return c
}
