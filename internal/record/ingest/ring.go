package ingest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"syscall"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/wire"
)

// ring is one file of the directory and our position in it.
type ring struct {
	file    string
	name    fileName
	badName bool
	proc    *process

	*wire.Ring // nil until it is open
	f          *os.File
	next       uint64 // number of the record to read next
	lastTS     uint64 // of the newest record read, 0 if none
	ids        []int32
	noNames    bool // the names area is damaged: names read up to there stay, others are "?"
	rows       rowBuilder
	lost       losses

	refused  bool // damaged, of a newer version, of another user: not read any more
	finished bool // its end is in a batch, or there is nothing to store
}

// errRefused marks a ring that is not read any further, and why.
type errRefused struct {
	reason string
	err    error
}

func (e errRefused) Error() string { return e.err.Error() }

func (r *ring) close() {
	if r.f != nil {
		r.f.Close()
	}
	r.f, r.Ring = nil, nil
}

// drainRing reads the new records of one ring into the batch.
func (in *Ingester) drainRing(ctx context.Context, r *ring) error {
	if r.refused || r.finished {
		in.endRefused(r)
		return nil
	}
	if err := in.read(ctx, r); err != nil {
		return in.readFailed(r, err)
	}
	return nil
}

func (in *Ingester) readFailed(r *ring, err error) error {
	var refused errRefused
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case errors.As(err, &refused):
		in.refuse(r, refused)
		return nil
	case errors.Is(err, wire.ErrCorrupt):
		in.refuse(r, errRefused{reasonDamagedRing, err})
		return nil
	}
	return fmt.Errorf("read %s: %w", r.file, err)
}

// read reads a ring up to its head. It checks first whether the process has ended: only then is the head that it reads
// afterwards final.
func (in *Ingester) read(ctx context.Context, r *ring) error {
	if r.Ring == nil {
		if err := in.open(r); err != nil || r.finished || r.Ring == nil {
			return err
		}
	}
	for {
		last := r.over()
		changed, err := r.Poll()
		if err != nil {
			return err
		}
		if changed {
			in.describe(r)
		}
		if err := in.readRecords(ctx, r); err != nil {
			return err
		}
		if last {
			in.finish(r)
			return nil
		}
		if !r.over() {
			return nil
		}
	}
}

// over reports whether the ring's process will write no more into it. A process that has closed its newest ring is
// about to end. We wait for that end, since until then it may open another ring.
func (r *ring) over() bool {
	switch {
	case r.proc.gone, r.State == wire.StateDetached:
		return true
	case r.State == wire.StateClosed:
		return r.name.generation < r.proc.newest
	}
	return false
}

// finish records in the batch that the ring is stored to its end.
func (in *Ingester) finish(r *ring) {
	if r.NamesDropped > 0 {
		in.drop(r, model.Drop{Reason: reasonNames, Records: int64(min(r.NamesDropped, 1<<62)),
			Detail: "names without room"})
	}
	in.end(r)
	in.setCursor(model.Cursor{RingID: r.RingID, File: r.file, Seq: r.next - 1, Done: true})
	in.remove(r)
}

// remove has the file removed after the next append.
func (in *Ingester) remove(r *ring) {
	r.finished = true
	in.done = append(in.done, r)
}

// open opens the file and restores the state in which the last Ingester stopped. A ring that is still being made, or
// that is stored to its end, stays closed.
func (in *Ingester) open(r *ring) error {
	if in.cursors[fileKey(r.file)].Done {
		r.refused = true // an earlier Ingester reported it
		return nil
	}
	if r.badName {
		return errRefused{reasonDamagedRing, fmt.Errorf("the name is not PID.START.GENERATION%s", suffix)}
	}
	f, size, err := in.openFile(r)
	if errors.Is(err, os.ErrNotExist) && r.proc.gone { // a ring in memory, gone with its process before it was opened
		in.report(r, r.file, errRefused{reasonDamagedRing, err})
		in.remove(r)
		return nil
	}
	if err != nil {
		return err
	}
	g, err := wire.OpenRing(f, size)
	if err == nil && (uint64(g.PID) != uint64(r.name.pid) || g.StartTicks != r.name.start) {
		err = fmt.Errorf("%w: byte %d: written by process %d started at %d", wire.ErrCorrupt, wire.OffPID, g.PID,
			g.StartTicks)
	}
	switch {
	case errors.Is(err, wire.ErrCreating):
		f.Close()
		if r.proc.gone {
			in.remove(r) // its process ended before it wrote a record
		}
		return nil
	case errors.Is(err, wire.ErrVersion):
		f.Close()
		return errRefused{reasonVersion, err}
	case err != nil:
		f.Close()
		return err
	}
	r.Ring, r.f, r.next = g, f, 1
	return in.resume(r)
}

