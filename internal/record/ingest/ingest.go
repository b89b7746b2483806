package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/probe/proc"
)

const (
	// A batch should hold a row group of DuckDB (122,880 rows): with one row less DuckDB writes it through the log,
	// which costs 1.6 times as much. So the last chunk must fit (15 full ones do), and it must not be split. Such a
	// batch takes some 20 MiB and 70 ms, during which queries wait.
	maxBatch = 122_880 + slack + maxChunk/8 - 1
	maxChunk = 1 << 13 // records copied at once: 512 KiB, little enough to stay in a core's cache
	slack    = 16      // rows that are not records: a ring's drops

	// aliveEvery is the interval of the checks whether a process still runs. A check costs 16 µs, 40 times as much as
	// polling its ring. A client that drains a finished session checks at once, since it has not checked before.
	aliveEvery = time.Second

	gathered = 1 << 14 // rows that Gather may keep waiting: 2 MiB. The memory of a larger batch is not reused
)

// Sink stores batches.
type Sink interface {
	// Append stores all of a batch or nothing of it.
	Append(ctx context.Context, b *model.Batch) error
	// Cursors are the newest that were appended, by ring.
	Cursors(ctx context.Context) (map[uint64]model.Cursor, error)
	// Names are all that were appended.
	Names(ctx context.Context) ([]model.Name, error)
}

// Options may be left empty.
type Options struct {
	// Alive tells whether the process with this PID and start (clock ticks) still runs; proc.Alive on this machine if
	// nil.
	Alive func(pid int, start uint64) bool
	Now   func() time.Time // time.Now if nil
	// Seen receives steps and events as soon as they are read, which may be long before they are stored. What could not
	// be stored is read, and told, again. May be nil.
	Seen func(steps []model.Step, events []model.Event)
	// Rests reports whether Gather may keep all rows waiting, up to its bound, also those that it stores at once else.
	// May be nil.
	Rests func() bool
}

// Stats count what a drain did.
type Stats struct {
	Rings       int    // known, without removed ones
	Records     uint64 // read and whole
	Rows        int    // appended, Drop rows included
	Overwritten uint64 // records that were overwritten before they were read
	Damaged     uint64 // slots that don't hold the record that belongs there
	Unknown     uint64 // records of kinds that newer agents write
	Refused     int    // rings that are not read: damaged, of a newer version, or of another user
	Removed     int    // files of ended processes that were stored, or were empty
}

// told counts rows of a batch.
type told struct{ steps, events int }

// Ingester reads one session's rings. Its methods may be called from several goroutines; one works, the others wait.
type Ingester struct {
	dir   string
	sink  Sink
	opts  Options
	token chan struct{} // holds one; whoever has taken it works with all that is below

	loaded  bool
	cursors map[uint64]model.Cursor
	names   names
	listed  listing
	rings   []*ring // by process, then generation
	procs   map[procKey]*process
	done    []*ring // to be removed after the next append
	batch   model.Batch
	since   time.Time // of the oldest in batch; zero while it is empty
	told    told      // of batch: what Options.Seen has received
	buf     []byte
	stats   Stats
}

