package owner

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/memgauge/memgauge/internal/record/session"
)

func hasDatabase(t *testing.T, s *session.Session) bool {
	t.Helper()
	_, err := os.Stat(s.Database())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// TestNewSessionRests: nothing is stored before somebody asks; what was read until then is known, is stored once, and
// is there for another owner if the first one dies before.
func TestNewSessionRests(t *testing.T) {
	s := ended(t)
	r := ring(t, s, 5)
	r.Event(62e9, "oom", "", 1, 2)
	dies := open(t, s)
	o := open(t, s)
	defer closeOwner(t, o)
	o.Add(sample(7))
	for _, each := range []*Owner{dies, o, o} {
		if _, err := each.Gather(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if hasDatabase(t, s) || !o.Rests() {
		t.Error("a database was made though nobody has asked")
	}
	if !o.Trainers().Trains(int32(os.Getpid())) || len(o.OOMs()) != 1 || len(o.Newest()) != 1 {
		t.Error("what was read is not known")
	}
	if err := o.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o.Rests() {
		t.Error("it rests beside a database")
	}
	for sql, want := range map[string]string{
		"SELECT count(*), max(step) FROM python.steps":            "5 5",
		"SELECT count(*) FROM process.memory":                     "1",
		"SELECT count(*) FROM memgauge.events WHERE name = 'oom'": "1",
	} {
		if got := answer(t, o, sql); got != want {
			t.Errorf("%s: %q, want %q", sql, got, want)
		}
	}
}

// TestNoRoomForADatabase: what is left of one that could not be made is no database, and none is missing later.
func TestNoRoomForADatabase(t *testing.T) {
	s := ended(t)
	ring(t, s, 5)
	o := open(t, s)
	defer closeOwner(t, o)
	empty := fill(t)
	err := o.Drain(t.Context())
	empty()
	if err == nil || hasDatabase(t, s) {
		t.Fatalf("%v; a file is left: %v", err, hasDatabase(t, s))
	}
	if got := answer(t, o, "SELECT count(*) FROM python.steps"); got != "0" {
		t.Errorf("%s steps before the rings are read again", got)
	}
	if err := o.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := answer(t, o, "SELECT count(*) FROM python.steps"); got != "5" {
		t.Errorf("%s steps", got)
	}
}
