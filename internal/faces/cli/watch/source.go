package watch

import (
	"context"
	"time"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/door/monitor/follow"
	"github.com/memgauge/memgauge/internal/door/monitor/machine"
)

// openSource opens the session that the command line names, else the only live one (and prints that), else this
// machine.
func (a *commands) openSource(ctx context.Context, o *watchOptions) (*follow.Source, error) {
	if a.Named() {
		return a.sessionSource(ctx, o.timed)
	}
	t, err := a.onlyLive(o)
	if err != nil {
		return nil, err
	}
	if t != nil {
		plain.Fprintf(a.Stderr, "memgauge: session %s, the only live one; --machine looks at the whole machine\n",
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

// onlyLive returns the live session if there is exactly one, or nil if the machine is to be watched. With several live
// sessions it prints a note. That is an error for commands that need a process's blocks, which the machine can't give.
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
		_, err := a.Target(context.Background()) // its error lists them
		return nil, err
	case len(live) > 1:
		plain.Fprintf(a.Stderr, "memgauge: %d live sessions, so the whole machine; memgauge %s %s looks at one\n",
			len(live), live[0].Name(), o.tool)
	}
	return nil, nil
}

// endPatience bounds the wait for the session of a killed job to be finished.
const endPatience = 3 * time.Second

// endsSoon reports whether the watched session is over, or will be in a moment.
func endsSoon(ctx context.Context, s *follow.Source) bool {
	if s.Session == nil {
		return false
	}
	_ = pauseWhile(ctx, endPatience, s.Live)
	return !s.Live()
}
