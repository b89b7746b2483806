package observe

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/probe/proc"
)

// PythonProcess is one that may be attached to.
type PythonProcess struct {
	PID      int
	Resident uint64 // bytes
	Command  []string
}

// mostTargets bounds how many processes are told.
const mostTargets = 40

// Targets are the Python processes of this user, or of all for root, those that hold most first. It goes by the
// program's name, since a shell asks at a key: a program that embeds Python is missing.
func Targets() (list []PythonProcess) {
	fs := proc.New("/proc")
	pids, _ := fs.PIDs() // nothing is offered where they can't be read
	for _, pid := range pids {
		exe, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
		if err != nil || !strings.HasPrefix(filepath.Base(exe), "python") { // another user's, or it has ended
			continue
		}
		command, _ := fs.Cmdline(pid) // of one that has ended meanwhile nothing is known
		rss, _ := fs.RSS(pid)
		list = append(list, PythonProcess{pid, rss.Resident, command})
	}
	order.By(list, func(a, b PythonProcess) int { return cmp.Compare(b.Resident, a.Resident) })
	return list[:min(len(list), mostTargets)]
}
