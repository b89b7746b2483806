package hub

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"
)

// joins has so many new nodes come in, each with a key of its own, from sixteen machines and 64 at a time.
func joins(t testing.TB, r *roster, nodes int) {
	t.Helper()
	var all sync.WaitGroup
	next := make(chan int)
	for range 64 {
		all.Go(func() {
			for i := range next {
				from := netip.AddrFrom4([4]byte{10, 0, 0, byte(i % 16)})
				if err := r.known(fmt.Sprint("n", i), fmt.Sprint("key", i), from); err != nil {
					t.Errorf("n%d was refused: %v", i, err)
				}
			}
		})
	}
	for i := range nodes {
		next <- i
	}
	close(next)
	all.Wait()
}

// TestJoinsAreAppended: names that come are put behind those before them, once each, and the file of all nodes is not
// written for them. A hub that is killed then knows them; when it writes that file the others go.
func TestJoinsAreAppended(t *testing.T) {
	nodes := env.Times(1000, 10_000)
	r := emptyRoster(t, t.TempDir())
	joins(t, r, nodes)
	text, err := os.ReadFile(filepath.Join(r.dir.Path(), journalFile))
	if n := bytes.Count(text, []byte("\n")); err != nil || n != nodes {
		t.Errorf("%d lines of %d names, %v", n, nodes, err)
	}
	if _, err := os.Stat(filepath.Join(r.dir.Path(), nodeFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of all nodes was written: %v", err)
	}
	if len(r.unkept) > 0 {
		t.Errorf("%d names are still remembered to be written", len(r.unkept))
	}
	check := func(when string) *roster {
		t.Helper()
		again, err := openRoster(r.dir, quiet())
		if err != nil || len(again.nodes) != nodes || again.left != 0 || again.known("n7", "another", local) == nil ||
			again.known("n7", "key7", local) != nil {
			t.Errorf("%s: %d names, %d left out, %v", when, len(again.nodes), again.left, err)
		}
		return again
	}
	again := check("killed")
	if err := again.save(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(r.dir.Path(), journalFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the names are still in a file of their own: %v", err)
	}
	check("written")
}

// TestDamagedJournal: what can be read of the names that came last counts, whatever is between them, and what is cut is
// told. A name that comes then has a line of its own.
func TestDamagedJournal(t *testing.T) {
	line := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"key":"K","since":%q}`+"\n", name, time.Now().UTC().Format(time.RFC3339))
	}
	for what, f := range map[string]struct {
		text        string
		nodes, left int
	}{
		"good":      {line("n1") + line("n2"), 2, 0},
		"empty":     {"", 0, 0},
		"cut":       {line("n1") + line("n2")[:20], 1, 1},
		"binary":    {line("n1") + "\x00\xff\x00{\n" + line("n2"), 2, 1},
		"others":    {line("n1") + "null\n[]\n7\n{}\n" + line("../x") + line(strings.Repeat("n", 200)), 1, 6},
		"long key":  {strings.Replace(line("n1"), `"K"`, `"`+strings.Repeat("k", 200)+`"`, 1) + line("n2"), 1, 1},
		"twice":     {line("n1") + line("n1"), 1, 0},
		"no key":    {strings.Replace(line("n1"), `"K"`, `""`, 1), 0, 1},
		"too large": {line("n1") + strings.Repeat(strings.Repeat("x", 1<<20)+"\n", 20), 1, 16},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, journalFile)
		if err := os.WriteFile(path, []byte(f.text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := openRoster(emptyRoster(t, dir).dir, quiet())
		if err != nil || len(r.nodes) != f.nodes || r.left != f.left {
			t.Errorf("%s: %d nodes, %d left out, %v", what, len(r.nodes), r.left, err)
			continue
		}
		if err := r.known("new", "N", local); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		again, err := openRoster(r.dir, quiet())
		if err != nil || again.nodes["new"] == nil || len(again.nodes) != f.nodes+1 {
			t.Errorf("%s: with a new name: %d nodes, %v", what, len(again.nodes), err)
		}
	}
}

// TestNewerNameCounts: of the roster and the names behind it, what is newer says whose a name is.
func TestNewerNameCounts(t *testing.T) {
	r := emptyRoster(t, t.TempDir())
	joins(t, r, 2)
	journal, err := os.ReadFile(filepath.Join(r.dir.Path(), journalFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.forget("n1"), r.known("n1", "other", local), r.save(),
		os.WriteFile(filepath.Join(r.dir.Path(), journalFile), journal, 0o600)); err != nil { // as if it had not gone
		t.Fatal(err)
	}
	again, err := openRoster(r.dir, quiet())
	if err != nil || again.known("n1", "other", local) != nil || again.known("n1", "key1", local) == nil {
		t.Errorf("the name is %+v, %v", again.nodes["n1"], err)
	}
}

// TestJournalThatFails: a name that can't be written is not given, and is when it can.
func TestJournalThatFails(t *testing.T) {
	r := emptyRoster(t, t.TempDir())
	path := filepath.Join(r.dir.Path(), journalFile)
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.known("n1", "K", local); !errors.Is(err, errUnkept) {
		t.Errorf("%v", err)
	}
	if err := errors.Join(os.Remove(path), r.known("n1", "K", local)); err != nil {
		t.Error(err)
	}
	again, err := openRoster(r.dir, quiet())
	if err != nil || again.known("n1", "other", local) == nil {
		t.Errorf("%d nodes, %v", len(again.nodes), err)
	}
}

// BenchmarkJoins has ten thousand nodes join.
func BenchmarkJoins(b *testing.B) {
	for b.Loop() {
		joins(b, emptyRoster(b, b.TempDir()), 10_000)
	}
}