// resume continues at the ring's stored cursor.
func (in *Ingester) resume(r *ring) error {
	r.rows.reset(in, r)
	c, ok := in.cursors[r.RingID]
	if ok && c.Done {
		in.remove(r) // stored, but the last Ingester died before it removed the file
		return nil
	}
	if c.Seq > r.Head {
		return fmt.Errorf("%w: byte %d: head is %d, but record %d was read", wire.ErrCorrupt, wire.OffHead, r.Head,
			c.Seq)
	}
	in.readNames(r)
	for r.next <= c.Seq {
		room := min(c.Seq-r.next+1, maxChunk)
		chunk, err := r.Read(in.buf[:room*wire.SlotSize], r.next)
		if err != nil {
			return err
		}
		r.rows.replay(&chunk)
		r.next = chunk.Next()
	}
	r.next = c.Seq + 1 // a gap beyond it is counted by the next Read
	in.describe(r)
	return nil
}

// openFile opens a ring's file. It refuses links, pipes and files of other users.
func (in *Ingester) openFile(r *ring) (*os.File, int64, error) {
	path := filepath.Join(in.dir, r.file)
	f, err := wire.OpenRingFile(path)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, os.ErrPermission) {
		return nil, 0, errRefused{reasonForeign, err}
	} else if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errRefused{reasonForeign, fmt.Errorf("%s is not a file", r.file)}
	}
	if err == nil {
		if uid := st.Sys().(*syscall.Stat_t).Uid; int(uid) != os.Geteuid() {
			err = errRefused{reasonForeign, fmt.Errorf("%s belongs to user %d, not %d", r.file, uid, os.Geteuid())}
		}
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, st.Size(), nil
}

// readRecords turns the records up to the head into rows.
func (in *Ingester) readRecords(ctx context.Context, r *ring) error {
	if r.next <= r.Head {
		in.readNames(r)
	}
	for r.next <= r.Head {
		if err := ctx.Err(); err != nil {
			return err
		}
		room := min(maxBatch-slack-in.batch.Rows(), maxChunk)
		if room < maxChunk/8 { // small pieces would cost more than they fill
			if err := in.flush(ctx); err != nil {
				return err
			}
			continue
		}
		chunk, err := r.Read(in.buf[:room*wire.SlotSize], r.next)
		if err != nil {
			return err
		}
		r.lost.add(r, &chunk)
		r.rows.emit(&chunk)
		r.next = chunk.Next()
		in.stats.Records += uint64(chunk.Len()) - chunk.Damaged
		in.putLosses(r)
		in.setCursor(model.Cursor{RingID: r.RingID, File: r.file, Seq: r.next - 1})
	}
	return nil
}

// readNames reads new names. If the names area is damaged, names are lost but no records.
func (in *Ingester) readNames(r *ring) {
	if r.noNames {
		return
	}
	if err := r.ReadNames(); err != nil {
		r.noNames = true
		in.report(r, r.file+" names", errRefused{reasonDamagedNames, err})
	}
}

// refuse stops reading a ring. Its rows so far stay. A cursor with the key of the file's name records that the reason
// was reported.
func (in *Ingester) refuse(r *ring, why errRefused) {
	r.refused = true
	in.report(r, r.file, why)
	r.close()
}

// report makes one row for a damage. key identifies it, so that later Ingesters don't report it again.
func (in *Ingester) report(r *ring, key string, why errRefused) {
	if in.cursors[fileKey(key)].Done {
		return
	}
	in.drop(r, model.Drop{Reason: why.reason, Detail: why.Error()})
	c := model.Cursor{RingID: fileKey(key), File: key, Done: true}
	in.cursors[c.RingID] = c
	in.setCursor(c)
}

// endRefused records the end of a process whose newest ring was refused after some of it had been read.
func (in *Ingester) endRefused(r *ring) {
	p := r.proc
	if !r.refused || !p.gone || p.ended || p.row.PID == 0 || r.name.generation < p.newest {
		return
	}
	p.row.End, p.row.Ended, p.ended = endVanished, max(p.row.Started, p.lived), true
	in.putProcess(p.row)
}

// fileKey returns the key of a cursor for a file without a ring id. It can't collide with ring ids in practice: those
// are random.
func fileKey(file string) uint64 {
	h := fnv.New64a()
	h.Write([]byte("file " + file))
	return h.Sum64()
}

// lastSeen returns the latest time at which the process wrote, in µs since the epoch.
func (r *ring) lastSeen() int64 {
	if r.lastTS == 0 {
		return micros(int64(r.ClockWall))
	}
	return micros(r.WallTime(r.lastTS))
}
