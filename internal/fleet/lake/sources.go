package lake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/door/cell"
	"github.com/memgauge/memgauge/internal/record/store"
)

// source is a file of a merge. A portion of others, which lies in the stage, has no name.
type source struct {
	entry
	file  *os.File
	where string // which of its rows are taken, in SQL; "": all
	claim ledger // the rows that it says it holds; nil for a merged one
}

// sources are the files of a merge with what is to be taken of each: all, unless two hold the same row. They stay open
// until done, and are read by their descriptors: a path could lead elsewhere by then. Of very many, portions are merged
// already. With errAgain files were set aside meanwhile.
func (w *Writer) sources(ctx context.Context, c *content, how store.Merge) (out []source, _ ledger, done func(),
	err error) {
	p := &portions{w: w, how: how}
	m, err := w.marker(ctx, c)
	if c.generation > 0 && (err == nil || errors.Is(err, errOdd)) {
		err = w.agree(ctx, c, m, how)
	}
	if err != nil && !errors.Is(err, errAlone) {
		return nil, nil, p.close, err
	}
	for _, f := range c.current() {
		if err := p.room(ctx); err != nil {
			return nil, nil, p.close, err
		}
		local, err := w.local(ctx, f)
		if err != nil {
			return nil, nil, p.close, err
		}
		p.open = append(p.open, local)
		one := source{entry: f, file: local}
		rows, err := claimed(f.name, local)
		if errors.Is(err, errBad) {
			if err = w.setAside(ctx, f, err); err == nil {
				p.open = p.open[:len(p.open)-1]
				local.Close()
				continue
			}
		}
		if err != nil {
			return nil, nil, p.close, err
		}
		if rows != nil {
			one.claim = rows
			fresh, all := m.Rows.fresh(rows)
			if !all {
				one.where = where(fresh)
			}
			m.Rows.addAll(rows)
		}
		p.files = append(p.files, one)
	}
	return append(p.merged, p.files...), m.Rows, p.close, nil
}

// agree has a cell compare a marker with the rows of its merged file, by stream: merged files have no numbers of rows.
// Where they differ, a file that can't be read or merged is set aside (errAgain); else nothing is done with either:
// errOdd.
func (w *Writer) agree(ctx context.Context, c *content, m marker, how store.Merge) error {
	if len(c.merged) == 0 {
		return nil
	}
	local, err := w.local(ctx, c.merged[0]) // there is one of a name
	if err != nil {
		return err
	}
	defer local.Close()
	from := []source{{entry: c.merged[0], file: local}}
	err = w.checkOne(ctx, from, work{Columns: how.Columns, Claims: []*store.Claim{m.Rows.counts()}})
	if !errors.Is(err, store.ErrBadFile) {
		return err
	}
	n, err := w.sift(ctx, from, how.Columns)
	if n == 0 && err == nil {
		n, err = w.siftAlone(ctx, how, from)
	}
	if n > 0 || err != nil {
		return cmp.Or(err, errAgain)
	}
	return fmt.Errorf("read %s: %w", c.marker.name, errOdd)
}

// checkOne has a cell check a file.
func (w *Writer) checkOne(ctx context.Context, from []source, does work) error {
	dir, err := w.place.stage().Temp("check-")
	if err != nil {
		return err
	}
	defer dir.Discard()
	k := checker{spec: cell.Spec{Kind: CellKind, Task: task{Work: &does}, Files: filesOf(from), Work: dir}}
	defer k.close()
	return k.check(ctx, 0)
}

// claimed reads what a flushed file says it holds; nil of a merged one, of which the marker does.
func claimed(name string, f *os.File) (ledger, error) {
	if parsed, _ := parse(name); parsed.kind == rawTier {
		return rowsOf(name, f)
	}
	if err := sound(f); err != nil {
		return nil, fmt.Errorf("read %s: %w: %w", name, errBad, err)
	}
	return nil, nil
}

// maxSources is how many files are open for a merge at a time: an hour has some hundreds. One of a node that sends tiny
// frames has any number, and each takes a descriptor, and memory where it is read. It is a variable for tests.
var maxSources = 512

// portions are the files of a merge, as many as may be open, and what was merged of those before them.
type portions struct {
	w      *Writer
	how    store.Merge
	open   []*os.File // those of files
	files  []source
	dir    *rootdir.Dir // of merged, in the stage; nil while there are none
	merged []source
}

