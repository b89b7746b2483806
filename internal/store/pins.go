package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/memgauge/memgauge/internal/remedy"
)

// An open question sees the database as it was when it began, and while it does, DuckDB can neither fold the log into
// the file nor free what was removed. One whose reader has stopped reading would hold both for ever. So a question may
// be as long as it likes while there is room, and is called off when it stands in the way of the bound.

const (
	logSlack = 2               // the log may be so many times as long as DuckDB keeps it by itself, …
	minAge   = 5 * time.Second // … and then questions end that have had so much time
)

// ErrCalledOff is what a question meets that kept the database from staying within its bound.
var ErrCalledOff = errors.New("called off")

// boundLogLocked calls old questions off once the log is too long. It costs a look at a file's size.
func (db *DB) boundLogLocked() {
	if log, err := os.Stat(db.o.Path + ".wal"); err != nil || log.Size() <= logSlack*db.o.walBytes() {
		return
	}
	if db.callOffLocked() > 0 {
		_ = db.checkpointLocked(context.Background()) // where it fails, the next commit tries again
	}
}

// callOffLocked ends the questions that are old enough, and says how many. The writing lock is held, so the engine
// stays.
func (db *DB) callOffLocked() (ended int) {
	for _, r := range db.open() {
		age := time.Since(r.began)
		if age < minAge {
			continue
		}
		r.yield(
			remedy.Add(
				&Error{
					Msg: fmt.Sprintf(
						"called off after %s: the session could not stay within its bound of disk meanwhile",
						age.Round(time.Second)), Kind: ErrCalledOff},
				"ask for less at a time and read the answer as it comes, or ask when the session has ended"))
		ended++
	}
	return ended
}

// open lists the open questions.
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

// Oldest is how long the oldest open question has been open; 0 where there is none.
func (db *DB) Oldest() (age time.Duration) {
	for _, r := range db.open() {
		age = max(age, time.Since(r.began))
	}
	return age
}