// New reads rings below dir into sink. It opens nothing before the first Drain.
func New(dir string, sink Sink, opts Options) *Ingester {
	if opts.Alive == nil {
		opts.Alive = proc.New("/proc").Alive
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	in := &Ingester{dir: dir, sink: sink, opts: opts, token: make(chan struct{}, 1),
		buf: make([]byte, maxChunk*wire.SlotSize)}
	in.token <- struct{}{}
	return in
}

// Drain stores all records that were published when it was called. Without new records it costs a short read for each
// ring. A ring that can't be read just now doesn't stop the others; its error is returned at the end.
func (in *Ingester) Drain(ctx context.Context) (Stats, error) { return in.run(ctx, false, 0) }

// Gather reads like Drain, but may store steps and trace rows up to hold later, because a transaction costs 100 times
// as much as reading them. The rings keep them until then. Rows about processes, events and losses are stored at once.
func (in *Ingester) Gather(ctx context.Context, hold time.Duration) (Stats, error) {
	return in.run(ctx, false, hold)
}

// Finish is Drain for a session that has just ended. It checks each process anew, where Drain may rely on a check that
// is a second old. So the rings of all ended processes are finished.
func (in *Ingester) Finish(ctx context.Context) (Stats, error) { return in.run(ctx, true, 0) }

// Refused returns the files of rings that were given up: they are not read any more.
func (in *Ingester) Refused() (files []string) {
	<-in.token
	defer func() { in.token <- struct{}{} }()
	for _, r := range in.rings {
		if r.refused {
			files = append(files, r.file)
		}
	}
	return files
}

// Close closes the rings' files. A later Drain would open them again.
func (in *Ingester) Close() error {
	<-in.token
	defer func() { in.token <- struct{}{} }()
	in.forget()
	return nil
}

func (in *Ingester) run(ctx context.Context, ask bool, hold time.Duration) (Stats, error) {
	select {
	case <-in.token:
	case <-ctx.Done():
		return Stats{}, ctx.Err()
	}
	defer func() { in.token <- struct{}{} }()
	in.stats = Stats{}
	err := in.drain(ctx, ask, hold)
	return in.stats, err
}

func (in *Ingester) drain(ctx context.Context, ask bool, hold time.Duration) error {
	if err := in.load(ctx); err != nil {
		return err
	}
	now := in.opts.Now()
	if err := in.list(now); err != nil {
		return err
	}
	var errs []error
	for _, r := range in.rings {
		if err := ctx.Err(); err != nil {
			return err // what the batch holds goes with the next drain
		}
		in.askAlive(r.proc, now, ask)
		if err := in.drainRing(ctx, r); err != nil {
			if !in.loaded { // the sink failed, so the state was discarded
				return err
			}
			errs = append(errs, err)
		}
	}
	in.tell()
	if !in.waits(now, hold) {
		if err := in.flush(ctx); err != nil {
			return err
		}
		in.removeDone()
	}
	in.count()
	return errors.Join(errs...)
}

// load reads cursors and names from the sink, once.
func (in *Ingester) load(ctx context.Context) (err error) {
	if in.loaded {
		return nil
	}
	if in.cursors, err = in.sink.Cursors(ctx); err != nil {
		return fmt.Errorf("read the rings' cursors: %w", err)
	}
	list, err := in.sink.Names(ctx)
	if err != nil {
		return fmt.Errorf("read the session's names: %w", err)
	}
	in.names = newNames(list)
	in.procs = map[procKey]*process{}
	in.loaded = true
	return nil
}

// forget resets the Ingester to its state after New. After a failed append our state is ahead of what is stored. The
// same happens after a crash, so this path is well tested.
func (in *Ingester) forget() {
	for _, r := range in.rings {
		r.close()
	}
	in.loaded, in.rings, in.done, in.procs, in.listed = false, nil, nil, nil, listing{}
	in.batch.Reset()
	in.told = told{}
	in.since = time.Time{}
}

// tell passes on what was read since the last call.
func (in *Ingester) tell() {
	b := &in.batch
	if in.opts.Seen != nil && (len(b.Steps) > in.told.steps || len(b.Events) > in.told.events) {
		in.opts.Seen(b.Steps[in.told.steps:], b.Events[in.told.events:])
	}
	in.told.steps, in.told.events = len(b.Steps), len(b.Events)
}

// waits reports whether the batch may be stored later.
func (in *Ingester) waits(now time.Time, hold time.Duration) bool {
	b := &in.batch
	if in.since.IsZero() {
		in.since = now
	}
	if hold > 0 && in.opts.Rests != nil && in.opts.Rests() && b.Rows() < gathered {
		return true
	}
	plain := len(b.Trace) + len(b.Steps) + len(b.Devices) + len(b.Overheads)
	return hold > 0 && now.Sub(in.since) < hold && b.Rows() == plain && plain < gathered &&
		len(b.Processes)+len(in.done) == 0
}

// flush appends the batch. ctx doesn't cancel it: a batch is small, and after a failed append all state would have to
// be restored, only because a query had run into its time limit.
func (in *Ingester) flush(ctx context.Context) error {
	in.tell()
	b := &in.batch
	in.since, in.told = time.Time{}, told{}
	if b.Rows()+len(b.Names)+len(b.Processes)+len(b.Cursors) == 0 {
		return nil
	}
	if err := in.sink.Append(context.WithoutCancel(ctx), b); err != nil {
		in.forget()
		return fmt.Errorf("store %d rows: %w", b.Rows(), err)
	}
	in.stats.Rows += b.Rows()
	if b.Rows() > gathered {
		*b = model.Batch{}
	}
	b.Reset()
	return nil
}

// setCursor puts a ring's position into the batch.
func (in *Ingester) setCursor(c model.Cursor) {
	for i := range in.batch.Cursors {
		if in.batch.Cursors[i].RingID == c.RingID {
			in.batch.Cursors[i] = c
			return
		}
	}
	in.batch.Cursors = append(in.batch.Cursors, c)
}

func (in *Ingester) count() {
	for _, r := range in.rings {
		if r.refused {
			in.stats.Refused++
		}
	}
	in.stats.Rings = len(in.rings)
}
