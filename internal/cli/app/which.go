package app

import (
	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/ask"
)

// Which are the flags that say which live processes a command is for.
type Which struct {
	Rank int // -1: not said
	Pid  int // 0: not said
	All  bool
}

// Choice is the process that the flags say, else what the endpoint says.
func (w Which) Choice(t ask.Target) api.Choice {
	c := t.Choice()
	if c.PID, c.All = w.Pid, w.All; w.Rank >= 0 {
		c.Rank = &w.Rank
	}
	return c
}
