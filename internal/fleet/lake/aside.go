package lake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/memgauge/memgauge/internal/door/cell"
	"github.com/memgauge/memgauge/internal/record/store"
)

// asideName is the directory of files that were set aside, under the names that they had.
const asideName = ".aside"

// notes are what whoever keeps the lake should know of what came, or was found.
type notes struct {
	sync.Mutex
	refused map[string]int64 // rows, by reason
	aside   []string         // the newest
	more    int              // that aside no longer names
}

// maxNotes bounds the names that are told: enough to see what they have in common.
const maxNotes = 32

func (w *Writer) refuse(why string, rows int64) {
	if rows == 0 {
		return
	}
	w.notes.Lock()
	defer w.notes.Unlock()
	if w.notes.refused == nil {
		w.notes.refused = map[string]int64{}
	}
	w.notes.refused[why] += rows
}

func (w *Writer) note(text string) {
	w.notes.Lock()
	defer w.notes.Unlock()
	if slices.Contains(w.notes.aside, text) {
		return
	}
	if w.notes.aside = append(w.notes.aside, text); len(w.notes.aside) > maxNotes {
		w.notes.aside = w.notes.aside[1:]
		w.notes.more++
	}
}

// Refused counts rows that were not kept and never will be, by reason.
func (w *Writer) Refused() map[string]int64 {
	w.notes.Lock()
	defer w.notes.Unlock()
	return maps.Clone(w.notes.refused)
}

// Aside tells of files in the lake that were none of its own, or damaged, by name; the newest, and how many there were
// before.
func (w *Writer) Aside() (names []string, more int) {
	w.notes.Lock()
	defer w.notes.Unlock()
	return slices.Clone(w.notes.aside), w.notes.more
}

// cacheName is where files of S3 come to this machine for the writer, in the stage.
const cacheName = "in"

// local is a file with an entry's content, open.
func (w *Writer) local(ctx context.Context, e entry) (*os.File, error) {
	if err := w.place.stage().MkdirAll(cacheName); err != nil {
		return nil, err
	}
	cache, err := w.place.stage().Sub(cacheName)
	if err != nil {
		return nil, err
	}
	defer cache.Close()
	return w.place.local(ctx, e, cache)
}

// setAside moves a file to where no reader looks, and tells its name: the rest of its hour goes on without it.
func (w *Writer) setAside(ctx context.Context, e entry, why error) error {
	err := w.place.move(ctx, e.name, asideName+"/"+e.name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("set %s aside: %w", e.name, err)
	}
	w.note(fmt.Sprintf("%s: %.300v", e.name, why))
	return nil
}

// sift sets those of a merge's files aside that are damaged or none of ours, or that nobody could read, and returns how
// many.
func (w *Writer) sift(ctx context.Context, from []source, columns []store.FileColumn) (n int, err error) {
	dir, err := w.place.stage().Temp("check-")
	if err != nil {
		return 0, err
	}
	defer dir.Discard()
	does := work{Columns: columns}
	for _, f := range from {
		does.Claims = append(does.Claims, f.claim.claim())
	}
	k := checker{spec: cell.Spec{Kind: CellKind, Task: task{Work: &does}, Files: filesOf(from), Work: dir}}
	defer k.close()
	return w.setAsideWhere(ctx, from, columns, store.ErrBadFile, func(i int) error { return k.check(ctx, i) })
}

// setAsideWhere sets those files aside for which look gives such an error, and returns how many. Any other error ends
// it. What other nodes have in them stays.
func (w *Writer) setAsideWhere(ctx context.Context, from []source, columns []store.FileColumn, such error,
	look func(i int) error) (n int, err error) {
	for i, f := range from {
		bad := look(i)
		switch {
		case bad == nil:
			continue
		case !errors.Is(bad, such):
			return n, bad
		}
		if err := w.rescue(ctx, f, columns, bad); err != nil {
			return n, err
		}
		if err := w.setAside(ctx, f.entry, bad); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// widest is how many rows DuckDB works on at a time at least (a vector). The widest of an honest file take some MB,
// however many rows it has; a sort of all takes memory as there are rows, so that it fails says nothing against a file.
const widest = 2048

// siftAlone sets those of a merge's files aside whose widest rows alone take too much memory or time, and returns how
// many.
func (w *Writer) siftAlone(ctx context.Context, m store.Merge, from []source) (n int, err error) {
	columns := append(slices.Clone(m.Columns), rowNumber)
	m.Widest, m.MemoryLimit = widest, 2*store.MemoryLimit
	return w.setAsideWhere(ctx, from, columns, errBeyond, func(i int) error {
		if err := w.mergeApart(ctx, m, from[i:i+1]); err != nil {
			return err
		}
		return w.place.stage().Remove(mergedName)
	})
}
