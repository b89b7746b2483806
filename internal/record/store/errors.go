package store

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"

	duck "github.com/duckdb/duckdb-go-bindings"

	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/formats/table"
)

// Errors on which callers branch.
var (
	ErrRefused = errors.New("not a reading statement") // the statement would change something
	ErrNoTable = errors.New("no such table")
	ErrNewer   = errors.New("made by a newer memgauge")         // the database has migrations that this one lacks
	ErrEdited  = errors.New("does not fit this memgauge")       // a migration differs from the one that was run
	ErrLocked  = errors.New("another process has the database") // DuckDB lets one process write
	ErrMemory  = errors.New("out of memory")                    // an allocation failed, or would exceed DuckDB's limit
	errClosed  = errors.New("the database was closed")
)

// Error is an error of DuckDB or of this package about a statement or a file. Package remedy wraps it with what the
// user can do.
type Error struct {
	Msg   string
	Kind  error // one of the Err… values, or nil
	fatal bool  // DuckDB has given up on the instance
}

// Error is the message.
func (e *Error) Error() string { return e.Msg }

// Unwrap makes errors.Is find the kind.
func (e *Error) Unwrap() error { return e.Kind }

var (
	noTable    = pattern.Of(`^Catalog Error: Table with name "?([^\s"]+)"? does not exist`)
	refusedRO  = pattern.Of(`Cannot execute statement of type "(\w+)"`)
	kindPrefix = pattern.Of(`^[A-Z][A-Za-z ]* Error: `)
	// noMemory is also in the words of a commit, whose error is of another kind (transaction/transaction_context.cpp).
	noMemory = pattern.Of(`^Out of Memory Error|bad_alloc|Failed to commit: .*\([0-9.]+ \w+/[0-9.]+ \w+ used\)`)
)

// nativeError translates DuckDB's message; sql is the statement that it is about.
func nativeError(t duck.ErrorType, msg, sql string) error {
	msg = strings.TrimSpace(msg)
	switch {
	case t == duck.ErrorTypeInterrupt:
		return &Error{Msg: "interrupted"}
	case t == duck.ErrorTypeFatal || strings.Contains(msg, "database has been invalidated"):
		return &Error{Msg: msg, fatal: true}
	case t == duck.ErrorTypeOutOfMemory, noMemory().MatchString(msg):
		return remedy.Add(&Error{Msg: firstLine(msg), Kind: ErrMemory},
			"the statement needs more memory than it may take: add a WHERE, a GROUP BY or a LIMIT")
	case strings.Contains(msg, "disabled by configuration") || t == duck.ErrorTypePermission:
		return remedy.Add(&Error{Msg: firstLine(msg), Kind: ErrRefused}, filesHint)
	}
	if m := refusedRO().FindStringSubmatch(msg); m != nil {
		return refused(m[1])
	}
	if strings.Contains(msg, "transaction is launched in read-only mode") {
		return refusal(sql)
	}
	if m := noTable().FindStringSubmatch(msg); m != nil {
		return remedy.Add(&Error{Msg: "no such table: " + qualified(m[1], sql), Kind: ErrNoTable},
			tableHint(qualified(m[1], sql)))
	}
	return &Error{Msg: kindPrefix().ReplaceAllString(msg, "")}
}

// tableHint suggests a table of the session for a mistyped name. DuckDB would also suggest tables of its own catalog
// (pg_sequences).
func tableHint(name string) string {
	if near := nearestTable(name); near != "" {
		return "did you mean " + near + "? `memgauge tables` lists them all"
	}
	return "`memgauge tables` lists the tables"
}

// nearestTable returns the table whose name, with or without its schema, has the smallest edit distance to what was
// written; "" if all are more than a third of its length away.
func nearestTable(name string) (nearest string) {
	if len(name) > 100 { // no table's is half as long, and the search takes the product of the lengths
		return ""
	}
	name = strings.ToLower(name)
	least := 1.0 / 3
	for _, view := range slices.Sorted(slices.Values(table.Views())) {
		_, bare, _ := strings.Cut(view, ".")
		_, written, _ := strings.Cut(name, ".")
		for _, pair := range [][2]string{{name, view}, {name, bare}, {written, bare}} {
			if d := float64(distance(pair[0], pair[1])) / float64(max(len(pair[0]), 1)); pair[0] != "" && d < least {
				nearest, least = view, d
			}
		}
	}
	return nearest
}

// distance is Levenshtein's, in bytes: table names are ASCII.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal, row[j+1] = row[j+1], min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// qualified finds the name as the user wrote it, with its schema: DuckDB's message leaves that out.
func qualified(name, sql string) string {
	if strings.Contains(name, ".") {
		return name
	}
	re, err := regexp.Compile(`(?i)\b\w+\.` + regexp.QuoteMeta(name) + `\b`)
	if err != nil {
		return name
	}
	if full := re.FindString(sql); full != "" {
		return full
	}
	return name
}

// refused is the error of a statement that the gate does not let through.
func refused(statement string) error {
	return remedy.Add(&Error{Msg: strings.ToUpper(statement) +
		" statements are not run: a session's tables are only read",
		Kind: ErrRefused}, "SELECT, WITH, FROM, VALUES, SHOW, DESCRIBE, EXPLAIN and SUMMARIZE run")
}

// openError says why a file can't be opened.
func openError(msg string) error {
	switch {
	case strings.Contains(msg, "Could not set lock"):
		return remedy.Add(&Error{Msg: "another process has it open", Kind: ErrLocked}, firstLine(msg))
	case strings.Contains(msg, "not a valid DuckDB database file"),
		strings.Contains(msg, "does not match with the stored checksum"):
		return &Error{Msg: "it is damaged or no database: " + firstLine(msg)}
	}
	return &Error{Msg: firstLine(kindPrefix().ReplaceAllString(strings.TrimSpace(msg), ""))}
}

// IsFull reports whether an operation failed because the disk is full.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		err != nil && (strings.Contains(err.Error(), noSpace) || strings.Contains(err.Error(), noQuota))
}

// What the C library says of ENOSPC and EDQUOT, and DuckDB after it.
const (
	noSpace = "No space left on device"
	noQuota = "Disk quota exceeded"
)

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// isFatal reports whether DuckDB refuses any further use of this instance.
func isFatal(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.fatal
}

// isBusy reports whether DuckDB refused a checkpoint because a query is open.
func isBusy(err error) bool {
	return err != nil && strings.Contains(err.Error(), "Cannot CHECKPOINT: there are other write transactions active")
}

// about wraps err with the operation and the file.
func (db *DB) about(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", operation, db.o.Path, err)
}
