package collector

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/door/owner"
	"github.com/memgauge/memgauge/internal/record/store"
)

// A query that still runs after it was cancelled can be stopped only with the process. A collector then replaces itself
// by exec; no record is lost, since the rings keep what it has not stored (docs/decisions/0007).

// saveTime bounds the time for storing samples before the collector is replaced. While a query runs, samples are stored
// every second, so those of about a second are left.
const saveTime = 500 * time.Millisecond

// replacer replaces this process by a fresh collector, once. The PID stays the same, so its keeper sees no difference.
type replacer struct {
	once  sync.Once
	c     *Collector
	owner *owner.Owner // set before the first request can come
}

func (r *replacer) stuck(sql string) {
	r.replace("a question could not be stopped; the collector starts anew", "sql", sql[:min(len(sql), 200)])
}

// look replaces a process that questions have left without memory, once none runs any more: records must be stored
// before they are overwritten. A question that still runs may give its memory back, unless rows could not be stored
// meanwhile; drained is what came of that.
func (r *replacer) look(drained error) {
	if !store.Exhausted() || r.owner.Asked() && !errors.Is(drained, store.ErrMemory) {
		return
	}
	r.replace("questions have left no memory; the collector starts anew", "drain", drained)
}

func (r *replacer) replace(why string, details ...any) {
	r.once.Do(func() {
		r.c.log.Error(why, details...)
		r.save()
		store.UnboundMemory()
		err := unix.Exec("/proc/self/exe", os.Args, os.Environ()) // ends all threads, whatever they are doing
		r.c.log.Error("start anew", "error", err)
		os.Exit(1) // the keeper starts another collector
	})
}

// save stores pending samples, unless the database no longer responds.
func (r *replacer) save() {
	done := make(chan error, 1)
	go func() { done <- r.owner.StoreSamples(context.Background(), 0) }() // ends with the process
	select {
	case err := <-done:
		if err != nil {
			r.c.log.Error("save the samples", "error", err)
		}
	case <-time.After(saveTime):
		r.c.log.Error("save the samples: no time")
	}
}
