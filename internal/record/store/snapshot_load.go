package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/internal/judge/anatomy"
)

// This file fills the tables of a memory snapshot: it copies the history's columns directly into DuckDB's chunks.

// snapshotLoad is a history on its way into a database.
type snapshotLoad struct {
	h       *anatomy.History
	uses    []anatomy.Category // by row
	actions []string
	sites   coded   // by stack
	pools   coded   // by number in Pools, then by segment
	notes   coded   // by number of the text
	inside  []int32 // the segment of each of Blocks
	found   []block // room for a chunk of blocks
}

// coded maps numbers of the file to the values of an enum. If there are too many different texts for an enum, the
// column holds the texts themselves.
type coded struct {
	values []string // alphabetical, so that ORDER BY is
	code   []uint32 // noCode is NULL
}

// maxEnum is how many values an enum may have. Programs have some hundred lines that allocate. DuckDB copies all values
// with every use of the type: 400,000 took twice the memory and twice the time while the tables are made.
const maxEnum = 16 << 10

// asTexts reports whether the column holds texts instead of an enum.
func (c *coded) asTexts() bool { return len(c.values) > maxEnum }

// typ is the column's type.
func (c *coded) typ() string {
	if c.asTexts() {
		return "VARCHAR"
	}
	return enumOfValues(c.values)
}

func enumOfValues(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = quote(v)
	}
	return "ENUM (" + strings.Join(quoted, ", ") + ")"
}

// coded fills a column; get returns a row's number in c.
func (s *sheet) coded(c *coded, get func(i int) uint32) {
	if !c.asTexts() {
		s.enum(get)
		return
	}
	s.textsOrNull(func(i int) string {
		if at := get(i); at != noCode {
			return c.values[at]
		}
		return ""
	})
}

const noCode = ^uint32(0)

// newCoded makes an enum of n texts; "" is NULL.
func newCoded(n int, text func(i int) string) coded {
	texts := make([]string, n)
	places := map[string]uint32{}
	for i := range texts {
		if texts[i] = enumText(text(i)); texts[i] != "" {
			places[texts[i]] = 0
		}
	}
	c := coded{values: make([]string, 0, len(places)+1), code: make([]uint32, n)}
	for v := range places {
		c.values = append(c.values, v)
	}
	slices.Sort(c.values)
	for i, v := range c.values {
		places[v] = uint32(i)
	}
	for i, t := range texts {
		c.code[i] = noCode
		if t != "" {
			c.code[i] = places[t]
		}
	}
	if len(c.values) == 0 {
		c.values = append(c.values, "-") // an enum has at least one
	}
	return c
}

// enumText is a text as a literal can hold it.
func enumText(s string) string { return strings.ReplaceAll(utf8Only(s), "\x00", "\uFFFD") }

func newSnapshotLoad(h *anatomy.History) *snapshotLoad {
	l := &snapshotLoad{h: h, uses: h.Uses()}
	seen := map[string]bool{}
	for i, name := range h.Actions {
		if name = enumText(name); seen[name] || name == "" {
			name = fmt.Sprintf("%s (%d)", name, i)
		}
		seen[name] = true
		l.actions = append(l.actions, name)
	}
	l.sites = newCoded(h.Stacks(), func(i int) string { return h.Site(uint32(i)) })
	l.pools = newCoded(len(h.Pools)+len(h.Segments), func(i int) string {
		if i < len(h.Pools) {
			return poolName(h.Pools[i])
		}
		return poolName(h.Segments[i-len(h.Pools)].Pool)
	})
	used := make([]bool, h.Texts())
	for _, column := range [][]uint32{h.Context, h.Metadata} {
		for _, id := range column {
			if id != snapshot.NoText {
				used[id] = true
			}
		}
	}
	l.notes = newCoded(h.Texts(), func(i int) string {
		if !used[i] {
			return ""
		}
		return h.Text(uint32(i))
	})
	l.inside = make([]int32, len(h.Blocks))
	for i, g := range h.Segments {
		for b := g.From; b < g.To; b++ {
			l.inside[b] = int32(i)
		}
	}
	return l
}

// poolName formats a private pool's id like PyTorch's viewer; "" for the default pool.
func poolName(id [2]int64) string {
	if id == ([2]int64{}) {
		return ""
	}
	return fmt.Sprintf("%d:%d", id[0], id[1])
}

// split is the number of events that the first of two connections writes. The other one writes the remaining events and
// all other tables in about the same time: six million events take 2.7 s, three million blocks 0.8 s.
func (l *snapshotLoad) split() int { return l.h.Len() / 3 * 2 }

// toldRows is the number of rows between two calls of told: some ten calls a second.
const toldRows = 1 << 17

// history fills events with the rows from ≤ row < to, and reports their written share to told.
func (l *snapshotLoad) history(ctx context.Context, c *conn, from, to int, told func(share float64)) error {
	s, err := newSheet(c, "main", "events")
	if err != nil {
		return err
	}
	defer s.close()
	next := 0
	for _, d := range l.h.Devices {
		at := &moment{d: d}
		if err := s.ranges(ctx, max(d.From, from), min(d.To, to), func(row int) {
			if told != nil && row >= next {
				told(float64(row-from) / float64(to-from))
				next = row + toldRows
			}
			l.events(s, at, row)
		}); err != nil {
			return err
		}
	}
	return s.finish()
}

