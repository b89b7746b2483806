package outbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/service"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/table"
	"github.com/memgauge/memgauge/internal/record/store"
	"github.com/memgauge/memgauge/test/frames"
)

// hub takes frames as JetStream and the lake do: a row counts once, by its number.
type hub struct {
	t     *testing.T
	rows  map[string]string // by table and number
	fails int               // frames until one is lost: sent, or its acknowledgement
}

var errAway = errors.New("the hub is away")

func (h *hub) ship(_ context.Context, data []byte) error {
	h.fails--
	if h.fails == 0 && rand.N(2) == 0 {
		return errAway
	}
	b, err := frame.Decode(data)
	if err != nil {
		h.t.Fatal(err)
	}
	if b, _, err = b.Fit(); err != nil {
		h.t.Fatal(err)
	}
	for i := range b.Count {
		key := fmt.Sprintf("%s %d", b.Table, b.First+uint64(i))
		text := ""
		for k := range b.Rows.Width() {
			text += "|" + frames.Text(b.Rows.Column(k), i)
		}
		if have, ok := h.rows[key]; ok && have != text {
			h.t.Fatalf("%s came as\n%s\nand as\n%s", key, have, text)
		}
		h.rows[key] = text
	}
	if h.fails == 0 {
		return errAway
	}
	return nil
}

