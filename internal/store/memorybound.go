package store

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// A question may cost its own answer, never the machine or the records. DuckDB bounds what its tables and sorts take,
// but not what one function makes (a list of 500 million numbers). So the kernel bounds the process: beyond memoryRoom
// an allocation fails, which DuckDB turns into that question's error (docs/decisions/0007).

// memoryRoom is what the process may allocate beyond what it has once the database is open, in bytes: DuckDB's own
// limit, and as much again for results, lists on their way, Go and the threads' stacks.
const memoryRoom = 2 * MemoryLimit

// BoundMemory sets the limit on private memory that can be written (RLIMIT_DATA, which counts mmap since Linux 4.7). It
// can be raised again: what is started from here must not inherit it.
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
