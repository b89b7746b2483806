package web

import (
	"context"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
)

const (
	// maxDoors are kept open beyond their questions: each finished session's is an open database.
	maxDoors = 8
	// doorIdle is how long a session stays open after its last question, so that a page's questions share one opening.
	doorIdle = 30 * time.Second
	tidyEach = 10 * time.Second
)

// doors are open sessions, shared by the questions of pages.
type doors struct {
	sessions Sessions
	rights   api.Rights // of the page, whatever it asks
	mu       sync.Mutex
	open     map[string]*door
}

type door struct {
	api.Session
	id    string
	users int
	last  time.Time
	stale bool // what was made of the session is of before its end: who comes next opens it anew

	overviews overviews
}

// enter opens a session, or shares the opening of others; leave is called when the question is answered.
func (d *doors) enter(ctx context.Context, id string) (*door, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if have := d.open[id]; have != nil && !have.stale {
		have.users++
		return have, nil
	}
	s, err := d.sessions.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	if d.open == nil {
		d.open = map[string]*door{}
	}
	made := &door{Session: api.Limit(s, d.rights), id: id, users: 1}
	d.open[id] = made
	return made, nil
}

// leave ends a question.
func (d *doors) leave(x *door) {
	d.mu.Lock()
	defer d.mu.Unlock()
	x.users--
	x.last = time.Now()
	if x.users == 0 && d.open[x.id] != x { // it was stale, and another one has taken its place
		_ = x.Close()
	}
	d.drop(time.Now())
}

// renew has a session opened anew by who comes next.
func (d *doors) renew(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x := d.open[id]; x != nil {
		x.stale = true
	}
	d.drop(time.Now())
}

// through asks a session.
func (d *doors) through(ctx context.Context, id string, ask func(*door) error) error {
	x, err := d.enter(ctx, id)
	if err != nil {
		return err
	}
	defer d.leave(x)
	return ask(x)
}

// drop closes what nobody has asked for a while, what is stale, and the oldest beyond maxDoors.
func (d *doors) drop(now time.Time) {
	var oldest *door
	for id, x := range d.open {
		switch {
		case x.users > 0:
		case x.stale || now.Sub(x.last) > doorIdle:
			delete(d.open, id)
			_ = x.Close()
		case oldest == nil || x.last.Before(oldest.last):
			oldest = x
		}
	}
	if len(d.open) > maxDoors && oldest != nil {
		delete(d.open, oldest.id)
		_ = oldest.Close()
	}
}

// tidy closes idle sessions until ctx ends.
func (d *doors) tidy(ctx context.Context) {
	tick := time.NewTicker(tidyEach)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			d.mu.Lock()
			d.drop(now)
			d.mu.Unlock()
		}
	}
}

func (d *doors) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, x := range d.open {
		delete(d.open, id)
		_ = x.Close()
	}
}
