package fanout

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/fleet/bus"
)

// slowTrip is a question to n1, which says nothing but what parts has.
func slowTrip(t *testing.T, parts chan Part) *trip {
	t.Helper()
	a := NewAsker(&bus.Conn{}, time.Minute)
	return &trip{way: &way{a: a, s: Session{Node: "n1"}}, ctx: t.Context(), parts: parts, budget: time.Millisecond}
}

// TestSignsOfLife: a node that gives signs of life for ever, before its answer or in the middle of it, is waited for no
// longer than a bound.
func TestSignsOfLife(t *testing.T) {
	for where, ask := range map[string]func(*trip) error{
		"before":     func(x *trip) error { _, err := x.head(); return err },
		"the middle": func(x *trip) error { _, err := io.ReadAll(x); return err },
	} {
		parts, over := make(chan Part), make(chan error, 1)
		x := slowTrip(t, parts)
		go func() { over <- ask(x) }()
		late := time.After(time.Minute)
		for err := error(nil); err == nil; {
			select {
			case parts <- Part{Kind: Body, Node: "n1"}:
			case err = <-over:
				if !errors.Is(err, errSlow) {
					t.Errorf("%s: %v", where, err)
				}
			case <-late:
				t.Fatalf("%s: it is waited for", where)
			}
		}
	}
}

// TestListedAreBounded: whatever a node tells of a session in a list, little is kept.
func TestListedAreBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	s := Session{Job: long, State: long, Ranks: make([]int, 1<<20), PIDs: make([]int, 1<<20), About: api.About{ID: long,
		Name: long, Dir: long, Cwd: long, Host: long, Memgauge: long, Command: []string{"python", long, long}}}
	s.bound()
	if n := len(fmt.Sprint(s.Job, s.State, s.About)); n > 2*maxCommand || len(s.Ranks)+len(s.PIDs) > 2*maxListed {
		t.Errorf("%d bytes, %d ranks", n, len(s.Ranks))
	}
	honest := Session{About: api.About{ID: "1", Name: "a", Command: []string{"python", "train.py"}}}
	if honest.bound(); fmt.Sprint(honest.About.Command) != "[python train.py]" || honest.About.Name != "a" {
		t.Errorf("%+v", honest)
	}
}

// TestFilesOfANode: no file of a node's session is looked for here, whatever the node says of its name and of paths.
func TestFilesOfANode(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	s := NewAsker(&bus.Conn{}, time.Second).Open(Session{Node: "n1", About: api.About{Name: "resnet", Host: host,
		Cwd: "/", Snapshot: &api.Kept{Path: "/etc/passwd"}}})
	defer s.Close()
	if path, err := s.SnapshotFile(t.Context()); path != "" || !errors.Is(err, api.ErrElsewhere) ||
		!strings.Contains(remedy.Of(err), "memgauge resnet snapshot") {
		t.Errorf("%q, %v", path, err)
	}
	if path, err := s.SourceFile(t.Context(), "etc/passwd"); path != "" || !errors.Is(err, api.ErrElsewhere) {
		t.Errorf("%q, %v", path, err)
	}
}
