package owner

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/probe/native"
	"github.com/memgauge/memgauge/internal/record/session"
	"github.com/memgauge/memgauge/internal/record/store"
)

const (
	nativeAsked  = 500 * time.Millisecond // a question sees samples of at most this age
	nativeOften  = time.Second            // between two looks at a young session, …
	nativeSeldom = 30 * time.Second       // … and at an old one
	nativeSparse = 20                     // looks are a twentieth of the session's age apart
	nativeShare  = 100                    // they take at most this part of a core
)

// natives reads the samples of native memory that a session's processes leave in files.
type natives struct {
	mu     sync.Mutex
	s      *session.Session // nil where none are read
	reader *native.Reader   // nil where there are none to read
	knows  bool             // the stacks that an earlier process of ours has stored
	last   time.Time
	took   time.Duration
}

// openLocked says whether there are any. They may come late: an attach can ask for them in a session that runs.
func (n *natives) openLocked() bool {
	if n.reader == nil && n.s != nil {
		if _, err := os.Stat(n.s.Native()); err == nil {
			n.reader = native.NewReader(n.s.Native())
		}
	}
	return n.reader != nil
}

func (n *natives) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reader == nil {
		return nil
	}
	return n.reader.Close()
}

// pause is the time between two looks that nobody asked for.
func (n *natives) pause() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reader == nil {
		return 0
	}
	pause := min(max(time.Since(n.s.Meta.Started)/nativeSparse, nativeOften), nativeSeldom)
	return max(pause, nativeShare*n.took)
}

// lookNative stores what the processes hold now, unless that was done within the last rest. The files of processes that
// are gone are removed once they are stored.
func (o *Owner) lookNative(ctx context.Context, rest time.Duration) error {
	n := &o.natives
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.openLocked() {
		return nil
	}
	begin := time.Now()
	if begin.Sub(n.last) < rest {
		return nil
	}
	if err := o.knowStacksLocked(ctx); err != nil {
		return err
	}
	live, stacks, err := n.reader.Look(begin)
	n.rankLocked(live)
	if len(live) > 0 {
		if err := o.base.append(ctx, &model.Batch{NativeLive: live, NativeStacks: stacks}); err != nil {
			n.knows = false
			n.reader.Forget()
			return fmt.Errorf("store native samples: %w", err)
		}
	}
	n.reader.Sweep(o.s.Alive)
	n.last, n.took = time.Now(), time.Since(begin)
	return err
}

func (n *natives) rankLocked(live []model.NativeLive) {
	if len(live) == 0 {
		return
	}
	ranks := map[int32]int32{}
	for _, p := range n.s.Processes() {
		ranks[int32(p.PID)] = int32(p.Rank)
	}
	for i := range live {
		if rank, ok := ranks[live[i].PID]; ok {
			live[i].Rank = rank
		}
	}
}

// knowStacksLocked takes what is stored already: a collector before this one may have stored it.
func (o *Owner) knowStacksLocked(ctx context.Context) error {
	if o.natives.knows {
		return nil
	}
	const sql = `SELECT s.stack, any_value(l.site), any_value(l.called)
 FROM (SELECT DISTINCT stack FROM native.stacks) s LEFT JOIN native.live l USING (stack) GROUP BY s.stack`
	err := store.Each(ctx, o, sql, func(v []any) {
		id, _ := v[0].(int64)
		site, _ := v[1].(string)
		called, _ := v[2].(string)
		o.natives.reader.Know(id, site, called)
	})
	if err != nil {
		return fmt.Errorf("read native stacks: %w", err)
	}
	o.natives.knows = true
	return nil
}
