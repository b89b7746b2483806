package lake

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/fleet/frame"
)

// FlushEvery is how long a sender should gather batches before AppendAll: each call makes a file of every table and
// hour that it has rows of, and many small files make questions slow (a hundred times at one every half minute of each
// node).
const FlushEvery = time.Minute

// Options say how a lake is kept.
type Options struct {
	Location string        // a directory, or s3://BUCKET/PREFIX
	Grace    time.Duration // an hour is merged so long after its end; 0: 10 minutes, which clocks may differ by
	Linger   time.Duration // replaced files stay so long for readers that have listed them; 0: 5 minutes
	MaxAge   time.Duration // older hours are given up; 0: none
	MaxBytes int64         // the oldest hours beyond it are given up; 0: none
	Memory   int64         // bytes for a merge, which spills beyond; 0: 256 MiB
}

// Writer puts rows into a lake. It may be used by several goroutines.
type Writer struct {
	o     Options
	place place
	id    string
	files atomic.Int64 // made by this process
	taken atomic.Int64 // rows stored by this process
	again atomic.Int64 // rows left out because they had come before
	mu    struct {
		sync.Mutex
		parts   map[hour]*part
		bytes   int64                      // of the ledgers of all parts, as ledger.costs has them
		formers map[string]map[string]bool // jobs that a table has partitions of their own of
	}
	lists lists
	notes notes
}

// part is a partition that rows have come for. Its lock is taken after the writer's is let go.
type part struct {
	sync.Mutex
	loaded     bool
	generation int
	rows       ledger
	// For who has the writer's lock.
	used  time.Time
	bytes int64 // that its ledger counts in the writer's
}

// New opens a lake for writing. A directory is locked: a lake has one writer.
func New(ctx context.Context, o Options) (*Writer, error) {
	if o.Grace <= 0 {
		o.Grace = 10 * time.Minute
	}
	if o.Linger <= 0 {
		o.Linger = 5 * time.Minute
	}
	if o.Memory <= 0 {
		o.Memory = int64(256 * units.MiB)
	}
	p, err := openPlace(ctx, o.Location, true)
	if err != nil {
		return nil, err
	}
	w := &Writer{o: o, place: p}
	w.lists.of = map[string]*day{}
	w.mu.parts, w.mu.formers = map[hour]*part{}, map[string]map[string]bool{}
	if w.id, err = w.named(ctx); errors.Is(err, unix.ENOSPC) {
		err = nil // it gets a name when it is opened with room
	}
	if err != nil {
		_ = p.close()
		return nil, fmt.Errorf("open the lake %s: %w", p.text(), err)
	}
	return w, nil
}

// ID names the lake for as long as it lasts: one that was lost and begins anew has another. It may be "".
func (w *Writer) ID() string { return w.id }

const (
	idName = ".id"
	maxID  = 64 // bytes: a random text of 26
)

// named reads the lake's name, or gives it one.
func (w *Writer) named(ctx context.Context) (string, error) {
	f, err := w.place.open(ctx, idName)
	if err == nil {
		defer f.Close()
		var text []byte
		if text, err = io.ReadAll(io.LimitReader(f, maxID)); err == nil {
			return strings.TrimSpace(string(text)), nil
		}
	}
	if !errors.Is(err, fs.ErrNotExist) && minio.ToErrorResponse(err).Code != "NoSuchKey" {
		return "", fmt.Errorf("read its name: %w", err)
	}
	id := rand.Text()
	if err := w.place.stage().MakeText(idName, []byte(id+"\n")); err != nil {
		return "", fmt.Errorf("give it a name: %w", err)
	}
	if err := w.place.put(ctx, idName, idName); err != nil {
		return "", fmt.Errorf("give it a name: %w", err)
	}
	return id, nil
}

// Counts are rows that this writer stored, and those that it left out because they had come before.
func (w *Writer) Counts() (stored, again int64) { return w.taken.Load(), w.again.Load() }

// Close lets go of the lake.
func (w *Writer) Close() error { return w.place.close() }

// Append is AppendAll of one batch.
func (w *Writer) Append(ctx context.Context, b frame.Batch) error {
	return w.AppendAll(ctx, []frame.Batch{b})
}

