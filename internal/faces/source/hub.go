package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/hub"
)

// HubDir is where a hub of this machine keeps its files, in the home.
const HubDir = "hub"

// HubHome is the directory of this machine's hub.
func HubHome() (string, error) {
	home, err := ask.Home()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, HubDir), nil
}

// Way is how a hub is reached.
type Way struct {
	Addr   string // "": MEMGAUGE_HUB, else this machine's
	Token  string // file; "": MEMGAUGE_TOKEN_FILE, else what a hub of this machine keeps
	CA     string // file with the authorities of its certificate
	Shared bool   // the token may be readable by others: bus.SharedHint
}

func (w Way) options() (o bus.DialOptions, err error) {
	dir, err := HubHome()
	if err != nil {
		return o, err
	}
	o.URL, o.CA = firstOf(w.Addr, os.Getenv("MEMGAUGE_HUB")), w.CA
	file := firstOf(w.Token, os.Getenv("MEMGAUGE_TOKEN_FILE"))
	if o.URL == "" {
		f, err := hub.Find(dir)
		if err != nil {
			return o, err
		}
		o.URL, o.Plain, o.CA, file = f.Addr, f.Plain, firstOf(o.CA, f.Cert), firstOf(file, f.Creds)
	}
	file = firstOf(file, hub.AskToken(dir))
	if o.Plain {
		return o, nil
	}
	o.Token, err = bus.ReadToken(file, w.Shared)
	if errors.Is(err, os.ErrNotExist) {
		return o, remedy.Add(err, "copy "+hub.AskToken(HubDir)+
			" from the hub's MEMGAUGE_HOME, and name it with --token-file")
	}
	if err == nil && !o.Token.Lets(bus.Asks) {
		return o, remedy.Add(fmt.Errorf("the token in %s lets one be a node, not ask", file),
			"on the hub, hub/ask.token in MEMGAUGE_HOME is the one for that")
	}
	return o, err
}

// Hub is the fleet that a hub knows.
type Hub struct {
	*fanout.Asker
	conn *bus.Conn
}

// Close ends the connection.
func (h *Hub) Close() { h.conn.Close() }

// Reach dials a hub. Nodes have so long to begin their answer.
func (w Way) Reach(wait time.Duration) (*Hub, error) {
	o, err := w.options()
	if err != nil {
		return nil, err
	}
	conn, err := bus.Dial(o)
	if err != nil {
		return nil, err
	}
	return &Hub{fanout.NewAsker(conn, wait), conn}, nil
}

// Status asks the hub how it is.
func (h *Hub) Status(ctx context.Context) (s hub.Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, h.Patience)
	defer cancel()
	b, err := h.Asker.Request(ctx, "status", nil)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return s, fmt.Errorf("ask the hub: %w", err)
	}
	if s.Total == 0 { // a hub of before tells of all its nodes
		s.Total = len(s.Nodes)
		for _, n := range s.Nodes {
			if n.Up {
				s.Up++
			}
		}
	}
	if s.Total > len(s.Nodes) {
		s.Nodes, err = h.Nodes(ctx)
	}
	return s, err
}

// Judged asks the hub for its own verdict.
func (h *Hub) Judged(ctx context.Context, job string) (j hub.Judgement, err error) {
	ctx, cancel := context.WithTimeout(ctx, h.Patience)
	defer cancel()
	text, err := json.Marshal(hub.Judge{Job: job})
	var b []byte
	if err == nil {
		b, err = h.Asker.Request(ctx, "leak", text)
	}
	if err == nil {
		err = json.Unmarshal(b, &j)
	}
	if err != nil {
		return j, fmt.Errorf("ask the hub for its verdict: %w", err)
	}
	return j, nil
}
