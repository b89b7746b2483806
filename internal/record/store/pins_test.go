package store

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

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