// AppendAll takes batches over: when it returns nil every row is durable, and each is there once, also those that came
// before. After an error some may be; the same batches are to be sent again.
func (w *Writer) AppendAll(ctx context.Context, batches []frame.Batch) error {
	byHour := map[hour][]piece{}
	for _, b := range batches {
		if err := spread(b, byHour); err != nil {
			return err
		}
	}
	if err := w.enlist(ctx, byHour); err != nil {
		return fmt.Errorf("append to the lake %s: %w", w.place.text(), err)
	}
	for h, pieces := range byHour {
		if err := w.store(ctx, h, pieces); err != nil {
			return fmt.Errorf("append to the lake %s: %w", w.place.text(), err)
		}
	}
	return nil
}

// part finds or makes the entry of a partition, locked and loaded.
func (w *Writer) part(ctx context.Context, h hour) (*part, error) {
	p := w.entry(h)
	for p.Lock(); !w.isPart(h, p); p.Lock() { // it was forgotten meanwhile
		p.Unlock()
		p = w.entry(h)
	}
	if p.loaded {
		return p, nil
	}
	err := w.load(ctx, h, p)
	w.unload(h, p)
	if err != nil {
		p.Unlock()
		return nil, err
	}
	return p, nil
}

// entry finds or makes that of a partition.
func (w *Writer) entry(h hour) *part {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.mu.parts[h]
	if p == nil {
		p = &part{}
		w.mu.parts[h] = p
	}
	p.used = time.Now()
	return p
}

func (w *Writer) isPart(h hour, p *part) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.parts[h] == p
}

// load learns from the files themselves which rows a partition has: after a crash nothing else knows. Files that are
// damaged, or none of ours, are set aside: they must keep no row from coming.
func (w *Writer) load(ctx context.Context, h hour, p *part) error {
	files, err := w.place.list(ctx, h.dir())
	if err != nil {
		return err
	}
	c := sortOut(files)[h]
	if c == nil {
		c = &content{}
	}
	m, err := w.marker(ctx, c)
	if errors.Is(err, errBad) { // its rows are there, and those that come again may double
		w.note("marker that can't be read: " + c.marker.name)
		err = nil
	}
	if err != nil {
		return err
	}
	for _, f := range c.raw {
		rows, err := w.rowsOf(ctx, f)
		if errors.Is(err, errBad) {
			err = w.setAside(ctx, f, err)
			rows = nil
		}
		if err != nil {
			return err
		}
		m.Rows.addAll(rows)
	}
	p.loaded, p.generation, p.rows = true, c.generation, m.Rows
	return nil
}

// rowsOf is rowsOf of an entry.
func (w *Writer) rowsOf(ctx context.Context, e entry) (ledger, error) {
	f, err := w.local(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", e.name, err)
	}
	defer f.Close()
	return rowsOf(e.name, f)
}

// store makes a file of the pieces' rows that the partition does not have yet, nor others that may.
func (w *Writer) store(ctx context.Context, h hour, pieces []piece) error {
	astray, err := w.elsewhere(ctx, h, pieces)
	if err != nil {
		return err
	}
	p, err := w.part(ctx, h)
	if err != nil {
		return err
	}
	defer p.Unlock()
	defer func() { w.unload(h, p) }() // before the lock is let go
	taken, spans := maps.Clone(p.rows), spansOf(p.rows)
	costs, all := p.rows.costs()
	var list []piece
	came, fresh, gaps := int64(0), int64(0), int64(0)
	for _, x := range pieces {
		came += int64(x.rows.Len())
		for _, s := range taken[x.stream].minus(x.span()) {
			for _, s := range astray[x.stream].minus(s) {
				next := taken[x.stream].add(s)
				grown := len(next) - len(taken[x.stream])
				n, node := int64(s[1]-s[0]+1), nodeOf(x.stream)
				cost := costOf(x.stream, next) - costOf(x.stream, taken[x.stream])
				if grown > 0 && (spans[node]+grown > maxSpans || costs[node]+cost > fewCosts && all+cost > maxCosts) {
					gaps, came = gaps+n, came-n
					continue
				}
				list, fresh = append(list, x.slice(s)), fresh+n
				taken[x.stream], spans[node] = next, spans[node]+grown
				costs[node], all = costs[node]+cost, all+cost
			}
		}
	}
	if len(list) > 0 {
		rows, err := w.file(ctx, h, p.generation, list)
		if err != nil {
			p.loaded = false // the file may be there all the same
			return err
		}
		p.rows.addAll(rows)
	}
	w.taken.Add(fresh)
	w.again.Add(came - fresh)
	w.refuse(whyGaps, gaps)
	return nil
}

