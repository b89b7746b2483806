package store

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/formats/table"
)

// Report counts what maintenance removed.
type Report struct {
	Before, After          int64 // bytes of the database that are in use
	Thinned, Merged, Freed int64 // rows of torch_trace, of steps, and of any table dropped for good
}

const (
	highWater = 0.78 // of MaxDisk in use: begin. The rest is room for the log and for rewriting row groups
	lowWater  = 0.65 // until so much is in use
	slicePart = 8    // one slice is the oldest eighth of what was not treated: little to rewrite at once
	maxSlices = 64   // after so many eighths, 0.02 % is left
	mergeBy   = 16   // steps that become one row

)

// Levels of detail that can be given up, in this order.
const (
	levelThin = iota + 1
	levelMerge
	levelDrop
)

// Maintain keeps the file under MaxDisk. Of the oldest steps it first thins torch_trace down to three rows a step and
// device: the highest and the lowest allocated, and the last; of the samples one in ten seconds stays. Then it merges
// each 16 steps of a process into a row of python.steps with the floors and peaks of all. Only then it drops what is
// oldest. Every row that goes is counted in memgauge.drops. Far from the limit it costs a look at the file's size.
func (db *DB) Maintain(ctx context.Context) (Report, error) {
	db.writing.Lock()
	defer db.writing.Unlock()
	var rep Report
	if db.o.MaxDisk <= 0 || db.o.ReadOnly {
		return rep, nil
	}
	size, err := db.diskLocked()
	if err != nil || float64(size) < highWater*float64(db.o.MaxDisk) {
		return Report{Before: size, After: size}, db.about("maintain", err)
	}
	err = db.shrinkLocked(ctx, &rep)
	return rep, db.about("maintain", err)
}

// diskLocked returns the database's size on disk in bytes: file and log.
func (db *DB) diskLocked() (int64, error) {
	st, err := os.Stat(db.o.Path)
	if err != nil {
		return 0, err
	}
	size := st.Size()
	if wal, err := os.Stat(db.o.Path + ".wal"); err == nil {
		size += wal.Size()
	}
	return size, nil
}

// shrinkLocked removes detail, slice by slice, until at most lowWater is in use or no detail is left to remove.
func (db *DB) shrinkLocked(ctx context.Context, rep *Report) error {
	used, err := db.usedLocked(ctx)
	if err != nil {
		return err
	}
	rep.Before, rep.After = used, used
	if float64(used) < highWater*float64(db.o.MaxDisk) {
		return nil // the file has room inside
	}
	db.callOffLocked(pinsDisk) // rows that an open query sees can't be freed
	for level := levelThin; level <= levelDrop; level++ {
		for _, t := range table.All {
			if !loses(t, level) {
				continue
			}
			if err := db.drainLevelLocked(ctx, level, t, rep); err != nil {
				return err
			}
		}
	}
	return nil
}

// drainLevelLocked removes detail from slices of one table at one level until enough is free or no slice is left.
func (db *DB) drainLevelLocked(ctx context.Context, level int, t *table.Table, rep *Report) error {
	for range maxSlices {
		if float64(rep.After) <= lowWater*float64(db.o.MaxDisk) {
			return nil
		}
		n, more, err := db.giveUpLocked(ctx, level, t)
		if err != nil || !more {
			return err
		}
		rep.count(level, n)
		if rep.After, err = db.usedLocked(ctx); err != nil {
			return err
		}
	}
	return nil
}

// loses reports whether a table loses rows at a level.
func loses(t *table.Table, level int) bool {
	switch level {
	case levelThin:
		return t.Thin != nil
	case levelMerge:
		return t.Merge != ""
	}
	return !t.Kept
}

func (rep *Report) count(level int, n int64) {
	switch level {
	case levelThin:
		rep.Thinned += n
	case levelMerge:
		rep.Merged += n
	default:
		rep.Freed += n
	}
}

// usedLocked returns the bytes in use after a checkpoint. Only a checkpoint frees the blocks of removed rows.
func (db *DB) usedLocked(ctx context.Context) (used int64, err error) {
	err = db.withConn(ctx, func(c *conn) error {
		if err := c.exec("CHECKPOINT"); err != nil {
			return err
		}
		v, err := c.one(`SELECT (used_blocks * block_size)::BIGINT FROM pragma_database_size()
			WHERE database_name = current_database()`)
		if err == nil {
			used = v[0].(int64)
		}
		return err
	})
	return used, err
}

// giveUpLocked removes detail from a table's oldest slice that still has it at this level. The removal and its count in
// memgauge.drops are one transaction. It returns the number of removed rows, and whether there was such a slice.
func (db *DB) giveUpLocked(ctx context.Context, level int, t *table.Table) (gone int64, more bool, err error) {
	err = db.withConn(ctx, func(c *conn) error {
		from, to, ok, err := slice(c, level, t.Store)
		if err != nil || !ok {
			return err
		}
		more = true
		if err := db.w.load(c); err != nil {
			return err
		}
		db.w.batch++
		if err := c.exec("BEGIN"); err != nil {
			return err
		}
		gone, err = giveUp(c, level, t, from, to, db.w.batch)
		if err == nil {
			err = c.exec("COMMIT")
		}
		if err != nil {
			gone = 0
			_ = c.exec("ROLLBACK")
		}
		return err
	})
	return gone, more, err
}

