package web

import (
	"cmp"
	"context"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/formats/flame"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/internal/judge/anatomy"
)

// burned is a frame of a flame graph, as the page draws it.
type burned struct {
	Name     string    `json:"name"`
	File     string    `json:"file,omitempty"`
	Line     int       `json:"line,omitempty"`
	Bytes    int64     `json:"bytes"`
	Before   int64     `json:"before,omitempty"` // of what it is compared with
	Blocks   int       `json:"blocks"`
	Children []*burned `json:"children,omitempty"`
}

const (
	// leastFlame is the share of the whole below which a frame is left out: less than a pixel of most screens.
	leastFlame = 5e-4
	// Frames that are sent, and that a report carries, at most.
	mostServed = 20000
	mostHeld   = 8000
)

// burnedOf is a graph without what could not be seen, the larger first.
func burnedOf(g *flame.Graph, most int) *burned {
	return burn(g.Root, int64(leastFlame*float64(max(g.Root.Value, g.Root.Before))), &most)
}

func burn(n *flame.Node, least int64, left *int) *burned {
	*left--
	v := &burned{Name: n.Name, File: n.File, Line: n.Line, Bytes: n.Value, Before: n.Before, Blocks: n.Blocks}
	order.Stable(n.Children, func(a, b *flame.Node) int {
		return cmp.Compare(max(b.Value, b.Before), max(a.Value, a.Before))
	})
	for _, c := range n.Children {
		if max(c.Value, c.Before) < least || *left <= 0 {
			break
		}
		v.Children = append(v.Children, burn(c, least, left))
	}
	return v
}

const flameBudget = 1 << 30 // bytes that reading a snapshot for a report may keep

// drawnFlame is what was live at the peak of the snapshot that a session keeps, by the stacks that allocated it.
type drawnFlame struct {
	File   string  `json:"file"`
	Device int     `json:"device"`
	Live   int64   `json:"live"` // bytes
	Root   *burned `json:"root"`
	Error  string  `json:"error,omitempty"` // why it can't be drawn
}

// flameOf reads the snapshot that a session keeps, of the device that had most. One that can't be read says why.
func flameOf(ctx context.Context, s api.Files, kept *api.Kept) *drawnFlame {
	if kept == nil {
		return nil
	}
	out := &drawnFlame{File: kept.Path}
	path, err := s.SnapshotFile(ctx)
	if err == nil {
		err = out.read(ctx, path)
	}
	if err != nil {
		out.Error = err.Error()
	}
	return out
}

func (out *drawnFlame) read(ctx context.Context, path string) error {
	f, err := rootdir.OpenNamed(path) // the session names it
	if err != nil {
		return err
	}
	defer f.Close()
	c, err := snapshot.ReadColumns(ctx, f, flameBudget)
	if err != nil {
		return err
	}
	h := anatomy.New(c)
	defer h.Close()
	var most *anatomy.Device
	for _, d := range h.Told() {
		if most == nil || d.PeakLive > most.PeakLive {
			most = d
		}
	}
	if most == nil {
		return anatomy.ErrNoDevice
	}
	g := flame.New("")
	h.Flame(g, most, most.Peak, false)
	out.Device, out.Live, out.Root = most.Number, g.Root.Value, burnedOf(g, mostHeld)
	return nil
}
