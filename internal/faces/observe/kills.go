package observe

import (
	"time"

	"github.com/memgauge/memgauge/internal/probe/proc"
)

// Reading the cgroup of a command that has just begun, until the collector does it.
const (
	killsPoll = 50 * time.Millisecond // two small files: some 50 µs
	killsLong = 30 * time.Second      // a collector has looked by then, however loaded the machine is
)

// kills counts what the kernel's OOM killer takes in the cgroup of a command, from its first moments on.
type kills struct {
	stop, done chan struct{}
	group      proc.Cgroup
	before     int64 // proc.Unknown: no cgroup was seen
}

func watchKills(pid int) *kills {
	k := &kills{stop: make(chan struct{}), done: make(chan struct{}), before: proc.Unknown}
	fs := proc.New("/proc")
	mounts, err := fs.CgroupMounts("/")
	if err != nil {
		close(k.done)
		return k
	}
	go func() {
		defer close(k.done)
		tick := time.NewTicker(killsPoll)
		defer tick.Stop()
		for until := time.Now().Add(killsLong); time.Now().Before(until); {
			// a command may move itself into another one
			if g, err := fs.Cgroup(pid, mounts); err == nil && (k.before == proc.Unknown || g.Path != k.group.Path) {
				k.group, k.before = g, g.OOMKills()
			}
			select {
			case <-k.stop:
				return
			case <-tick.C:
			}
		}
	}()
	return k
}

// end says whether a process of the cgroup was killed for want of memory meanwhile.
func (k *kills) end() bool {
	close(k.stop)
	<-k.done
	return k.before != proc.Unknown && k.group.OOMKills() > k.before
}
