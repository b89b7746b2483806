package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	duck "github.com/duckdb/duckdb-go-bindings"

	"github.com/memgauge/memgauge/internal/formats/model"
)

// A reader that stops reading does not make the log grow beyond its bound: it is called off.
func TestStalledReaderDoesNotPinTheLog(t *testing.T) {
	db := open(t, Options{MaxDisk: 64 << 20, Threads: 1})
	fillTrace(t, db, 200_000, 50_000, -1)
	stalled, err := db.Query(context.Background(), "SELECT * FROM python.torch_trace")
	if err != nil {
		t.Fatal(err)
	}
	defer stalled.Close()
	if !stalled.Next() {
		t.Fatal(stalled.Err())
	}
	stalled.began = time.Now().Add(-minAge) // as if it had stalled for so long
	bound := 2 * logSlack * db.o.walBytes() // one batch more than where it is looked at
	longest := int64(0)
	for i := range int64(200) {
		// an update in each: old versions must be kept for the reader
		b := model.Batch{Cursors: []model.Cursor{{RingID: 1, File: "a.ring", Seq: uint64(i)}}}
		for j := range int64(4000) {
			b.Trace = append(b.Trace, traceRow(300_000+i*4000+j, 0))
		}
		add(t, db, &b)
		if st, err := os.Stat(db.o.Path + ".wal"); err == nil {
			longest = max(longest, st.Size())
		}
	}
	if longest > bound {
		t.Errorf("the log had %d bytes, bound %d", longest, bound)
	}
	for stalled.Next() {
	}
	if err := stalled.Err(); !errors.Is(err, ErrCalledOff) {
		t.Errorf("the stalled reader met %v", err)
	}
	fresh, err := db.Query(context.Background(), "SELECT count(*) FROM python.torch_trace")
	if err != nil || !fresh.Next() {
		t.Fatalf("a question afterwards: %v", err)
	}
	fresh.Close()
	t.Logf("the log had at most %d bytes of %d", longest, bound)
}

// gathers begins questions that gather numbers until hardly any memory is left, and then go on over rows without end.
// It gives what comes of the first, which has most of it. An arena grows by twice as much each time, up to 16 MiB: the
// first gets 80 MiB of 96, the others half of what is left each.
func gathers(t *testing.T, db *DB) (first chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	first = make(chan error, 1)
	begin := func(numbers int, ended func(error)) {
		sql := fmt.Sprintf("SELECT len(list(x) FILTER (x < %d)) FROM range(1000000000000000) t(x)", numbers)
		all.Go(func() {
			_, err := tryAsk(ctx, db, sql)
			ended(err)
		})
	}
	begin(8_500_000, func(err error) { first <- err })
	const held = "SELECT (sum(memory_usage_bytes) >> 20)::BIGINT FROM duckdb_memory() WHERE tag = 'ALLOCATOR'"
	for ask(t, db, held)[0][0].(int64) < 80 {
		if len(first) > 0 {
			t.Fatal(<-first)
		}
	}
	for numbers := 700_000; numbers > 5_000; numbers /= 2 {
		begin(numbers, func(error) {}) // the last find no memory
	}
	return first
}

// A question that has taken all memory and goes on keeps no rows from being stored, and the session from no verdict: it
// is called off.
func TestQuestionThatHoldsTheMemory(t *testing.T) {
	for name, work := range map[string]func(*DB) error{
		"storing": func(db *DB) error {
			b := model.Batch{Names: moduleNames()}
			for j := range int64(1000) {
				b.Trace = append(b.Trace, traceRow(j, 0))
			}
			return db.Append(t.Context(), &b)
		},
		"judging": func(db *DB) error {
			_, err := tryAsk(t.Context(), db, "SELECT len(list(x)) FROM range(4000000) t(x)") // 36 MiB
			db.MakeRoom(err)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t, Options{MemoryLimit: 96 << 20, Threads: 1})
			first := gathers(t, db)
			deadline := time.Now().Add(time.Minute)
			for len(first) == 0 {
				if time.Now().After(deadline) {
					t.Fatal("the question goes on")
				}
				for _, r := range db.open() {
					r.began = time.Now().Add(-minAge) // as if it had gone on for so long
				}
				if err := work(db); err != nil && !errors.Is(err, ErrMemory) {
					t.Fatal(err)
				}
			}
			if err := <-first; !errors.Is(err, ErrCalledOff) {
				t.Errorf("the question ended with %v", err)
			}
			for err := work(db); err != nil; err = work(db) { // the others end now
				if time.Now().After(deadline) {
					t.Fatalf("afterwards: %v", err)
				}
			}
		})
	}
}

// A commit that finds no memory says so in other words than a statement.
func TestCommitWithoutMemory(t *testing.T) {
	for _, words := range []string{"failed to pin block of size 64.0 KiB (511.9 MiB/512.0 MiB used)\n\nPossible …",
		"could not allocate block of size 256.0 KiB (95.7 MiB/96.0 MiB used)"} {
		err := nativeError(duck.ErrorTypeTransaction, "TransactionContext Error: Failed to commit: "+words, "COMMIT")
		if !errors.Is(err, ErrMemory) {
			t.Errorf("%v", err)
		}
	}
}

// A question that can't be called off is told of, once, within its patience; one that waits for its reader is not.
func TestStuckQuestionIsTold(t *testing.T) {
	told := make(chan string, 10)
	db := open(t, Options{Stuck: func(sql string) { told <- sql }})
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	idle, err := db.Query(ctx, "SELECT * FROM range(100000000)")
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	// 6e9 cells in one call
	const stuck = "SELECT levenshtein(repeat('a', n), repeat('b', n)) FROM (SELECT 80000 + range AS n FROM range(1))"
	if _, err := tryAsk(ctx, db, stuck); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it ended with %v", err)
	}
	if len(told) != 1 || <-told != stuck {
		t.Errorf("%d told", len(told))
	}
}

// A question that has not ended keeps nobody from finishing: its log is folded into the file when it can be.
func TestCheckpointBesideAQuestion(t *testing.T) {
	db := open(t, Options{})
	fillTrace(t, db, 20_000, 5_000, -1)
	reader, err := db.Query(context.Background(), "SELECT * FROM python.torch_trace, range(1000)")
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if !reader.Next() {
		t.Fatal(reader.Err())
	}
	add(t, db, &model.Batch{Cursors: []model.Cursor{{RingID: 2, File: "b.ring", Seq: 1}}})
	add(t, db, &model.Batch{Cursors: []model.Cursor{{RingID: 2, File: "b.ring", Seq: 2}}})
	if err := db.Checkpoint(context.Background()); err != nil {
		t.Errorf("beside a question that reads: %v", err)
	}
}
