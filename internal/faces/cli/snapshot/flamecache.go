package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/faces/snapshotdb"
	"github.com/memgauge/memgauge/internal/formats/flame"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/internal/judge/anatomy"
)

// This file draws the live blocks of a moment from the tables that an earlier command has left in the cache, so that a
// large snapshot need not be read again.

// cachedFlame adds the live blocks to a graph if the cache has the file's tables; else done is false.
func cachedFlame(ctx context.Context, o flameOptions, g *flame.Graph, path string, before bool) (done bool, err error) {
	t, ok := (*snapshotdb.Tables)(nil), false
	if o.by != bySegment { // the tables have segments, too, but reading them takes more code than it saves time
		t, ok = snapshotdb.Cached(ctx, path)
	}
	if !ok {
		return false, nil
	}
	defer t.Close()
	device, err := cachedDevice(ctx, t, o.device)
	if errors.Is(err, anatomy.ErrNoDevice) {
		return false, nil // there may be segments, of which the cache does not tell moments
	}
	if err != nil {
		return true, remedy.Add(err, "--device N chooses one")
	}
	seq, err := cachedMoment(ctx, t, device, o.at)
	if err != nil {
		return true, fmt.Errorf("--at: %w", err)
	}
	if seq < 0 {
		return false, nil // before the first event, after which the tables tell nothing
	}
	return true, addCached(ctx, t, g, seq, before)
}

// integers returns the rows of a query whose columns are all integers; NULL becomes 0.
func integers(ctx context.Context, t *snapshotdb.Tables, sql string) (out [][]int64, err error) {
	err = t.Rows(ctx, sql, func(v []any) {
		row := make([]int64, len(v))
		for i, x := range v {
			row[i], _ = x.(int64)
		}
		out = append(out, row)
	})
	return out, err
}

// cachedDevice is History.Device, read from the tables.
func cachedDevice(ctx context.Context, t *snapshotdb.Tables, number int) (int64, error) {
	rows, err := integers(ctx, t, "SELECT DISTINCT device::BIGINT AS device FROM events ORDER BY device")
	if err != nil {
		return 0, err
	}
	var with []int
	for _, r := range rows {
		with = append(with, int(r[0]))
	}
	number, err = anatomy.ChooseDevice(with, number)
	return int64(number), err
}

// peakSQL is the event after which most was live; -1 where more was live before the first.
const peakSQL = "WITH e AS (SELECT seq, live_after, live_after + CASE action WHEN 'alloc' THEN -size " +
	"WHEN 'free_completed' THEN size ELSE 0 END AS live_before FROM events WHERE device = %d), " +
	"most AS (SELECT max(live_after) AS after, arg_min(live_before, seq) AS began FROM e) " +
	"SELECT CASE WHEN after > began THEN (SELECT min(seq) FROM e WHERE live_after = after)::BIGINT ELSE -1 END " +
	"FROM most"

// cachedMoment is History.Moment, read from the tables; -1 is a moment before the first event.
func cachedMoment(ctx context.Context, t *snapshotdb.Tables, device int64, text string) (int64, error) {
	where := fmt.Sprintf(" FROM events WHERE device = %d", device)
	bounds, err := integers(ctx, t, "SELECT min(seq)::BIGINT, max(seq)::BIGINT, epoch_us(arg_min(ts, seq)), "+
		"epoch_us(arg_max(ts, seq))"+where)
	if err != nil {
		return 0, err
	}
	first, last, began, ended := bounds[0][0], bounds[0][1], bounds[0][2], bounds[0][3]
	switch text {
	case "peak":
		return one(integers(ctx, t, fmt.Sprintf(peakSQL, device)))
	case "end":
		return last, nil
	}
	if seq, err := strconv.ParseInt(text, 10, 64); err == nil {
		if seq < first || seq > last {
			return 0, anatomy.NoSuchEvent(seq, device, first, last)
		}
		return seq, nil
	}
	limit, err := anatomy.TimeOf(text, device, began, ended)
	if err != nil {
		return 0, err
	}
	sql := fmt.Sprintf("SELECT coalesce(min(seq) - 1, %d)::BIGINT"+where+" AND coalesce(epoch_us(ts), 0) > %d", last,
		limit)
	seq, err := one(integers(ctx, t, sql))
	return max(seq, first), err
}

func one(rows [][]int64, err error) (int64, error) {
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	return rows[0][0], nil
}

// addCached is History.Flame, read from the tables.
func addCached(ctx context.Context, t *snapshotdb.Tables, g *flame.Graph, seq int64, before bool) error {
	live := fmt.Sprintf("(SELECT stack_id, sum(requested) AS bytes, count(*) AS blocks FROM live_at(%d) GROUP BY ALL)",
		seq)
	sql := "SELECT stack_id::BIGINT, bytes::BIGINT, blocks, func, file, lineno::BIGINT FROM " + live +
		" LEFT JOIN frames USING (stack_id) ORDER BY bytes DESC, stack_id, depth"
	var stack []snapshot.Frame
	var id, bytes, blocks int64
	add := func() {
		if blocks > 0 {
			g.AddBlocks(anatomy.Told(stack), bytes, int(blocks), before)
		}
	}
	err := t.Rows(ctx, sql, func(v []any) {
		if next, _ := v[0].(int64); blocks == 0 || next != id {
			add()
			id, stack = next, stack[:0]
		}
		bytes, _ = v[1].(int64)
		blocks, _ = v[2].(int64)
		name, known := v[3].(string)
		if !known { // a stack without frames
			return
		}
		file, _ := v[4].(string)
		line, _ := v[5].(int64)
		stack = append(stack, snapshot.Frame{File: file, Line: int(line), Name: name})
	})
	if err == nil {
		add()
	}
	return err
}
