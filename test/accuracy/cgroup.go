package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// alone gives a program a memory cgroup (v1) of its own, where one may be made: what a job keeps in shared memory that
// no process maps is seen by its cgroup alone, and a program beside it would hide that. wrap is put before the command.
func alone(name string) (wrap []string, remove func()) {
	dir := filepath.Join("/sys/fs/cgroup/memory", fmt.Sprintf("memgauge-accuracy-%d-%s", os.Getpid(),
		strings.ReplaceAll(name, "/", "-")))
	if os.Mkdir(dir, 0o755) != nil {
		return nil, func() {}
	}
	return []string{"sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, dir}, func() {
		for range 100 { // the collector may end a moment later
			if os.Remove(dir) == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}
