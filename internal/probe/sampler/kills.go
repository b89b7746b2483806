package sampler

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/formats/model"
)

// Kill reports that the kernel's OOM killer took processes of the job: a counter of kills has risen. The kernel names
// the killed process only in its log, so those are named that vanished since the previous sample.
type Kill struct {
	Time    int64  // µs since the epoch, when it was noticed
	Scope   string // cgroup, host
	Path    string // of the cgroup; "" for the host
	Count   int64  // kills counted
	Limit   int64  // of the cgroup, or the host's memory; bytes
	Victims []Held
	Largest []Held // the remaining processes of the job, largest first
}

// Held is a process with its memory.
type Held struct {
	PID     int
	Role    string
	Command string
	Bytes   int64 // resident at the last reading; Null if there was none
}

// String describes it in a line.
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

// killWatch compares the counters of each sample with those of the previous one.
type killWatch struct {
	counts map[string]int64 // by cgroup path; "" is the host
	gone   []*member        // ended since the sample before
	short  time.Time        // when the host last had little memory left
	dying  []Kill           // counted, but nobody has vanished yet
}

const (
	maxGone    = 256              // a job in which more processes end in a second is not training
	maxLargest = 5                // processes named as the largest left
	shortShare = 0.05             // when only this share of the host's memory is available, it may begin to kill
	shortAgo   = 10 * time.Second // a kill comes within this time of a shortage
	// a victim whose memory is being released may still be seen: 100 GiB take seconds to release
	dyingFor = 5 * time.Second
)

// SetKills sets a counter to the last value that an earlier sampler of the same job has read. So a kill since then,
// perhaps of that sampler itself, is not missed. "" is the host.
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

// rose returns by how much a counter is above the previous value.
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

// Kills evaluates the counters of the last sample. If the victim still exists, a later call reports the kill, unless
// this is the last call.
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

// counted compares the counters of the last sample with those of the one before.
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
		// The host's counter includes every container's kills. A kill counts as ours only when a process of ours has
		// ended and the host itself was short of memory.
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
	order.By(kill.Victims, largest)
	// others that ended were smaller
	kill.Victims = kill.Victims[:min(int64(len(kill.Victims)), kill.Count, maxLargest)]
	for _, p := range s.members.byPID {
		kill.Largest = append(kill.Largest, s.held(p))
	}
	order.By(kill.Largest, largest)
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
