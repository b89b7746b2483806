package collector

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/store"
)

// A question may cost its own answer, never the machine or the records. DuckDB bounds what its tables and sorts take, but
// not what one function makes (a list of 500 million numbers). So the kernel bounds the process: beyond memoryRoom an
// allocation fails, which DuckDB turns into that question's error. And a question that goes on after it was called off
// costs the process: a collector is replaced in place, since the rings keep what it has not stored (docs/decisions/0007).

// memoryRoom is what the process may allocate beyond what it has once the database is open: DuckDB's own limit, and as
// much again for results, lists on their way, Go and the threads' stacks.
const memoryRoom = 2 * store.MemoryLimit

// goRoom of it is mapped for Go beforehand: its runtime, unlike DuckDB, ends the process where it gets nothing.
const goRoom = 64 << 20

// BoundMemory sets the limit on private memory that can be written (RLIMIT_DATA, which counts mmap since Linux 4.7). It can
// be raised again: what is started from here must not inherit it.
func BoundMemory() error {
	held, err := dataBytes()
	if err != nil {
		return fmt.Errorf("bound the memory: %w", err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &limit); err != nil {
		return fmt.Errorf("bound the memory: %w", err)
	}
	limit.Cur = min(limit.Max, uint64(held+memoryRoom))
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &limit); err != nil {
		return fmt.Errorf("bound the memory: %w", err)
	}
	return nil
}

// reserveForGo has the runtime map memory that it keeps and nobody touches: no page of it is resident.
func reserveForGo() {
	room := make([]byte, goRoom)
	runtime.KeepAlive(room)
	runtime.GC() // so that the next collection doesn't wait for a heap of that size
}

// UnboundMemory takes the limit off.
func UnboundMemory() {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_DATA, &limit) == nil {
		limit.Cur = limit.Max
		_ = unix.Setrlimit(unix.RLIMIT_DATA, &limit) // an allowed change: Cur ≤ Max
	}
}

// dataBytes is what RLIMIT_DATA counts of this process now (VmData, proc(5)).
func dataBytes() (int64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "VmData:"); ok {
			var kib int64
			_, err := fmt.Sscan(rest, &kib)
			return kib << 10, err
		}
	}
	return 0, errors.New("/proc/self/status has no VmData")
}

// saveTime bounds what is saved before a collector is replaced. The samplers' rows are stored every second while a question
// runs, so it is about those of a second.
const saveTime = 500 * time.Millisecond

// replacer replaces this process by a fresh collector, once. The PID stays, so who watches over it sees nothing of it.
type replacer struct {
	once  sync.Once
	c     *Collector
	owner *Owner // set before the first question can come
}

func (r *replacer) stuck(sql string) {
	r.once.Do(func() {
		r.c.log.Error("a question could not be stopped; the collector starts anew", "sql", sql[:min(len(sql), 200)])
		r.save()
		UnboundMemory()
		err := unix.Exec("/proc/self/exe", os.Args, os.Environ()) // ends all threads, whatever they are doing
		r.c.log.Error("start anew", "error", err)
		os.Exit(1) // who watches over the collector starts another
	})
}

// save stores what was sampled, unless the engine is past that.
func (r *replacer) save() {
	done := make(chan error, 1)
	go func() { done <- r.owner.storeSamples(context.Background(), 0) }() // ends with the process
	select {
	case err := <-done:
		if err != nil {
			r.c.log.Error("save the samples", "error", err)
		}
	case <-time.After(saveTime):
		r.c.log.Error("save the samples: no time")
	}
}
