package hub

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/memgauge/memgauge/internal/fleet/fanout"
)

// A name that is new is on the disk before its node is let in. The roster's file has all nodes with what each has said,
// so new names are put behind others in a file of their own, a line each, until the roster is written the next time.

const (
	journalFile = "nodes.log"
	// maxJournal bounds it, in bytes: beyond, the roster is written at once. Names come at a bounded rate, and the
	// roster is written every 10 s: 10,000 names of 100 bytes are 2 MB.
	maxJournal = 8 << 20
)

// entry is a line.
type entry struct {
	Name  string    `json:"name"`
	Key   string    `json:"key"`
	Since time.Time `json:"since"`
}

// readJournal takes the names that came after the roster was written last. A line that is none, such as one that the
// hub was killed at, is left out and counted: its node was not let in.
func (r *roster) readJournal() error {
	f, err := r.dir.Open(journalFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the roster: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 2*maxJournal))
	if err != nil {
		return fmt.Errorf("read the roster: %w", err)
	}
	r.dirty, r.logged, r.cut = true, len(text), true // it goes when the roster is written
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var e entry
		err := json.Unmarshal(line, &e)
		n := &known{Key: e.Key, Since: e.Since, Node: fanout.Node{Name: e.Name, Seen: e.Since, Jobs: []string{}}}
		before := r.nodes[e.Name]
		switch {
		case err != nil || e.Key == "" || !n.sane(e.Name) || before == nil && len(r.nodes) >= maxNodes:
			r.left++
		case before == nil || before.Key != e.Key && e.Since.After(before.Since):
			r.nodes[e.Name] = n
		}
	}
	return nil
}

// journal puts the names behind the others that must be on the disk, for who holds write.
func (r *roster) journal() error {
	text, turn := r.fresh()
	if r.logged+len(text) > maxJournal {
		return r.put()
	}
	if len(text) > 0 {
		if err := r.append(text); err != nil {
			return fmt.Errorf("write the roster: %w", err)
		}
	}
	r.settled = turn
	return nil
}

// fresh are the lines of names that are on no disk yet, and up to which turn.
func (r *roster) fresh() (text []byte, turn uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range r.unkept {
		n := r.nodes[name]
		if n == nil || n.turn <= r.settled {
			continue // it has gone, or is there
		}
		line, err := json.Marshal(entry{name, n.Key, n.Since})
		if err == nil { // always: it is of texts
			text = append(append(text, line...), '\n')
		}
	}
	return text, r.turn
}

// append writes and syncs. What is behind a line that was cut begins on one of its own.
func (r *roster) append(text []byte) (err error) {
	f, err := r.dir.Append(journalFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if r.cut {
		text = append([]byte{'\n'}, text...)
	}
	r.cut, r.saves = true, r.saves+1
	n, err := f.Write(text)
	before := r.logged
	r.logged += n
	if err == nil {
		err = f.Sync()
	}
	if err == nil && before == 0 {
		err = r.dir.Sync()
	}
	r.cut = err != nil
	return err
}

// endJournal removes it, for who holds write and has written the roster. One that stays is read again, and tells of
// nothing that the roster has not.
func (r *roster) endJournal() {
	if r.dir.Remove(journalFile) == nil {
		r.logged, r.cut = 0, false
	}
}

// keptAll forgets the names that are on the disk.
func (r *roster) keptAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.unkept[:0]
	for _, name := range r.unkept {
		if n := r.nodes[name]; n != nil && n.turn > r.settled {
			left = append(left, name)
		}
	}
	r.unkept = left
}
