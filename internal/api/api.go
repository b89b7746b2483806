// Package api owns what can be asked of a session: the service over its database and rings, the HTTP that a collector
// offers on its unix socket, and the client of it. A live session and a finished one answer through the same service;
// where it runs is the only difference. It starts no process and owns no life cycle.
package api

import (
	"errors"
	"fmt"
	"time"

	"github.com/memgauge/memgauge/internal/model"
	"github.com/memgauge/memgauge/internal/remedy"
)

// QueryRequest asks for the result of one SQL statement as text.
type QueryRequest struct {
	SQL     string        `json:"sql"`
	Format  string        `json:"format"`  // table, json, ndjson, csv, parquet
	Width   int           `json:"width"`   // columns of the terminal, 0 if it isn't one
	Plain   bool          `json:"plain"`   // no dim text on a terminal
	Timeout time.Duration `json:"timeout"` // 0: none

	// Note hears what the user must know about the answer: that something could not be read. It may be nil.
	Note func(string) `json:"-"`
}

func (q QueryRequest) note(text string) {
	if q.Note != nil && text != "" {
		q.Note(text)
	}
}

// Summary is what a session amounts to.
type Summary struct {
	Rows      int64 `json:"rows"`  // in all tables that grow
	Steps     int64 `json:"steps"` // of the process that made most
	PeakRSS   int64 `json:"peak_rss"`
	PIDs      []int `json:"pids"`
	Ranks     []int `json:"ranks"`
	DiskBytes int64 `json:"disk_bytes"`
	Lost      int64 `json:"lost"`     // records in memgauge.drops
	LeftOut   int64 `json:"left_out"` // rows given up for want of disk: thinned, merged, dropped or never stored

	Verdict string `json:"verdict,omitempty"` // in a line; at the end of a run only
}

// Error is a failure as it crosses the socket.
type Error struct {
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Kind    string `json:"kind,omitempty"` // "timeout", "canceled" or ""
}

func (e *Error) Error() string { return e.Message }

// Is makes errors.Is(err, ErrTimeout) and (err, ErrCanceled) work on both sides of the socket.
func (e *Error) Is(target error) bool {
	return e.Kind == "timeout" && target == ErrTimeout || e.Kind == "canceled" && target == ErrCanceled
}

// Outcomes of a query that a caller tells apart.
var (
	ErrTimeout  = errors.New("ran into its time limit")
	ErrCanceled = errors.New("canceled")
	// ErrBroken is a connection that ended before the answer did: the collector was killed. Another one can be asked.
	ErrBroken = errors.New("the collector ended")
)

// pack prepares an error for the socket.
func pack(err error) *Error {
	e := &Error{Message: err.Error(), Hint: remedy.Of(err)}
	switch {
	case errors.Is(err, ErrTimeout):
		e.Kind = "timeout"
	case errors.Is(err, ErrCanceled):
		e.Kind = "canceled"
	}
	return e
}

// unpack is the reverse of pack.
func (e *Error) unpack() error { return remedy.Add(e, e.Hint) }

// TablesReply is the answer to a request for the tables.
type TablesReply struct {
	Tables []model.Table `json:"tables"`
}

// maxSQL bounds a statement; a generated IN list of 100,000 numbers fits.
const maxSQL = 4 << 20

func checkRequest(q QueryRequest) error {
	if len(q.SQL) > maxSQL {
		return fmt.Errorf("query: the statement has %d bytes, at most %d", len(q.SQL), maxSQL)
	}
	return nil
}
