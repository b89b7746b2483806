package sampler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/model"
	"github.com/memgauge/memgauge/internal/units"
)

// Kill tells that the kernel's OOM killer took processes of the job: a counter of kills has risen. Which process it was
// the kernel tells nobody but its log; those that vanished since the sample before are named.
type Kill struct {
	Time    int64  // µs since the epoch, when it was noticed
	Scope   string // cgroup, host
	Path    string // of the cgroup; "" for the host
	Count   int64  // kills counted
	Limit   int64  // of the cgroup, or the host's memory; bytes
	Victims []Held
	Largest []Held // what is left of the job, largest first
}

// Held is a process with what it had.
type Held struct {
	PID     int
	Role    string
	Command string
	Bytes   int64 // resident at the last look; Null if there was none
}

// String says it in a line.
func (k Kill) String() string {
	var b strings.Builder
	where := "the host ran out of memory"
	if k.Scope == "cgroup" {
		where = fmt.Sprintf("cgroup %s reached its limit", k.Path)
	}
	b.WriteString(where)
	if k.Limit != model.Null {
		fmt.Fprintf(&b, " (%s)", units.Bytes(k.Limit))
	}
	b.WriteString("; killed: " + heldList(k.Victims, "a process outside of the job's tree"))
	if len(k.Largest) > 0 {
		b.WriteString("; largest left: " + heldList(k.Largest, ""))
	}
	return b.String()
}

func heldList(list []Held, none string) string {
	if len(list) == 0 {
		return none
	}
	var parts []string
	for _, h := range list {
		text := fmt.Sprintf("%s %d", h.Role, h.PID)
		if h.Bytes != model.Null {
			text += fmt.Sprintf(" with %s", units.Bytes(h.Bytes))
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// killWatch compares the counters of each sample with those before.
type killWatch struct {
	counts map[string]int64 // by cgroup path; "" is the host
	gone   []*member        // ended since the sample before
	short  time.Time        // when the host last had little memory left
	dying  []Kill           // counted, but nobody has vanished yet
}

const (
	maxGone    = 256              // a job that ends more processes in a second is not training
	maxLargest = 5                // processes named as the largest left
	shortShare = 0.05             // of the host's memory available: it may begin to kill
	shortAgo   = 10 * time.Second // a kill comes within so long of that
	// a victim that is taken apart may still be seen: 100 GiB take seconds to be given back
	dyingFor = 5 * time.Second
)

// SetKills sets the counter that an earlier sampler of the same job has seen last, so that a kill since then, perhaps
// of that sampler itself, is not missed. "" is the host.
func (s *Sampler) SetKills(cgroupPath string, count int64) {
	if s.kills.counts == nil {
		s.kills.counts = map[string]int64{}
	}
	s.kills.counts[cgroupPath] = count
}

func (k *killWatch) ended(gone []*member) {
	k.gone = append(k.gone, gone...)
	k.gone = k.gone[max(len(k.gone)-maxGone, 0):]
}

// rose says by how much a counter is above the one before.
func (k *killWatch) rose(path string, count int64) int64 {
	if count == model.Null {
		return 0
	}
	if k.counts == nil {
		k.counts = map[string]int64{}
	}
	before, known := k.counts[path]
	k.counts[path] = count
	if !known {
		return 0
	}
	return max(count-before, 0)
}

// Kills goes through the counters of the last sample. A kill whose victim is still there is told by a later call,
// unless this is the last one.
func (s *Sampler) Kills(last bool) (list []Kill) {
	k := &s.kills
	var waiting []Kill
	for _, kill := range append(k.dying, s.counted()...) {
		if len(k.gone) == 0 && !last && s.last.Sub(time.UnixMicro(kill.Time)) < dyingFor {
			waiting = append(waiting, kill)
			continue
		}
		list = append(list, s.describeKill(kill))
	}
	k.dying = waiting
	s.window.forget(k.gone)
	k.gone = k.gone[:0]
	return list
}

// counted compares the counters of the last sample with those before.
func (s *Sampler) counted() (list []Kill) {
	k, now := &s.kills, s.last
	for i := range s.out.Cgroups {
		cg := &s.out.Cgroups[i]
		if n := k.rose(cg.Path, cg.EventsOOMKill); n > 0 {
			limit := cg.Limit
			if limit == model.Null {
				limit = s.total
			}
			list = append(list, Kill{Time: now.UnixMicro(), Scope: "cgroup", Path: cg.Path, Count: n, Limit: limit})
		}
	}
	for i := range s.out.Hosts {
		h := &s.out.Hosts[i]
		if h.Available != model.Null && float64(h.Available) < shortShare*float64(h.Total) {
			k.short = now
		}
		// The host's counter counts every container's kills too: it is ours only when a process of ours is gone and the
		// host itself was short.
		if n := k.rose("", h.OOMKills); n > 0 && len(list) == 0 && len(k.gone) > 0 && now.Sub(k.short) <= shortAgo {
			list = append(list, Kill{Time: now.UnixMicro(), Scope: "host", Count: n, Limit: h.Total})
		}
	}
	return list
}

func (s *Sampler) describeKill(kill Kill) Kill {
	for _, p := range s.kills.gone {
		kill.Victims = append(kill.Victims, s.held(p))
	}
	largest := func(a, b Held) int { return cmp.Compare(b.Bytes, a.Bytes) }
	slices.SortFunc(kill.Victims, largest)
	// others that ended were smaller
	kill.Victims = kill.Victims[:min(int64(len(kill.Victims)), kill.Count, maxLargest)]
	for _, p := range s.members.byPID {
		kill.Largest = append(kill.Largest, s.held(p))
	}
	slices.SortFunc(kill.Largest, largest)
	kill.Largest = kill.Largest[:min(len(kill.Largest), maxLargest)]
	return kill
}

func (s *Sampler) held(p *member) Held {
	h := Held{PID: p.usage.PID, Role: p.role, Command: p.command, Bytes: p.rss}
	if n, ok := s.window.lastSeen(h.PID); ok {
		h.Bytes = n
	}
	return h
}
