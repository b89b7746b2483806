package ingest

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/formats/wire"
)

const (
	suffix = wire.RingSuffix

	// maxRings bounds open files: 64 processes are a large job on one machine. Rings beyond it wait until others are
	// removed.
	maxRings = 4096

	// mtimeGrain is the coarsest resolution of a directory's modification time on any file system. If a directory
	// changed less than this before it was listed, a file made in the same interval may be missing from the list.
	mtimeGrain = 2 * time.Second
)

// listing remembers when the directory was read, to read it again only if it changed.
type listing struct {
	mtime  time.Time
	stable bool // mtime was old enough when we looked
}

// fileName is the parsed name of a ring's file.
type fileName struct {
	procKey
	generation uint64
}

func parseName(name string) (fileName, bool) {
	n, ok := wire.ParseRingName(name)
	return fileName{procKey{int32(n.PID), n.Start}, n.Generation}, ok
}

func compareRings(a, b *ring) int {
	return cmp.Or(cmp.Compare(a.name.pid, b.name.pid), cmp.Compare(a.name.start, b.name.start),
		cmp.Compare(a.name.generation, b.name.generation), cmp.Compare(a.file, b.file))
}

// list finds rings that are new.
func (in *Ingester) list(now time.Time) error {
	st, err := os.Stat(in.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the first process of the session will make it
	} else if err != nil {
		return err
	}
	if in.listed.stable && st.ModTime().Equal(in.listed.mtime) {
		return nil
	}
	// The clock of the file system counts here, not opts.Now: a test's clock may stand still.
	in.listed = listing{mtime: st.ModTime(), stable: time.Since(st.ModTime()) > mtimeGrain}
	entries, err := os.ReadDir(in.dir)
	if err != nil {
		return err
	}
	known := make(map[string]bool, len(in.rings))
	for _, r := range in.rings {
		known[r.file] = true
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, suffix) && !known[name] && len(in.rings) < maxRings {
			in.rings = append(in.rings, in.newRing(name))
		}
	}
	order.By(in.rings, compareRings)
	return nil
}

func (in *Ingester) newRing(file string) *ring {
	name, ok := parseName(file)
	r := &ring{file: file, name: name, badName: !ok, proc: in.procs[name.procKey]}
	if r.proc == nil {
		r.proc = newProcess(name.procKey)
		in.procs[name.procKey] = r.proc
	}
	r.proc.newest = max(r.proc.newest, name.generation)
	return r
}

// removeDone removes the rings that are stored to their end. If we die before, the next Ingester sees that from the
// stored cursor and removes them.
func (in *Ingester) removeDone() {
	for _, r := range in.done {
		r.close()
		if err := rootdir.Remove(filepath.Join(in.dir, r.file)); err == nil {
			in.stats.Removed++
		}
	}
	if len(in.done) > 0 {
		in.rings = slices.DeleteFunc(in.rings, func(r *ring) bool { return r.finished })
		in.done = in.done[:0]
		in.forgetProcesses()
	}
}

// forgetProcesses forgets processes without rings, so that a job that forks for ever doesn't fill our memory.
func (in *Ingester) forgetProcesses() {
	used := make(map[*process]bool, len(in.rings))
	for _, r := range in.rings {
		used[r.proc] = true
	}
	for key, p := range in.procs {
		if !used[p] {
			delete(in.procs, key)
		}
	}
}
