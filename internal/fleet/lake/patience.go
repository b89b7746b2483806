package lake

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
)

// A lake may lie on a file system that answers late or never: of a machine that is gone, or of a program (FUSE). What
// waits for it can't be called off, not even by SIGKILL. So whoever opens a lake waits for a goroutine that reads, and
// says which name it has come to where that gets no further.

// patience is how long one name of a lake may take: a footer of 64 MiB from a slow disk takes some seconds. It is a
// variable for tests.
var patience = time.Minute

// atOnce is how long after it was called off something that reads may go on.
const atOnce = time.Second

// progress is the name that a lake's reader has come to. All may use a nil one.
type progress struct{ at atomic.Pointer[placeAt] }

// reached notes a name.
func (p *progress) reached(name string) {
	if p != nil {
		p.at.Store(&placeAt{name, time.Now()})
	}
}

// never says that no name takes too long.
func (p *progress) never() {
	if p != nil {
		p.at.Store(&placeAt{"", time.Now().Add(24 * time.Hour)})
	}
}

type placeAt struct {
	name  string
	since time.Time
}

// patiently waits for what does something until it gets no further, or is called off. What comes later is given up.
func patiently[T any](ctx context.Context, p *progress, does func() (T, error), giveUp func(T)) (out T, err error) {
	type result struct {
		out T
		err error
	}
	done := make(chan result, 1)
	go func() {
		out, err := does()
		done <- result{out, err}
	}()
	tick := time.NewTicker(max(patience/16, time.Millisecond))
	defer tick.Stop()
	over := ctx.Done()
	var end <-chan time.Time
	for {
		select {
		case r := <-done:
			return r.out, r.err
		case <-over:
			over, end = nil, time.After(atOnce)
			continue
		case <-end:
			err = context.Cause(ctx)
		case now := <-tick.C:
			at := p.at.Load()
			if now.Sub(at.since) < patience {
				continue
			}
			err = remedy.Add(fmt.Errorf("%s: nothing comes of it for %s: its file system does not answer", at.name,
				patience), "look at the mount; what waits for it can't be ended before it answers, or is unmounted")
		}
		go func() {
			if r := <-done; r.err == nil {
				giveUp(r.out)
			}
		}()
		return out, err
	}
}