func opened(t *testing.T, dir string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "session.duckdb"), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func box(t *testing.T, dir string) *Box {
	t.Helper()
	b, err := Open(dir, "s1", "llama", "n1")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestOnce: rows are stored, gathered and sent at random, while the hub is away, the node dies, and the database is
// opened anew. Whatever comes again has its number, and at the end every row has come.
func TestOnce(t *testing.T) {
	dir := t.TempDir()
	db := opened(t, dir)
	defer func() { db.Close() }()
	b := box(t, dir)
	defer func() { b.Close() }()
	h := &hub{t: t, rows: map[string]string{}}
	step, events := int64(0), int64(0)
	texts := []string{"", "plain", "a\\rb", "line\r\nend", `q"uote, \ back`, "ünïcode"}
	for range 120 {
		switch rand.N(5) {
		case 0, 1:
			batch := model.Batch{}
			for range 1 + rand.N(2*frameRows/10) {
				step++
				batch.Steps = append(batch.Steps, model.Step{Time: step, PID: 1, Rank: 3, Step: step, Steps: 1})
			}
			for range rand.N(3) {
				events++
				batch.Events = append(batch.Events, model.Event{Time: step, PID: 1, Rank: -1, Name: "e",
					Text: texts[events%int64(len(texts))], A: events})
			}
			if err := db.Append(t.Context(), &batch); err != nil {
				t.Fatal(err)
			}
		case 2:
			if _, err := b.Gather(t.Context(), &service.Service{Open: service.Opened(db)}); err != nil {
				t.Fatal(err)
			}
		case 3:
			h.fails = rand.N(4)
			if err := b.Send(t.Context(), h.ship); err != nil && !errors.Is(err, errAway) {
				t.Fatal(err)
			}
		case 4: // the process dies
			b.Close()
			if rand.N(3) == 0 {
				db.Close()
				db = opened(t, dir)
			}
			b = box(t, dir)
		}
	}
	h.fails = -1
	for more := true; more || b.Waits(); {
		if err := b.Send(t.Context(), h.ship); err != nil {
			t.Fatal(err)
		}
		var err error
		if more, err = b.Gather(t.Context(), &service.Service{Open: service.Opened(db)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(h.rows) != int(step+events) || b.State().Rows != step+events {
		t.Errorf("%d rows came, %+v; %d steps and %d events were stored", len(h.rows), b.State(), step, events)
	}
	if s := b.State(); len(s.Lost) > 0 || s.Next["python.steps"] != uint64(step)+1 {
		t.Errorf("%+v", s)
	}
}

// sendAll sends what is stored, over attempts that fail, by processes that die.
func sendAll(t *testing.T, dir string, db *store.DB, to Hub, h *hub) *Box {
	t.Helper()
	b := box(t, dir)
	for more := true; more || b.Waits(); {
		if err := b.Meet(to, false, time.Now()); err != nil {
			t.Fatal(err)
		}
		h.fails = rand.N(4)
		if err := b.Send(t.Context(), h.ship); errors.Is(err, errAway) {
			b.Close()
			b = box(t, dir)
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		var err error
		if more, err = b.Gather(t.Context(), &service.Service{Open: service.Opened(db)}); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// TestTablesAreHeld: rows of tables that a hub does not know wait, and those of others don't. A hub that knows them
// gets each once.
func TestTablesAreHeld(t *testing.T) {
	dir := t.TempDir()
	db := opened(t, dir)
	defer db.Close()
	h := &hub{t: t, rows: map[string]string{}}
	rows := 0
	add := func(n int) {
		for range n { // a transaction each
			rows++
			at := int64(rows)
			err := db.Append(t.Context(), &model.Batch{
				Steps:      []model.Step{{Time: at, PID: 1, Rank: 3, Step: at, Steps: 1}},
				NativeLive: []model.NativeLive{{Time: at, PID: 1, Bytes: at}}})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	former, newer := Hub{Lake: "a", Schema: 7}, Hub{Lake: "a", Schema: table.Latest()}
	for range 3 {
		add(5)
		b := sendAll(t, dir, db, former, h)
		if held := b.Held(); !slices.Equal(held, []string{"native.live", "native.stacks"}) || len(h.rows) != rows {
			t.Errorf("%v are held; %d rows came of %d", held, len(h.rows), rows)
		}
		if err := b.Finish(); err != nil {
			t.Fatal(err)
		}
		b.Close()
	}
	_, formerDone := Begun(dir, former)
	if _, done := Begun(dir, newer); done || !formerDone {
		t.Errorf("done: %v for the hub that has what it knows, %v for a newer one", formerDone, done)
	}
	add(5)
	b := sendAll(t, dir, db, newer, h)
	defer b.Close()
	if len(b.Held()) > 0 || len(h.rows) != 2*rows {
		t.Errorf("%v are held; %d rows came of %d", b.Held(), len(h.rows), 2*rows)
	}
}

// TestAnotherLake: a lake that has none of the session's rows gets all of them, also those that were about to be sent
// to the one before; and nothing is sent twice to one that is the same.
func TestAnotherLake(t *testing.T) {
	dir := t.TempDir()
	db := opened(t, dir)
	defer db.Close()
	first, second := &hub{t: t, rows: map[string]string{}}, &hub{t: t, rows: map[string]string{}}
	add := func(from, to int64) {
		b := model.Batch{}
		for at := from; at < to; at++ {
			b.Steps = append(b.Steps, model.Step{Time: at, PID: 1, Rank: 3, Step: at, Steps: 1})
		}
		if err := db.Append(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	add(0, 100)
	b := sendAll(t, dir, db, Hub{}, first) // one that does not say which it is
	b.Close()
	b = sendAll(t, dir, db, Hub{Lake: "a"}, first)
	add(100, 110)
	if _, err := b.Gather(t.Context(), &service.Service{Open: service.Opened(db)}); err != nil || !b.Waits() {
		t.Fatal(err)
	}
	if err := b.Finish(); err != nil {
		t.Fatal(err)
	}
	b.Close()
	_, same := Begun(dir, Hub{Lake: "a"})
	if _, done := Begun(dir, Hub{Lake: "b"}); done || !same {
		t.Errorf("done: %v for the same lake, %v for another", same, done)
	}
	b = sendAll(t, dir, db, Hub{Lake: "b"}, second)
	defer b.Close()
	if len(first.rows) != 100 || len(second.rows) != 110 || b.State().Rows != 110 {
		t.Errorf("%d and %d rows came; %+v", len(first.rows), len(second.rows), b.State())
	}
	for key := range second.rows {
		if _, both := first.rows[key]; both {
			t.Fatalf("%s is a number of both", key)
		}
	}
	if err := b.Meet(Hub{Lake: "b"}, true, time.Now()); err != nil || b.State().After != 0 {
		t.Errorf("again, as was asked: %+v, %v", b.State(), err)
	}
}

// TestValues: a row arrives as it was stored, with every kind of column and of NULL.
func TestValues(t *testing.T) {
	dir := t.TempDir()
	db := opened(t, dir)
	defer db.Close()
	text := "a\\rb \\\\ \r\n\"x\",y"
	err := db.Append(t.Context(), &model.Batch{
		Events: []model.Event{{Time: 1234567, PID: 7, Rank: 2, Name: "n", Text: text, A: 1<<53 + 1, B: model.Null}},
		Steps:  []model.Step{{Time: 1, PID: 7, Rank: -1, Step: 1, Steps: 1, Sampled: true, Allocated: 5}}})
	if err != nil {
		t.Fatal(err)
	}
	b := box(t, dir)
	defer b.Close()
	if _, err := b.Gather(t.Context(), &service.Service{Open: service.Opened(db)}); err != nil {
		t.Fatal(err)
	}
	seen := 0
	err = b.Send(t.Context(), func(_ context.Context, data []byte) error {
		x, err := frame.Decode(data)
		if err != nil {
			return err
		}
		seen++
		if x.Table != "memgauge.events" {
			return nil
		}
		got := map[string]string{}
		for k := range x.Rows.Width() {
			got[x.Rows.Field(k).Name] = frames.Text(x.Rows.Column(k), 0)
		}
		for name, want := range map[string]string{"text": text, "a": fmt.Sprint(1<<53 + 1), "b": "NULL", "rank": "2",
			"ts": "1234567"} {
			if got[name] != want {
				t.Errorf("%s: %q, want %q", name, got[name], want)
			}
		}
		return nil
	})
	if err != nil || seen != 2 {
		t.Errorf("%d frames, %v", seen, err)
	}
}

// TestFormerFramesAreMadeAnew: frames of an older version that wait when memgauge is upgraded are made anew, with the
// same rows under the same numbers, though more has been stored since.
func TestFormerFramesAreMadeAnew(t *testing.T) {
	dir := t.TempDir()
	db := opened(t, dir)
	defer db.Close()
	store := func(from, to int64) {
		batch := &model.Batch{}
		for step := from; step < to; step++ {
			batch.Steps = append(batch.Steps, model.Step{Time: step, PID: 1, Rank: 3, Step: step, Steps: 1})
		}
		if err := db.Append(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	h := &hub{t: t, rows: map[string]string{}, fails: -1}
	gather := func(b *Box) {
		t.Helper()
		if _, err := b.Gather(t.Context(), &service.Service{Open: service.Opened(db)}); err != nil {
			t.Fatal(err)
		}
	}
	send := func(b *Box) {
		t.Helper()
		if err := b.Send(t.Context(), h.ship); err != nil {
			t.Fatal(err)
		}
	}
	store(0, 1000)
	b := box(t, dir)
	state, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		t.Fatal(err)
	}
	gather(b)
	waits, err := os.ReadFile(filepath.Join(dir, boxFile))
	if err != nil {
		t.Fatal(err)
	}
	send(b) // an older hub has all of them, and the node dies before it knows
	b.Close()
	former := bytes.ReplaceAll(waits, []byte{'M', 'G', 'F', frame.Version}, []byte("MGF\x01"))
	for name, text := range map[string][]byte{boxFile: former, stateFile: state} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store(1000, 1500)
	b = box(t, dir)
	defer b.Close()
	gather(b)
	send(b) // fails where a number has another row than before
	if len(h.rows) != 1500 {
		t.Errorf("%d rows", len(h.rows))
	}
}

// TestOneShips: a session's rows have one sender, and its state is not made anew where it can't be read.
func TestOneShips(t *testing.T) {
	dir := t.TempDir()
	b := box(t, dir)
	if _, err := Open(dir, "s1", "llama", "n1"); !errors.Is(err, ErrBusy) {
		t.Errorf("a second sender: %v", err)
	}
	if begun, done := Begun(dir, Hub{}); !begun || done {
		t.Errorf("begun %v, done %v", begun, done)
	}
	b.Close()
	if err := os.WriteFile(filepath.Join(dir, stateFile), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, "s1", "llama", "n1"); err == nil {
		t.Error("numbers began anew: rows would be taken for others")
	}
}

func FuzzBox(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00{}"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := readFrames(bytes.NewReader(b))
		if (m == nil) == (err == nil) {
			t.Errorf("%v, %v", m, err)
		}
	})
}

// TestPreparedSession: whatever lies in place of an outbox's files, nothing outside of the session's directory is
// written.
func TestPreparedSession(t *testing.T) {
	for _, name := range []string{stateFile, stateFile + ".new", boxFile, boxFile + ".new", lockFile} {
		outside := t.TempDir()
		victim, missing := filepath.Join(outside, "victim"), filepath.Join(outside, "missing")
		for kind, make := range map[string]func(path string) error{
			"link":          func(path string) error { return os.Symlink(victim, path) },
			"dangling link": func(path string) error { return os.Symlink(missing, path) },
			"hard link":     func(path string) error { return os.Link(victim, path) },
			"named pipe":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
		} {
			dir := t.TempDir()
			err := os.WriteFile(victim, []byte("precious"), 0o600)
			if err = errors.Join(err, make(filepath.Join(dir, name))); err != nil {
				t.Fatal(err)
			}
			b, err := Open(dir, "s", "j", "n")
			if err == nil {
				err = errors.Join(b.Finish(), b.Close())
			}
			t.Logf("%s as a %s: %v", name, kind, err)
			if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
				t.Errorf("%s as a %s: the user's file is %q, %v", name, kind, text, err)
			}
			if _, err := os.Lstat(missing); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s as a %s: a file was made outside", name, kind)
			}
		}
	}
}
