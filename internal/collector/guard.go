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

// A question that goes on after it was called off costs the process: a collector is replaced in place, since the rings
// keep what it has not stored (docs/decisions/0007).

// goRoom is mapped for Go before store.BoundMemory, in bytes: Go's runtime, unlike DuckDB, ends the process where it
// gets nothing.
const goRoom = 64 << 20

// reserveForGo has the runtime map memory that it keeps and nobody touches: no page of it is resident.
func reserveForGo() {
	room := make([]byte, goRoom)
	runtime.KeepAlive(room)
	runtime.GC() // so that the next collection doesn't wait for a heap of that size
}

// saveTime bounds what is saved before a collector is replaced. The samplers' rows are stored every second while a
// question runs, so it is about those of a second.
const saveTime = 500 * time.Millisecond

// replacer replaces this process by a fresh collector, once. The PID stays, so who watches over it sees nothing of it.
type replacer struct {
	once  sync.Once
	c     *Collector
	owner *owner.Owner // set before the first question can come
}

func (r *replacer) stuck(sql string) {
	r.once.Do(func() {
		r.c.log.Error("a question could not be stopped; the collector starts anew", "sql", sql[:min(len(sql), 200)])
		r.save()
		store.UnboundMemory()
		err := unix.Exec("/proc/self/exe", os.Args, os.Environ()) // ends all threads, whatever they are doing
		r.c.log.Error("start anew", "error", err)
		os.Exit(1) // who watches over the collector starts another
	})
}

// save stores what was sampled, unless the engine is past that.
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
