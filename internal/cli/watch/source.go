package watch

import (
	"context"
	"fmt"
	"time"

	"github.com/memgauge/memgauge/internal/ask"
	"github.com/memgauge/memgauge/internal/monitor/follow"
	"github.com/memgauge/memgauge/internal/monitor/machine"
)

// openSource takes the session that the command line names; else the only live one, and says so; else the machine.
func (a *commands) openSource(ctx context.Context, o *watchOptions) (*follow.Source, error) {
	if a.Endpoint != "" || a.SessionDir != "" {
		return a.sessionSource(ctx, o.timed)
	}
	t, err := a.onlyLive(o)
	if err != nil {
		return nil, err
	}
	if t != nil {
		fmt.Fprintf(a.Stderr, "memgauge: session %s, the only live one; --machine looks at the whole machine\n",
			t.Name())
		return targetSource(ctx, *t, o.timed)
	}
	return follow.Machine(machine.Options{GPUs: localGPUs()})
}

// sessionSource watches the session that the command line names.
func (a *commands) sessionSource(ctx context.Context, timed bool) (*follow.Source, error) {
	t, err := a.Target(ctx)
	if err != nil {
		return nil, err
	}
	return targetSource(ctx, t, timed)
}

func targetSource(ctx context.Context, t ask.Target, timed bool) (*follow.Source, error) {
	s, err := t.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return follow.Session(ctx, s, timed)
}

// onlyLive is the live session when there is just one; nil when the machine is to be looked at. With several live
// sessions that is told, or refused where the machine can't answer: blocks are a process's.
func (a *commands) onlyLive(o *watchOptions) (*ask.Target, error) {
	if o.wholeMachine {
		return nil, nil
	}
	live, err := ask.Live()
	if err != nil {
		return nil, err
	}
	switch {
	case len(live) == 1:
		return &live[0], nil
	case len(live) > 1 && o.tool == "fragment":
		_, err := a.Target(context.Background()) // it says which there are
		return nil, err
	case len(live) > 1:
		fmt.Fprintf(a.Stderr, "memgauge: %d live sessions, so the whole machine; memgauge %s %s looks at one\n",
			len(live), live[0].Name(), o.tool)
	}
	return nil, nil
}

// endPatience is how long a job that was killed may take until the last of its session is written.
const endPatience = 3 * time.Second

// endsSoon says whether the session that is watched is over, or will be in a moment.
func endsSoon(ctx context.Context, s *follow.Source) bool {
	if s.Session == nil {
		return false
	}
	_ = pauseWhile(ctx, endPatience, s.Live)
	return !s.Live()
}
