package store

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// A query that needs too much memory may fail, but must not harm the machine or the records. DuckDB limits the memory
// of tables and sorts, but not that of a single function's result (a list of 500 million numbers). So the kernel limits
// the process: beyond memoryRoom an allocation fails, and DuckDB reports that as the query's error
// (docs/decisions/0007).

// memoryRoom is how many bytes the process may allocate in addition to what it has when the database is open: DuckDB's
// own limit, and as much again for results, intermediate lists, Go and the threads' stacks.
const memoryRoom = 2 * MemoryLimit

// BoundMemory limits the process's private writable memory (RLIMIT_DATA, which counts mmap since Linux 4.7). Only the
// soft limit is set, so that it can be lifted before a child process is started, which would inherit it.
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

// UnboundMemory lifts the limit.
func UnboundMemory() {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_DATA, &limit) == nil {
		limit.Cur = limit.Max
		_ = unix.Setrlimit(unix.RLIMIT_DATA, &limit) // an allowed change: Cur ≤ Max
	}
}

// leastRoom is what a process must be able to allocate, in bytes, to go on storing: a full ring's rows and DuckDB's
// buffers for them take some 40 MiB.
const leastRoom = 128 << 20

// Exhausted reports whether the process has less than leastRoom left below its limit, after it has given back what
// nobody uses.
func Exhausted() bool {
	if room() >= leastRoom {
		return false
	}
	giveBack()
	return room() < leastRoom
}

// room is how many bytes may still be allocated.
func room() int64 {
	var limit unix.Rlimit
	held, err := dataBytes()
	if err != nil || unix.Getrlimit(unix.RLIMIT_DATA, &limit) != nil || limit.Cur > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(limit.Cur) - held
}

// dataBytes returns the bytes of this process that RLIMIT_DATA counts (VmData, proc(5)).
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
