package env

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Cgroup makes a memory cgroup (v1) with a limit in bytes that the kernel enforces, and gives its directory; it is removed when
// the test has ended. Where none can be made the test is skipped, unless MEMGAUGE_REQUIRE names "cgroup".
func Cgroup(t *testing.T, limit int64) string {
	t.Helper()
	dir := filepath.Join("/sys/fs/cgroup/memory", fmt.Sprintf("memgauge-test-%d-%d", os.Getpid(), time.Now().UnixNano()))
	err := os.Mkdir(dir, 0o755)
	if err == nil {
		t.Cleanup(func() { removeCgroup(t, dir) })
		err = os.WriteFile(filepath.Join(dir, "memory.limit_in_bytes"), []byte(strconv.FormatInt(limit, 10)), 0)
	}
	if err != nil {
		if required("cgroup") {
			t.Fatalf("MEMGAUGE_REQUIRE wants cgroup: %v", err)
		}
		t.Skipf("no memory cgroup (v1) can be made: %v", err)
	}
	return dir
}

// removeCgroup waits for the last processes in it, which take a moment to vanish.
func removeCgroup(t *testing.T, dir string) {
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // rmdir(2) can't be waited for
		err := os.Remove(dir)
		if err == nil || os.IsNotExist(err) {
			return
		}
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(end) {
			t.Errorf("remove the test's cgroup: %v", err)
			return
		}
	}
}
