package collector

import (
	"context"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/owner"
	"github.com/memgauge/memgauge/internal/store"
)

// A query that still runs after it was cancelled can be stopped only with the process. A collector then replaces itself
// by exec; no record is lost, since the rings keep what it has not stored (docs/decisions/0007).

// goRoom is the memory in bytes that is mapped for Go before store.BoundMemory: when an allocation fails, Go's runtime
// ends the process, unlike DuckDB.
const goRoom = 64 << 20

// reserveForGo makes the runtime map memory and keep it. The memory is never touched, so no page of it is resident.
func reserveForGo() {
	room := make([]byte, goRoom)
	runtime.KeepAlive(room)
	runtime.GC() // so that the next collection doesn't wait for a heap of that size
}

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
	r.once.Do(func() {
		r.c.log.Error("a question could not be stopped; the collector starts anew", "sql", sql[:min(len(sql), 200)])
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