// moment is the state of a device while its rows are read in order.
type moment struct {
	d               *anatomy.Device
	started, levels int // how many iterations have begun, and the level that holds
}

// iteration returns the number of the iteration to which a row belongs; -1 before the first.
func (m *moment) iteration(row int) int32 {
	for m.started < len(m.d.Iterations.Starts) && m.d.Iterations.Starts[m.started] <= row {
		m.started++
	}
	return int32(m.started) - 1
}

// reserved returns the device's reserved bytes after a row.
func (m *moment) reserved(row int) int64 {
	for m.levels+1 < len(m.d.Reserved) && m.d.Reserved[m.levels+1].Row <= row {
		m.levels++
	}
	return m.d.Reserved[m.levels].Bytes
}

// events fills a chunk from a row on.
func (l *snapshotLoad) events(s *sheet, at *moment, from int) {
	h, to := l.h, from+s.n
	each(s, func(i int) int32 { return int32(from + i) })
	eachOr(s, func(i int) (int64, bool) { return h.Time[from+i], h.Time[from+i] != 0 })
	plain(s, h.Columns.Device[from:to])
	each(s, func(i int) uint64 { return h.Streams[h.Stream[from+i]] })
	plain(s, h.Action[from:to])
	eachOr(s, func(i int) (uint64, bool) { return h.Addr[from+i], h.Action[from+i] != snapshot.IsOOM })
	plain(s, h.Size[from:to])
	plain(s, h.Stack[from:to])
	l.use(s, from)
	eachOr(s, func(i int) (int32, bool) { k := at.iteration(from + i); return k, k >= 0 })
	plain(s, h.Live[from:to])
	each(s, func(i int) int64 { return at.reserved(from + i) })
	eachOr(s, func(i int) (int64, bool) { return int64(h.Addr[from+i]), h.Action[from+i] == snapshot.IsOOM })
	s.coded(&l.pools, func(i int) uint32 { return l.pools.code[h.Pool[from+i]] })
	for _, column := range [][]uint32{h.Context, h.Metadata} {
		s.coded(&l.notes, func(i int) uint32 {
			if id := column[from+i]; id != snapshot.NoText {
				return l.notes.code[id]
			}
			return noCode
		})
	}
}

// use fills the column category of events: the category of the block that the event allocates or frees.
func (l *snapshotLoad) use(s *sheet, from int) {
	s.enum(func(i int) uint32 {
		switch l.h.Action[from+i] {
		case snapshot.IsAlloc, snapshot.IsFreeCompleted:
			return uint32(l.uses[from+i])
		}
		return noCode
	})
}

// rest fills all other tables.
func (l *snapshotLoad) rest(ctx context.Context, c *conn) error {
	if err := l.lives(ctx, c); err != nil {
		return err
	}
	h := l.h
	for _, t := range []struct {
		schema, name string
		rows         int
		columns      func(s *sheet, from int)
	}{
		{"main", "segments", len(h.Segments), l.segments},
		{"main", "segment_blocks", len(h.Blocks), l.segmentBlocks},
		{"main", "stacks", h.Stacks(), l.stacks},
		{"store", "frames", h.Frames(), l.frames},
		{"main", "annotations", len(h.Annotations), l.annotations},
		{"main", "settings", len(h.Settings), l.settings},
	} {
		if err := fillTable(ctx, c, t.schema, t.name, t.rows, t.columns); err != nil {
			return err
		}
	}
	if err := l.stackFrames(ctx, c); err != nil {
		return err
	}
	if err := l.iterations(ctx, c); err != nil {
		return err
	}
	about := [][2]string{{"version", itoa(SnapshotVersion)}}
	if h.Cut != nil {
		about = append(about, [2]string{"cut", h.Cut.Error()})
	}
	return fillTable(ctx, c, "store", "about", len(about), func(s *sheet, from int) {
		s.texts(func(i int) string { return about[from+i][0] })
		s.texts(func(i int) string { return about[from+i][1] })
	})
}

// lives fills blocks.
func (l *snapshotLoad) lives(ctx context.Context, c *conn) error {
	s, err := newSheet(c, "main", "blocks")
	if err != nil {
		return err
	}
	defer s.close()
	for _, d := range l.h.Devices {
		lives, at, sizes := l.h.Lives(d), &moment{d: d}, l.sizes(d)
		err := s.ranges(ctx, 0, lives.Left(), func(int) { l.blocks(s, at, lives.Next(s.n), sizes) })
		if err != nil {
			return err
		}
	}
	return s.finish()
}

// blockUnit is the unit in bytes to which PyTorch rounds requests up: see package anatomy.
const blockUnit = 512

// sizes returns the sizes in bytes of a device's blocks at the end of the history, by address.
func (l *snapshotLoad) sizes(d *anatomy.Device) map[uint64]int64 {
	sizes := map[uint64]int64{}
	for _, g := range d.Segments {
		for _, b := range l.h.Blocks[l.h.Segments[g].From:l.h.Segments[g].To] {
			if b.State != snapshot.Inactive {
				sizes[b.Address] = b.Size
			}
		}
	}
	return sizes
}
