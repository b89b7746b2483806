package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	duck "github.com/duckdb/duckdb-go-bindings"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/internal/judge/anatomy"
)

// madeUp is a history with all that is rare: two devices, blocks older than it, a private pool, an OOM, an action that
// nobody knows, texts by the thousand.
func madeUp(texts int) *snapshot.Snapshot {
	user := []snapshot.Frame{{File: "/x/site-packages/torch/_ops.py", Line: 7, Name: "call"},
		{File: "/srv/it's.py", Line: 3, Name: "f"}}
	s := &snapshot.Snapshot{
		Segments: []snapshot.Segment{{Address: 1 << 30, Size: 4096, Allocated: 1536, Active: 1536, Kind: "small",
			Pool: [2]int64{0, 5}, Blocks: []snapshot.Block{
				{Address: 1 << 30, Size: 1024, Requested: 700, State: snapshot.Allocated, Frames: user},
				{Address: 1<<30 + 1024, Size: 512, Requested: 9, State: snapshot.Allocated},
				{Address: 1<<30 + 1536, Size: 2560, State: snapshot.Inactive},
			}}},
		Settings: []snapshot.Setting{{Name: "backend", Value: "native"},
			{Name: "more", Value: []snapshot.Setting{{Name: "a", Value: int64(1)}}}},
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for device := range 2 {
		events := []snapshot.Event{
			{Action: snapshot.FreeCompleted, Addr: 77, Size: 100}, {Action: snapshot.Alloc, Addr: 1<<30 + 1024, Size: 9,
				Frames: user},
			{Action: snapshot.OOM, Size: 1 << 40, DeviceFree: 12345}, {Action: "brand_new", Addr: 1},
		}
		live := map[uint64]int64{}
		for i := range texts {
			addr := uint64(1+rnd.IntN(500)) << 20
			e := snapshot.Event{Action: snapshot.Alloc, Addr: addr, Size: int64(rnd.IntN(9000)),
				Metadata: fmt.Sprintf("note %d", i), Frames: user[:1+i%2]}
			if size, ok := live[addr]; ok {
				e.Action, e.Size = snapshot.FreeCompleted, size
				delete(live, addr)
			} else {
				live[addr] = e.Size
			}
			events = append(events, e)
		}
		for i := range events {
			events[i].Device, events[i].Time = device, int64(1_700_000_000_000_000+10*i)
		}
		if device == 0 {
			for addr, size := range live {
				s.Segments[0].Blocks = append(s.Segments[0].Blocks,
					snapshot.Block{Address: addr, Size: size + 512, Requested: size, State: snapshot.Allocated})
			}
		}
		s.Traces = append(s.Traces, events)
	}
	return s
}

func historyOf(t testing.TB, s *snapshot.Snapshot) *anatomy.History {
	t.Helper()
	var file bytes.Buffer
	if err := snapshot.WritePickle(&file, s); err != nil {
		t.Fatal(err)
	}
	c, err := snapshot.ReadColumns(context.Background(), &file, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	h := anatomy.New(c)
	t.Cleanup(h.Close)
	return h
}

func tablesOf(t testing.TB, h *anatomy.History) *DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "made.duckdb")
	if err := MakeSnapshot(context.Background(), path, h, func(share float64) {
		if share < 0 || share > 1 {
			t.Errorf("a share of %g is made", share)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("made %v, %v", info, err)
	}
	db, err := OpenSnapshot(context.Background(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// Every column of events is what the history has, and what live_at gives adds up to live_after at any moment.
func TestSnapshotTablesAgreeWithHistory(t *testing.T) {
	h := historyOf(t, madeUp(5000))
	db := tablesOf(t, h)
	rows, err := db.Query(context.Background(),
		`SELECT seq, device, action, addr, size, stack_id, live_after, reserved_after, device_free, user_metadata
		FROM events ORDER BY seq`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for i := range h.Len() {
		if !rows.Next() {
			t.Fatalf("row %d: %v", i, rows.Err())
		}
		d := h.Devices[h.Columns.Device[i]]
		var addr, free, note any = h.Addr[i], nil, nil
		if h.Action[i] == snapshot.IsOOM {
			addr, free = nil, int64(h.Addr[i])
		}
		if text := h.Text(h.Metadata[i]); text != "" {
			note = text
		}
		want := fmt.Sprint([]any{
			i, h.Columns.Device[i], h.Actions[h.Action[i]], addr, h.Size[i], h.Stack[i], h.Live[i], d.ReservedAt(i),
			free, note,
		})
		if got := fmt.Sprint(rows.Values()); got != want {
			t.Fatalf("row %d: %s, want %s", i, got, want)
		}
	}
	for i := 0; i < h.Len(); i += 97 {
		if got := ask(t, db, fmt.Sprintf("SELECT sum(requested)::BIGINT FROM live_at(%d)", i)); got[0][0] != h.Live[i] {
			t.Errorf("live after event %d: %v, want %d", i, got, h.Live[i])
		}
	}
}

// What is rare has its place.
func TestSnapshotTables(t *testing.T) {
	db := tablesOf(t, historyOf(t, madeUp(70_000))) // more texts than an enum may have
	for sql, want := range map[string]string{
		"SELECT device_free, addr, size FROM events WHERE action = 'oom' AND device = 0":                                     "[12345 <nil> 1099511627776]",
		"SELECT count(*) FROM events WHERE action = 'brand_new'":                                                             "[2]",
		"SELECT count(DISTINCT user_metadata) FROM events":                                                                   "[70000]",
		"SELECT alloc_seq, free_seq, requested, size, site, category FROM blocks WHERE addr = 77 AND device = 0":             "[<nil> 0 100 512 <nil> unknown]",
		"SELECT alloc_seq, requested, size, site, pool FROM blocks WHERE addr = 1073741824":                                  "[<nil> 700 1024 /srv/it's.py:3 f 0:5]",
		"SELECT requested, size, free_seq FROM blocks WHERE addr = 1073742848 AND device = 0":                                "[9 512 <nil>]",
		"SELECT depth, func, own FROM frames WHERE lineno = 3":                                                               "[1 f true]",
		"SELECT pool, kind, allocated FROM segments":                                                                         "[0:5 small 1536]",
		"SELECT string_agg(value, ' ' ORDER BY name) FROM settings":                                                          `[native {"a":"1"}]`,
		"SELECT count(*) FROM segment_blocks WHERE state = 'inactive'":                                                       "[1]",
		"SELECT count(*) FROM blocks WHERE lifetime_us < 0 OR alloc_seq > 0 AND (free_seq IS NULL) <> (lifetime_us IS NULL)": "[0]",
	} {
		if got := fmt.Sprint(ask(t, db, sql)); got != "["+want+"]" {
			t.Errorf("%s\n got %s\nwant %s", sql, got, want)
		}
	}
}

// A program whose allocations come from more lines than an enum may have (generated code) gets the same columns.
func TestSnapshotOfManySites(t *testing.T) {
	s := &snapshot.Snapshot{Traces: [][]snapshot.Event{nil}}
	for i := range maxEnum + 5000 {
		s.Traces[0] = append(s.Traces[0], snapshot.Event{
			Action: snapshot.Alloc, Addr: uint64(1+i) << 10, Size: int64(1 + i),
			Frames: []snapshot.Frame{{File: "/srv/made.py", Line: i, Name: "f"}},
		})
	}
	s.Traces[0] = append(s.Traces[0], snapshot.Event{Action: snapshot.Alloc, Addr: 1 << 50, Size: 7})
	db := tablesOf(t, historyOf(t, s))
	n := maxEnum + 5000
	for sql, want := range map[string]string{
		"SELECT count(DISTINCT site), count(*) FROM blocks":                fmt.Sprintf("[%d %d]", n, n+1),
		"SELECT requested FROM blocks WHERE site = '/srv/made.py:17 f'":    "[18]",
		"SELECT requested FROM blocks WHERE site IS NULL":                  "[7]",
		"SELECT site FROM blocks ORDER BY site LIMIT 1":                    "[/srv/made.py:0 f]",
		"SELECT count(DISTINCT site) FROM stacks WHERE site LIKE '%:1_ f'": "[10]",
		"SELECT count(*) FROM live_at(9) WHERE site = '/srv/made.py:10 f'": "[0]",
		"SELECT site FROM live_at(9) ORDER BY requested DESC LIMIT 1":      "[/srv/made.py:9 f]",
	} {
		if got := fmt.Sprint(ask(t, db, sql)); got != "["+want+"]" {
			t.Errorf("%s\n got %s\nwant %s", sql, got, want)
		}
	}
	typesOf(t, db)
}

// typesOf looks at what the tables say of columns of texts.
func typesOf(t *testing.T, db *DB) {
	tables, err := db.Tables(context.Background(), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		for _, c := range table.Columns {
			switch c.Name {
			case "site", "pool", "user_metadata", "compile_context", "category", "action":
				if c.Type != "VARCHAR" {
					t.Errorf("%s.%s is a %s", table.Name, c.Name, c.Type)
				}
			}
		}
	}
}

// A file without events or segments has tables as well.
func TestSnapshotTablesOfNothing(t *testing.T) {
	db := tablesOf(t, historyOf(t, &snapshot.Snapshot{}))
	if got := ask(t, db, "SELECT count(*) FROM events"); got[0][0] != int64(0) {
		t.Error(got)
	}
}

// The tables are asked through the same gate as a session's.
func TestSnapshotTablesAreRead(t *testing.T) {
	db := tablesOf(t, historyOf(t, madeUp(10)))
	for _, sql := range []string{
		"DELETE FROM events", "CREATE TABLE x (i INTEGER)", "COPY events TO 'x.csv'", "FROM read_csv('/etc/passwd')",
		"ATTACH 'x.duckdb'",
		"DROP MACRO live_at", "FROM '/etc/passwd'", "SET memory_limit = '1TB'",
	} {
		rows, err := db.Query(context.Background(), sql)
		if err == nil {
			_ = rows.Close()
		}
		if !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// Every table and column is described.
func TestSnapshotTablesAreDescribed(t *testing.T) {
	db := tablesOf(t, historyOf(t, madeUp(10)))
	tables, err := db.Tables(context.Background(), true)
	if err != nil || len(tables) != 13 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	for _, table := range tables {
		if table.Doc == "" {
			t.Errorf("%s is not described", table.Name)
		}
		for _, c := range table.Columns {
			if c.Doc == "" {
				t.Errorf("%s.%s is not described", table.Name, c.Name)
			}
		}
	}
}

// Who calls it off finds nothing half made, and a database of another version is refused.
func TestSnapshotIsWholeOrNotThere(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "made.duckdb")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := MakeSnapshot(ctx, path, historyOf(t, madeUp(10)), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := os.WriteFile(path, []byte("not a database"), 0o600); err != nil {
		t.Fatal(err)
	}
	if db, err := OpenSnapshot(context.Background(), path, nil); err == nil {
		_ = db.Close()
		t.Error("what is not a database was opened")
	}
}

// What is exported is what the tables hold.
func TestSnapshotParquet(t *testing.T) {
	db := tablesOf(t, historyOf(t, madeUp(500)))
	tables, err := db.Tables(context.Background(), false)
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{}
	o := Options{outside: true, TempDir: t.TempDir()}.withDefaults()
	if err := e.open(o); err != nil {
		t.Fatal(err)
	}
	defer duck.Close(&e.db)
	c, err := e.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for _, table := range tables {
		if table.Rows < 0 {
			continue
		}
		path := filepath.Join(t.TempDir(), table.Name+".parquet")
		exportFile(t, db, "FROM "+table.Name, path)
		var got [][]any
		if err := c.all("FROM read_parquet("+quote(path)+") ORDER BY ALL",
			func(v []any) { got = append(got, v) }); err != nil {
			t.Fatal(err)
		}
		if want := ask(t, db, "FROM "+table.Name+" ORDER BY ALL"); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %d rows, want %d, or other values", table.Name, len(got), len(want))
		}
	}
}