// slice returns the interval of time to thin next: the oldest eighth of the rows that have all their detail, never the
// newest ones.
func slice(c *conn, level int, table string) (from, to int64, ok bool, err error) {
	from = 0
	err = c.all(fmt.Sprintf("SELECT epoch_us(done_until) FROM store.retention WHERE name = '%s' AND level = %d", table,
		level),
		func(v []any) { from = v[0].(int64) })
	if err != nil {
		return
	}
	// The rows lie nearly in the order of time, so an eighth of them is an eighth of the row groups.
	sql := fmt.Sprintf(`SELECT epoch_us(approx_quantile(ts, %g)), epoch_us(max(ts)) FROM store.%s
		WHERE ts >= make_timestamp(%d)`, 1.0/slicePart, table, from)
	v, err := c.one(sql)
	if err != nil || v[0] == nil {
		return from, to, false, err
	}
	to = v[0].(int64)
	return from, to, to > from && to < v[1].(int64), nil
}

// giveUp removes rows with from <= ts < to and counts them in memgauge.drops.
func giveUp(c *conn, level int, t *table.Table, from, to, batch int64) (int64, error) {
	where := fmt.Sprintf("ts >= make_timestamp(%d) AND ts < make_timestamp(%d)", from, to)
	before, err := count(c, t.Store, where)
	if err != nil {
		return 0, err
	}
	if err := c.exec(removal(level, t, where)); err != nil {
		return 0, err
	}
	after, err := count(c, t.Store, where)
	if err != nil {
		return 0, err
	}
	return before - after, c.exec(fmt.Sprintf(`
		INSERT INTO store.drops (ts, source, reason, records, detail, batch)
			SELECT make_timestamp(%[1]d), '%[2]s', '%[3]s', %[4]d, '%[5]s', %[9]d WHERE %[4]d > 0;
		DELETE FROM store.retention WHERE name = '%[6]s' AND level = %[7]d;
		INSERT INTO store.retention VALUES ('%[6]s', %[7]d, make_timestamp(%[8]d))`,
		time.Now().UnixMicro(), t.View, reasons[level], before-after, detail(from, to), t.Store, level, to, batch))
}

var reasons = map[int]string{levelThin: "thinned", levelMerge: "merged", levelDrop: "disk limit"}

func detail(from, to int64) string {
	text := "before " + time.UnixMicro(to).UTC().Format(time.RFC3339Nano)
	if from > 0 {
		text = "from " + time.UnixMicro(from).UTC().Format(time.RFC3339Nano) + " " + text
	}
	return text
}

func count(c *conn, table, where string) (int64, error) {
	v, err := c.one("SELECT count(*) FROM store." + table + " WHERE " + where)
	if err != nil {
		return 0, err
	}
	return v[0].(int64), nil
}

// removal returns the SQL statement that removes detail at a level.
func removal(level int, t *table.Table, where string) string {
	switch level {
	case levelThin:
		return thin(t, where)
	case levelMerge:
		return merge(t, where)
	}
	return "DELETE FROM store." + t.Store + " WHERE " + where
}

// thin keeps only the rows that the table's description selects in each group (a step, some seconds). If a slice ends
// within a group, both parts keep their rows: that is more than needed, never fewer.
func thin(t *table.Table, where string) string {
	by := t.Thin.By
	if t.Thin.Seconds > 0 {
		by += ", time_bucket(INTERVAL " + itoa(int64(t.Thin.Seconds)) + " SECOND, ts)"
	}
	return fmt.Sprintf(`DELETE FROM store.%[1]s WHERE %[2]s AND rowid NOT IN (
		SELECT unnest([%[3]s]) FROM store.%[1]s WHERE %[2]s GROUP BY %[4]s)`,
		t.Store, where, strings.Join(t.Thin.Keep, ", "), by)
}

// merge replaces each 16 neighbouring rows of a group (a process and device) by one.
func merge(t *table.Table, where string) string {
	var values []string
	for _, c := range t.Columns {
		switch {
		case c.Merge != "":
			values = append(values, fmt.Sprintf("%s(%s)::%s AS %[2]s", c.Merge, c.Stored, c.StoredType))
		case c.Stored != "":
			values = append(values, c.Stored)
		}
	}
	return fmt.Sprintf(`CREATE TEMP TABLE merged AS SELECT %[1]s FROM (
			SELECT *, row_number() OVER (PARTITION BY %[2]s ORDER BY step) - 1 AS place FROM store.%[3]s WHERE %[4]s)
			GROUP BY %[2]s, place // %[5]d ORDER BY max(ts);
		DELETE FROM store.%[3]s WHERE %[4]s;
		INSERT INTO store.%[3]s BY NAME SELECT * FROM merged;
		DROP TABLE merged`, strings.Join(values, ", "), t.Merge, t.Store, where, mergeBy)
}
