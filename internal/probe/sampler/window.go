package sampler

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/probe/proc"
)

// There are ten glances a second when memory may run out soon: a trainer that allocates 5 GiB/s is then seen at every
// half GiB. A glance costs a short read for each cgroup and each process, and wakes us up. So glances are as rare as
// the remaining memory allows.
const (
	GlanceEvery = 100 * time.Millisecond
	glanceRest  = 500 * time.Millisecond
	// bytes a second that a job may take: several threads, and the remaining memory may have been read a second ago
	fastest      = 16 << 30
	windowSpan   = time.Minute
	windowLength = windowSpan / GlanceEvery
	maxGlanced   = 64 // processes in a glance: one descriptor each is kept open
)

// window keeps the last minute at full resolution: each process's resident memory and each cgroup's charge.
type window struct {
	ring  []glance // of windowLength, oldest at next once it is full
	next  int
	files map[procID]*os.File // statm of the processes
	page  int64
	count int // glances so far
}

type procID struct {
	pid   int
	start uint64
}

type glance struct {
	at     time.Time
	values []reading
}

type reading struct {
	pid   int // 0: a cgroup
	name  string
	bytes int64
}

// Glance reads the processes and cgroups that the last Sample found.
func (s *Sampler) Glance() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s.costs.measure(partGlance, func() {
		s.window.look(s, s.o.Now())
		s.cgroups.follow(s, s.window.count)
		s.window.count++
	})
}

func (w *window) look(s *Sampler, now time.Time) {
	if w.files == nil {
		w.files, w.page = map[procID]*os.File{}, int64(os.Getpagesize())
	}
	g := w.slot()
	g.at = now
	for pid, p := range s.members.byPID {
		if n, ok := w.resident(s, procID{pid, p.usage.Start}); ok {
			g.values = append(g.values, reading{pid, p.usage.Comm, n})
		}
	}
	for _, cg := range s.cgroups.seen {
		if n, err := cg.Current(); err == nil {
			g.values = append(g.values, reading{0, cg.Path, n})
		}
	}
}

// GlancePause is the time until the next glance: a tenth of a second while a job is young or the last sample found
// little memory left, otherwise more.
func (s *Sampler) GlancePause() time.Duration {
	if s.window.count < youngGlances {
		return GlanceEvery
	}
	room := math.Inf(1)
	for i := range s.out.Cgroups {
		if cg := &s.out.Cgroups[i]; cg.Limit != model.Null {
			room = min(room, float64(cg.Limit-cg.Current))
		}
	}
	for i := range s.out.Hosts {
		if h := &s.out.Hosts[i]; h.Available != model.Null {
			room = min(room, float64(h.Available))
		}
	}
	if room >= fastest*glanceRest.Seconds() {
		return glanceRest
	}
	return max(GlanceEvery, time.Duration(room/fastest*float64(time.Second)))
}

// slot returns the oldest glance, emptied.
func (w *window) slot() *glance {
	if len(w.ring) < int(windowLength) {
		w.ring = append(w.ring, glance{})
		return &w.ring[len(w.ring)-1]
	}
	g := &w.ring[w.next]
	w.next = (w.next + 1) % len(w.ring)
	g.values = g.values[:0]
	return g
}

// resident reads statm on a descriptor that stays open: it belongs to the process, not to its PID.
func (w *window) resident(s *Sampler, id procID) (int64, bool) {
	f := w.files[id]
	if f == nil {
		if len(w.files) >= maxGlanced {
			return 0, false
		}
		var err error
		if f, err = os.Open(filepath.Join(s.o.Root, "proc", strconv.Itoa(id.pid), "statm")); err != nil {
			return 0, false
		}
		w.files[id] = f
	}
	pages, ok := proc.Resident(f)
	return pages * w.page, ok && pages > 0 // a zombie has none
}

// forget closes the files of processes that have ended.
func (w *window) forget(gone []*member) {
	for _, p := range gone {
		id := procID{p.usage.PID, p.usage.Start}
		if f := w.files[id]; f != nil {
			f.Close()
			delete(w.files, id)
		}
	}
}

func (w *window) close() {
	for _, f := range w.files {
		f.Close()
	}
	w.files = nil
}

// Window returns the last minute as rows that belong to an event (time of its row in memgauge.events, µs). It empties
// the window, so that a second event soon after has only new readings.
func (s *Sampler) Window(event int64) (rows []model.WindowSample) {
	w := &s.window
	order := append(slices.Clone(w.ring[w.next:]), w.ring[:w.next]...)
	for _, g := range order {
		if s.o.Now().Sub(g.at) > windowSpan { // they were rare for a while
			continue
		}
		for _, v := range g.values {
			scope := "process"
			if v.pid == 0 {
				scope = "cgroup"
			}
			rows = append(rows, model.WindowSample{Time: g.at.UnixMicro(), Event: event, Scope: scope,
				PID: int32(v.pid), Name: v.name, Bytes: v.bytes})
		}
	}
	w.ring, w.next = w.ring[:0], 0
	return rows
}

// lastSeen is the newest reading of a process.
func (w *window) lastSeen(pid int) (bytes int64, ok bool) {
	newest := time.Time{}
	for _, g := range w.ring {
		for _, v := range g.values {
			if v.pid == pid && g.at.After(newest) {
				newest, bytes, ok = g.at, v.bytes, true
			}
		}
	}
	return bytes, ok
}
