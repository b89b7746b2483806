package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
)

// An open query sees the database as it was when the query began. Meanwhile DuckDB can neither move its log into the
// file nor free removed rows. A query whose reader has stopped reading would block both for ever. So a query may stay
// open as long as there is room, and is cancelled when the database would exceed its limit.
//
// Queries share DuckDB's memory with the writer, and with what the session asks for itself. What an aggregate has
// gathered can't be moved to the disk: one that has gathered nearly all of the memory, and then goes on over rows
// without end, would leave none for storing records until rings are overwritten. So what finds no memory has queries
// cancelled too, and is tried again.

const (
	logSlack = 2               // the log may grow to so many times the size at which DuckDB does a checkpoint, …
	minAge   = 5 * time.Second // … and then queries of this age are cancelled
)

// ErrCalledOff is the error of a query that was cancelled: it kept the database from staying within its limit, or took
// the memory of what stores and judges.
var ErrCalledOff = errors.New("called off")

// pinned is why a query is called off: what the session could not do meanwhile.
type pinned string

const (
	pinsDisk   pinned = "stay within its bound of disk"
	pinsMemory pinned = "store or judge what it has, for want of memory"
)

// boundLogLocked cancels old queries if the log is too long. Otherwise it costs one stat of the log.
func (db *DB) boundLogLocked() {
	if log, err := os.Stat(db.o.Path + ".wal"); err != nil || log.Size() <= logSlack*db.o.walBytes() {
		return
	}
	if db.callOffLocked(pinsDisk) > 0 {
		_ = db.checkpointLocked(context.Background()) // where it fails, the next commit tries again
	}
}

// MakeRoom calls off old queries where err, of a query of the session's own, says that there was no memory.
func (db *DB) MakeRoom(err error) {
	if !errors.Is(err, ErrMemory) {
		return
	}
	db.writing.Lock()
	defer db.writing.Unlock()
	db.callOffLocked(pinsMemory)
}

// callOffLocked cancels the queries older than minAge and returns their number. The caller holds the writing lock, so
// the engine is not replaced meanwhile.
func (db *DB) callOffLocked(why pinned) (ended int) {
	for _, r := range db.open() {
		age := time.Since(r.began)
		if age < minAge {
			continue
		}
		r.yield(remedy.Add(&Error{Msg: fmt.Sprintf("called off after %s: the session could not %s meanwhile",
			age.Round(time.Second), why), Kind: ErrCalledOff},
			"ask for less at a time and read the answer as it comes, or ask when the session has ended"))
		ended++
	}
	return ended
}

// open lists the open queries.
func (db *DB) open() []*Rows {
	db.state.RLock()
	e := db.state.e
	db.state.RUnlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]*Rows, 0, len(e.mu.rows))
	for r := range e.mu.rows {
		list = append(list, r)
	}
	return list
}

// Oldest returns the age of the oldest open query; 0 if none is open.
func (db *DB) Oldest() (age time.Duration) {
	for _, r := range db.open() {
		age = max(age, time.Since(r.began))
	}
	return age
}
