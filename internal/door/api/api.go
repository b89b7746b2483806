// Package api owns the interface of a session: Session with its requests and replies, the right that each needs, their
// HTTP server, and the client. Code that presents a session sees nothing else of it. Package service answers the
// requests; api opens no database, no process and no session directory.
package api

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/formats/model"
)

// QueryRequest asks for the result of one SQL statement as text.
type QueryRequest struct {
	SQL     string        `json:"sql"`
	Format  string        `json:"format"`  // table, json, ndjson, csv, parquet
	Width   int           `json:"width"`   // columns of the terminal, 0 if it isn't one
	Plain   bool          `json:"plain"`   // no dim text on a terminal
	Timeout time.Duration `json:"timeout"` // 0: none

	// Note is called with remarks for the user about the answer, say that something could not be read. It may be nil.
	Note func(string) `json:"-"`
}

// Tell calls Note, unless that is nil or the note empty.
func (q QueryRequest) Tell(note string) {
	if q.Note != nil && note != "" {
		q.Note(note)
	}
}

// Summary describes a session in figures.
type Summary struct {
	Rows      int64 `json:"rows"`  // in all tables that grow
	Steps     int64 `json:"steps"` // of the process that made most
	PeakRSS   int64 `json:"peak_rss"`
	PIDs      []int `json:"pids"`
	Ranks     []int `json:"ranks"`
	DiskBytes int64 `json:"disk_bytes"`
	Lost      int64 `json:"lost"`     // records in memgauge.drops
	LeftOut   int64 `json:"left_out"` // rows removed to save disk: thinned, merged, dropped or never stored

	Verdict string `json:"verdict,omitempty"` // in a line; at the end of a run only
	Judged  string `json:"judged,omitempty"`  // leak, healthy or undecided; "" before the first judgement
}

// Error is a failure as it crosses the socket.
type Error struct {
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Kind    string `json:"kind,omitempty"` // a key of kinds, or ""
}

// Error returns the message. Unpack adds the remedy.
func (e *Error) Error() string { return e.Message }

// kinds are the errors that a caller distinguishes, on both sides of the socket.
var kinds = map[string]error{"timeout": ErrTimeout, "canceled": ErrCanceled, "unknown": ErrUnknown,
	"refused": ErrRefused, "forbidden": ErrForbidden}

// Is makes errors.Is work for the kinds.
func (e *Error) Is(target error) bool {
	kind, known := kinds[e.Kind]
	return known && target == kind
}

// Errors of a request that a caller distinguishes.
var (
	ErrTimeout  = errors.New("ran into its time limit")
	ErrCanceled = errors.New("canceled")
	// ErrBroken is a connection that ended before the answer did: the collector was killed. Another one can answer.
	ErrBroken = errors.New("the collector ended")
	// ErrRefused is a statement that would change something, or read what is no table of the session.
	ErrRefused = errors.New("not a reading statement")
	// ErrException means that the code raised an exception.
	ErrException = errors.New("the code raised an exception")
	// ErrUnknown is the reply of an older version to a request that it does not know.
	ErrUnknown = errors.New("the session's collector is of an earlier version and does not know this question")
)

// Pack prepares an error to cross a socket, or to stand in an answer; nil stays nil.
func Pack(err error) *Error {
	if err == nil {
		return nil
	}
	e := &Error{Message: shortened(err.Error()), Hint: shortened(remedy.Of(err))}
	for kind, known := range kinds {
		if errors.Is(err, known) {
			e.Kind = kind
		}
	}
	return e
}

// maxMessage bounds the text of an error that crosses a socket, in bytes. A conversion of DuckDB's that fails names the
// value of the row, which may have any size.
const maxMessage = 16 << 10

// shortened is a text of at most maxMessage bytes, with a word on what was left out.
func shortened(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	cut := strings.ToValidUTF8(text[:maxMessage], "")
	return fmt.Sprintf("%s… (%d bytes more)", cut, len(text)-len(cut))
}

// Unpack is the reverse of Pack: an error with its remedy.
func (e *Error) Unpack() error {
	if e == nil {
		return nil
	}
	return remedy.Add(e, e.Hint)
}

// TablesReply is the answer to a request for the tables.
type TablesReply struct {
	Tables []model.Table `json:"tables"`
}

// maxSQL bounds a statement; a generated IN list of 100,000 numbers fits.
const maxSQL = 4 << 20

// Check returns an error for a query that every session would refuse.
func (q QueryRequest) Check() error {
	if len(q.SQL) > maxSQL {
		return fmt.Errorf("query: the statement has %d bytes, at most %d", len(q.SQL), maxSQL)
	}
	return nil
}
