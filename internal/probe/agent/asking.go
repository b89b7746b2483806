package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
)

// Bounds of how often one process is asked by those who only read. Each question takes some 0.2 ms of the training's
// time, also one that the agent refuses because its budget is spent: 4 a second are 0.1 %.
const (
	askedAtOnce = 64
	askedEvery  = 250 * time.Millisecond
)

// asking are the processes that were asked lately.
type asking struct {
	mu   sync.Mutex
	next map[string]time.Time // by socket: when its questions will have been paid for
}

var asked = asking{next: map[string]time.Time{}}

// may says whether a process may be asked now, else how long to wait.
func (a *asking) may(path string, now time.Time) (wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for other, next := range a.next {
		if next.Before(now) { // it may be asked askedAtOnce times, as one that never was
			delete(a.next, other)
		}
	}
	next := a.next[path]
	if next.Before(now) {
		next = now
	}
	if next = next.Add(askedEvery); next.Sub(now) > askedAtOnce*askedEvery {
		return next.Sub(now) - askedAtOnce*askedEvery
	}
	a.next[path] = next
	return 0
}

// DialToRead is Dial for a question of somebody who may only read, and so must not take the training's time by asking
// without a pause.
func DialToRead(ctx context.Context, path string) (*Client, error) {
	if wait := asked.may(path, time.Now()); wait > 0 {
		return nil, remedy.Add(fmt.Errorf("the process is asked more often than its training should notice"),
			fmt.Sprintf("ask again in %d ms; there may be others who ask", wait.Milliseconds()+1))
	}
	return Dial(ctx, path)
}
