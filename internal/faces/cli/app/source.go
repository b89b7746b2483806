package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/faces/source"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/formats/doc"
)

// Reach dials a hub.
type Reach func(way source.Way, wait time.Duration) (source.Fleet, error)

// Source is what the command line means. It is looked for once, and left with the command's end.
func (a *App) Source() (*source.Source, error) {
	if a.source != nil {
		return a.source, nil
	}
	s, err := a.find()
	if err != nil {
		return nil, err
	}
	if a.source = s; s.Note() != "" {
		plain.Fprintf(a.Stderr, "memgauge: %s\n", s.Note())
	}
	return s, nil
}

func (a *App) find() (*source.Source, error) {
	switch {
	case a.Far != nil:
		return source.Of(*a.Far), nil
	case a.SessionDir != "":
		t, err := ask.At(a.SessionDir)
		if err != nil {
			return nil, err
		}
		return source.Of(t), nil
	case a.wrong != nil:
		return nil, Usage(a.wrong)
	case a.Apart && a.Endpoint.Many:
		return nil, Usage(fmt.Errorf("endpoint %q: many machines can't be asked here", a.said))
	}
	return source.Open(a.Endpoint, func() (source.Fleet, error) {
		way := a.Hub.Way
		way.Addr = a.Endpoint.Hub
		if a.Reach != nil {
			return a.Reach(way, a.Hub.Wait)
		}
		there, err := way.Reach(a.Hub.Wait)
		if err != nil {
			return nil, err
		}
		var once sync.Once // a command may ask more than one thing of them
		there.Waits = func(nodes []string, most time.Duration) { once.Do(func() { a.waits(nodes, most) }) }
		return there, nil
	})
}

// waits names the nodes that a command waits for.
func (a *App) waits(nodes []string, most time.Duration) {
	plain.Fprintf(a.Stderr, "memgauge: waiting for %s (%s), since %s; without them the answer comes after %s more\n",
		doc.Plural(len(nodes), "node"), SomeOf(nodes), units.Duration(a.Hub.Wait), units.Duration(most))
}

// leave closes what the command has asked.
func (a *App) leave() {
	if a.source != nil {
		a.source.Close()
		a.source = nil
	}
}

// Needs is an error where what the command line means can't be asked something.
func (a *App) Needs(r source.Role) error {
	s, err := a.Source()
	if err != nil {
		return err
	}
	return s.Need(r)
}

// Target is the session that the command line means.
func (a *App) Target(ctx context.Context) (t ask.Target, err error) {
	s, err := a.Source()
	if err != nil {
		return t, err
	}
	t, missing, err := s.One(ctx, a.command)
	a.missOnce(missing)
	return a.within(t), err
}

// within is a session as whoever asks may see it.
func (a *App) within(t ask.Target) ask.Target {
	if a.Apart {
		t = t.Apart()
	}
	return t.Limited(a.Rights)
}

// Members are the sessions that the command line means.
func (a *App) Members(ctx context.Context) ([]source.Member, error) {
	s, err := a.Source()
	if err != nil {
		return nil, err
	}
	if err := s.Need(source.Session); err != nil {
		return nil, err
	}
	list, missing, err := s.Members(ctx)
	a.missOnce(missing)
	if err == nil && len(list) == 0 {
		err = source.ErrNobody
	}
	list = slices.Clone(list)
	for i := range list {
		list[i].Target = a.within(list[i].Target)
	}
	return list, err
}

// Narrow says whether one session is meant, as it is on one machine.
func (a *App) Narrow(ctx context.Context) (bool, error) {
	_, err := a.Members(ctx)
	return err == nil && a.source.Narrow(), err
}

// Lake is where the lake lies that the command line means; "": it means none.
func (a *App) Lake() string {
	if a.found() {
		return ""
	}
	return a.Endpoint.Lake
}

// Connect finds the session and connects to it.
func (a *App) Connect(ctx context.Context) (api.Session, error) {
	t, err := a.Target(ctx)
	if err != nil {
		return nil, err
	}
	return t.Connect(ctx)
}

// missOnce is Miss for members, which are the same however often they are asked for.
func (a *App) missOnce(missing []fanout.Missing) {
	if len(a.missing) == 0 {
		a.Miss(missing)
	}
}

// maxMissing bounds the lines about nodes that did not answer.
const maxMissing = 20

// Miss names the nodes that did not answer. With --strict the command fails for them.
func (a *App) Miss(missing []fanout.Missing) {
	a.missing = append(a.missing, missing...)
	for _, m := range missing[:min(len(missing), maxMissing)] {
		plain.Fprintf(a.Stderr, "memgauge: node %s is missing: %s, last heard of %s\n", m.Node, m.Why,
			units.Age(m.Seen, time.Now()))
	}
	if more := len(missing) - maxMissing; more > 0 {
		plain.Fprintf(a.Stderr, "memgauge: and %d more nodes are missing (--json names them)\n", more)
	}
}

// strictly is a command's error where nodes that did not answer are one.
func (a *App) strictly(err error) error {
	if !a.Hub.Strict || len(a.missing) == 0 {
		return err
	}
	absent := fmt.Errorf("%s did not answer", doc.Plural(len(a.missing), "node"))
	if err == nil || IsExit(err) && errors.Unwrap(err) == nil {
		return Exit(ExitFailed, absent)
	}
	return Exit(ExitFailed, errors.Join(err, absent))
}