// unload counts what the ledger of a part takes, which is locked, and forgets those of others that were used longest
// ago where all take too much: they are read from their files again when rows come for them.
func (w *Writer) unload(h hour, p *part) {
	_, bytes := p.rows.costs()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.parts[h] == p {
		w.mu.bytes, p.bytes = w.mu.bytes+bytes-p.bytes, bytes
	}
	if w.mu.bytes <= maxLedgers {
		return
	}
	others := slices.Collect(maps.Keys(w.mu.parts))
	order.By(others, func(a, b hour) int { return w.mu.parts[a].used.Compare(w.mu.parts[b].used) })
	for _, other := range others {
		if w.mu.bytes <= maxLedgers-maxLedgers/16 {
			return
		}
		if one := w.mu.parts[other]; one != p && one.bytes > 0 && one.TryLock() {
			w.drop(other, one)
			one.Unlock()
		}
	}
}

// drop forgets a part, for who has its lock and the writer's.
func (w *Writer) drop(h hour, p *part) {
	delete(w.mu.parts, h)
	w.mu.bytes -= p.bytes
	p.loaded, p.rows, p.bytes = false, nil, 0 // whoever waits for the lock with it in hand
}

// elsewhere is what other partitions have of the pieces' streams: that of strays, since a row that lay too far ahead of
// this machine's clock may come again when it no longer does; and those of one job that a memgauge before made, since
// what it did not acknowledge comes again.
func (w *Writer) elsewhere(ctx context.Context, h hour, pieces []piece) (ledger, error) {
	former, err := w.former(ctx, h.table)
	if err != nil {
		return nil, err
	}
	byJob := map[string][]piece{"": pieces}
	for _, x := range pieces {
		if former[x.job] {
			byJob[x.job] = append(byJob[x.job], x)
		}
	}
	out := ledger{}
	for job, pieces := range byJob {
		for _, begin := range []time.Time{h.begin, strays} {
			other := hour{h.table, job, begin}
			if other == h {
				continue
			}
			p, err := w.part(ctx, other)
			if err != nil {
				return nil, err
			}
			for _, x := range pieces {
				if have := p.rows[x.stream]; out[x.stream] == nil {
					out[x.stream] = have // a range is never changed, but replaced
				} else {
					out.addAll(ledger{x.stream: have})
				}
			}
			p.Unlock()
		}
	}
	return out, nil
}

// former are the jobs that a table has partitions of their own of. None comes to them.
func (w *Writer) former(ctx context.Context, table string) (map[string]bool, error) {
	w.mu.Lock()
	jobs := w.mu.formers[table]
	w.mu.Unlock()
	if jobs != nil {
		return jobs, nil
	}
	below, err := w.place.dirs(ctx, table)
	if err != nil {
		return nil, err
	}
	jobs = map[string]bool{}
	for _, name := range below {
		if job, ok := strings.CutPrefix(name, jobKey); ok {
			jobs[job] = true
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.formers[table] = jobs
	return jobs, nil
}

// file makes one file durable and returns what it holds. The rows of a job lie together.
func (w *Writer) file(ctx context.Context, h hour, generation int, pieces []piece) (ledger, error) {
	order.Stable(pieces, func(a, b piece) int {
		return cmp.Or(strings.Compare(a.job, b.job), strings.Compare(a.stream, b.stream))
	})
	rows := ledger{}
	for _, x := range pieces {
		rows.add(x.stream, x.span())
	}
	base := fmt.Sprintf("%d-%d-%d.parquet", time.Now().UnixNano(), os.Getpid(), w.files.Add(1))
	err := w.place.stage().Make(base, func(f *os.File) error { return writeParquet(f, pieces, rows) })
	if err == nil {
		err = w.place.put(ctx, h.dir()+tier(rawTier, generation)+base, base)
	}
	if err != nil {
		_ = w.place.stage().Remove(base) // a full disk needs the room
		return nil, err
	}
	return rows, nil
}

// Columns that a file has besides the table's. A merged one has no number of a row.
const (
	jobColumn     = "job"
	sessionColumn = "_session"
	rowColumn     = "_row"
)