// room makes one file of those that are open, if there may be no more.
func (p *portions) room(ctx context.Context) error {
	if len(p.files) < maxSources {
		return nil
	}
	if p.dir == nil {
		dir, err := p.w.place.stage().Temp("portions-")
		if err != nil {
			return err
		}
		p.dir = dir
	}
	name := strconv.Itoa(len(p.merged)) + ".parquet"
	if err := p.w.mergeHonest(ctx, p.how, p.files, p.dir, name); err != nil {
		return err
	}
	f, err := p.dir.Open(name)
	if err != nil {
		return err
	}
	p.shut()
	p.merged = append(p.merged, source{file: f})
	return nil
}

// shut closes the files that are open, and gives up what S3 was copied to.
func (p *portions) shut() {
	for _, f := range p.open {
		f.Close()
	}
	p.open, p.files = nil, nil
	_ = p.w.place.stage().RemoveAll(cacheName)
}

func (p *portions) close() {
	p.shut()
	for _, f := range p.merged {
		f.file.Close()
	}
	if p.dir != nil {
		_ = p.dir.Discard() // what stays is removed with the stage's leftovers
	}
}

// errAgain says that files were set aside, without which the merge is to be tried again.
var errAgain = errors.New("files were set aside")

// smallGroup is the rows of a group where a million of them don't fit into memory.
const smallGroup = 50_000

// mergeHonest merges to a file of that name, or sets files aside that keep it from that: errAgain. Rows that memory
// can't sort though each file is honest, some millions with texts that all differ, lie unsorted in small groups: a
// question reads more of them, but no longer each of an hour's files.
func (w *Writer) mergeHonest(ctx context.Context, m store.Merge, from []source, to *rootdir.Dir, name string) error {
	err := w.mergeInto(ctx, m, from, to, name)
	if err == nil {
		return nil
	}
	err = w.blame(ctx, m, from, err)
	if errors.Is(err, errAgain) || !errors.Is(err, errBeyond) || ctx.Err() != nil {
		return err
	}
	m.Order, m.RowGroup = nil, smallGroup
	if w.mergeInto(ctx, m, from, to, name) == nil {
		return nil
	}
	return err
}

// blame sets those files aside for which a merge failed; where there are none, the error is the merge's.
func (w *Writer) blame(ctx context.Context, m store.Merge, from []source, err error) error {
	if ctx.Err() != nil {
		return err
	}
	theirs := slices.DeleteFunc(slices.Clone(from), func(f source) bool { return f.name == "" })
	bad, e := w.sift(ctx, theirs, append(slices.Clone(m.Columns), rowNumber))
	if bad == 0 && e == nil && errors.Is(err, errBeyond) {
		bad, e = w.siftAlone(ctx, m, theirs)
	}
	if bad == 0 || e != nil {
		return errors.Join(err, e)
	}
	return errAgain
}

// where is the condition that a row is one of a ledger's.
func where(l ledger) string {
	var parts []string
	for stream, list := range l {
		node, session, _ := strings.Cut(stream, "/") // neither has a slash (frame.CheckName)
		for _, s := range list {
			parts = append(parts, fmt.Sprintf("node = '%s' AND %s = '%s' AND %s BETWEEN %d AND %d", node, sessionColumn,
				session, rowColumn, s[0], s[1]))
		}
	}
	if len(parts) == 0 {
		return "false"
	}
	slices.Sort(parts)
	return strings.Join(parts, " OR ")
}

// claim is a ledger as what a file says of itself: nil for none.
func (l ledger) claim() *store.Claim {
	if l == nil {
		return nil
	}
	spans := []string{"('', '', 1, 0)"}
	for stream, list := range l {
		node, session, _ := strings.Cut(stream, "/")
		for _, s := range list {
			spans = append(spans, fmt.Sprintf("('%s', '%s', %d, %d)", node, session, s[0], s[1]))
		}
	}
	slices.Sort(spans)
	return &store.Claim{Rows: int64(l.rows()), Key: "node, " + sessionColumn + ", " + rowColumn,
		Join: "JOIN (VALUES " + strings.Join(spans, ", ") + ") AS claim(n, s, a, b) ON node = claim.n AND " +
			sessionColumn + " = claim.s AND " + rowColumn + " BETWEEN claim.a AND claim.b"}
}

// counts is a ledger as what a merged file has of each stream.
func (l ledger) counts() *store.Claim {
	all := []string{"('', '', 0)"}
	for stream, list := range l {
		node, session, _ := strings.Cut(stream, "/")
		all = append(all, fmt.Sprintf("('%s', '%s', %d)", node, session, ledger{stream: list}.rows()))
	}
	slices.Sort(all)
	return &store.Claim{By: "node, " + sessionColumn, Counts: "SELECT n, s, k FROM (VALUES " + strings.Join(all, ", ") +
		") AS told(n, s, k) WHERE k > 0"}
}
