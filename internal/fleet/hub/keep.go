package hub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/frame"
)

const (
	// spare is left free of the hub's disk, in bytes: a full one stops JetStream, and the lake needs room for a flush.
	spare    = 64 << 20
	roomTime = 5 * time.Second // between looks at the disk; nodes send some MB in it
	keepWait = 2 * time.Second // between attempts to keep what could not be kept
	lastTime = 10 * time.Second
)

// consume hands frames to the keeper until ctx ends.
func (h *Hub) consume(ctx context.Context) {
	for ctx.Err() == nil {
		if err := h.conn.Consume(ctx, h.o.Gather, h.take); err != nil && ctx.Err() == nil {
			h.o.Log.Error("read what nodes ship", "error", err)
			pause(ctx, keepWait)
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// watchRoom keeps the stream within the disk's free space, and has it work again after the disk was full.
func (h *Hub) watchRoom(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, roomTime)
		free, err := h.free()
		if err == nil && h.server != nil && free > spare/4 { // it would be stuck again
			err = h.server.Revive()
		}
		if err == nil && ctx.Err() == nil {
			err = h.makeRoom(ctx)
		}
		h.noteStream(err)
		if err != nil && ctx.Err() == nil {
			h.o.Log.Error("the stream of frames", "error", err)
		}
	}
}

// noteStream says in the status why frames are not taken.
func (h *Hub) noteStream(err error) {
	h.counts.Lock()
	defer h.counts.Unlock()
	h.counts.streamError = said(err)
}

// makeRoom bounds the stream: by what the user said, and by what the disk has. Frames beyond it are refused, and stay
// with their nodes.
func (h *Hub) makeRoom(ctx context.Context) error {
	free, err := h.free()
	if err != nil {
		return err
	}
	h.counts.Lock()
	before := h.counts.room
	h.counts.Unlock()
	held := int64(0)
	if before > 0 {
		w, err := h.conn.Waiting(ctx)
		if err != nil {
			return err
		}
		held = int64(w.Bytes)
	}
	room, copies := max(1, min(h.o.MaxDisk, held+free-spare)), 1
	if h.server == nil { // the disks are not this machine's
		room, copies = h.o.MaxDisk, h.o.External.Replicas
	}
	near := before > 0 && room > before-spare/4 && room < before+spare/4
	if near && (room > held) == (before > held) {
		return nil // a change that matters to nobody
	}
	if err := h.conn.OpenStream(ctx, room, copies); err != nil {
		return err
	}
	h.counts.Lock()
	defer h.counts.Unlock()
	h.counts.room = room
	return nil
}

// free is what the hub's disk has, in bytes.
func (h *Hub) free() (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(h.o.Dir, &fs); err != nil {
		return 0, fmt.Errorf("look at the disk: %w", err)
	}
	return int64(fs.Bavail) * fs.Bsize, nil
}

// full says that the hub's own disk has no room for frames.
func (h *Hub) full() bool {
	free, err := h.free()
	return h.server != nil && err == nil && free < spare
}

// handBytes bounds what is handed to the keeper at once, in bytes of rows unpacked: 4 MiB of frames as nodes make them
// have some 80, and may have 64 times those.
const handBytes = 128 << 20

// take hands frames to the keeper, until it has them. What is no frame, or speaks of another node than the one that
// sent it, is counted and dropped: it would come again for ever. What is beyond a node's share comes later.
func (h *Hub) take(ctx context.Context, list []bus.Msg) error {
	var batches []frame.Batch
	flushed, bytes := map[string]map[string]bool{}, 0
	for i := range list {
		m := &list[i]
		b, ok := h.admit(m, flushed)
		if !ok {
			continue
		}
		batches, bytes = append(batches, b), bytes+frame.Unpacked(m.Data)
		if bytes < handBytes {
			continue
		}
		if err := h.hand(ctx, batches); err != nil {
			return err
		}
		batches, bytes = nil, 0
	}
	if len(batches) == 0 {
		return nil
	}
	return h.hand(ctx, batches)
}

// admit unpacks a frame that its node may send now.
func (h *Hub) admit(m *bus.Msg, flushed map[string]map[string]bool) (b frame.Batch, ok bool) {
	from, now := bus.NodeOf(m.Subject), time.Now()
	if bus.IsFormer(m.Subject) { // it was acknowledged by an older hub, so it stays
		m.Later = mostLater
		h.refuse("a frame that an older hub has left here", from, whyFormer, errors.New("that hub can read it"))
		return b, false
	}
	share := h.shares.of(from, now)
	unpacked := float64(frame.Unpacked(m.Data)) // as its first bytes claim
	m.Later = share.bytes.take(byteShare, float64(len(m.Data))+unpacked, now)
	if m.Later == 0 {
		if !h.owned(*m) {
			share.bytes.left += unpacked // it has cost what it is long: nothing of it was unpacked
			return b, false
		}
		if b, ok = h.unpack(*m); !ok {
			return b, false
		}
		if flushed[from] == nil {
			flushed[from] = map[string]bool{}
		}
		if m.Later = h.shares.parts(from, h.o.Keep.Parts(b), flushed[from], now); m.Later == 0 {
			m.Later = h.shares.lets(share, len(m.Data), now)
		}
		ok = m.Later == 0
	}
	if !ok {
		h.refuse("a frame for now", from, whyShare, fmt.Errorf("it comes again in %s", m.Later.Round(time.Second)))
	}
	return b, ok
}

// hand has the board and the keeper take batches, the latter however often it fails.
func (h *Hub) hand(ctx context.Context, batches []frame.Batch) error {
	h.judging.board.Take(batches, time.Now())
	for {
		// what is in hand when the hub ends is kept all the same
		one, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
		if ctx.Err() == nil {
			cancel()
			one, cancel = context.WithCancel(context.WithoutCancel(ctx))
		}
		err := h.o.Keep.AppendAll(one, batches)
		cancel()
		h.kept(batches, err)
		if err == nil {
			return nil
		}
		h.o.Log.Error("keep rows", "frames", len(batches), "error", err)
		if pause(ctx, keepWait); ctx.Err() != nil {
			return err
		}
	}
}

// owned says whether a frame begins as one of its node's.
func (h *Hub) owned(m bus.Msg) bool {
	from := bus.NodeOf(m.Subject)
	head, err := frame.Peek(m.Data)
	switch {
	case err != nil:
		h.refuse("a frame", from, whyCorrupt, err)
	case head.Node != from:
		h.refuse("a frame", from, whyForged, errors.New(head.Node))
	default:
		return true
	}
	return false
}

// unpack checks a frame whole, and gives its rows their table's columns.
func (h *Hub) unpack(m bus.Msg) (b frame.Batch, ok bool) {
	from := bus.NodeOf(m.Subject)
	b, err := frame.Decode(m.Data)
	if err != nil {
		h.refuse("a frame", from, whyCorrupt, err)
		return b, false
	}
	schema := b.Schema
	b, left, err := b.Fit()
	if err != nil {
		why := whyCorrupt
		switch {
		case errors.Is(err, frame.ErrForged):
			why = whyForged
		case errors.Is(err, frame.ErrTable):
			why = whyTable
		}
		h.refuse("a frame", from, why, err)
		return b, false
	}
	if left > 0 {
		h.refuse("columns of a frame", from, whyColumn, fmt.Errorf("%d of %s; the node's schema is %d", left, b.Table,
			schema))
	}
	b.Arrived = m.Time
	return b, true
}

// kept counts what the keeper has taken, or why it has not.
func (h *Hub) kept(batches []frame.Batch, err error) {
	h.counts.Lock()
	h.counts.keepError = said(err)
	if err == nil {
		rows := int64(0)
		for _, b := range batches {
			rows += int64(b.Count)
		}
		h.counts.frames += int64(len(batches))
		h.counts.rows += rows
		h.counts.recent.add(time.Now(), rows)
	}
	h.counts.Unlock()
	for _, b := range batches {
		if err == nil {
			h.roster.kept(b.Node, uint64(b.Count), time.Now())
		}
	}
}

// Tidied notes what the lake has.
func (h *Hub) Tidied(bytes int64, hours int, err error) {
	if err != nil {
		h.o.Log.Error("maintain the lake", "error", err)
	}
	h.counts.Lock()
	defer h.counts.Unlock()
	if h.counts.tidyError = said(err); err == nil {
		h.counts.lakeBytes, h.counts.lakeHours = bytes, hours
	}
}

func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// recent counts rows by minute, for a rate of the last few.
type recent struct {
	minute int64
	rows   [rateMinutes + 1]int64 // of this minute and those before it
}

const rateMinutes = 5

func (r *recent) add(now time.Time, rows int64) {
	r.turn(now)
	r.rows[0] += rows
}

// turn moves on to the minute that it is.
func (r *recent) turn(now time.Time) {
	minute := now.Unix() / 60
	for n := min(minute-r.minute, int64(len(r.rows))); n > 0; n-- {
		copy(r.rows[1:], r.rows[:rateMinutes])
		r.rows[0] = 0
	}
	r.minute = minute
}

// perSecond is the rate of the whole minutes before this one.
func (r *recent) perSecond(now, began time.Time) float64 {
	r.turn(now)
	sum := int64(0)
	for _, n := range r.rows {
		sum += n
	}
	span := min(now.Sub(began), rateMinutes*time.Minute+time.Duration(now.Unix()%60)*time.Second)
	if span <= 0 {
		return 0
	}
	return float64(sum) / span.Seconds()
}
