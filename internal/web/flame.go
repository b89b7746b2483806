package web

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/memgauge/memgauge/internal/anatomy"
	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/flame"
	"github.com/memgauge/memgauge/internal/snapshot"
)

const (
	flameBudget = 1 << 30 // bytes that reading a snapshot may keep
	maxNodes    = 8000    // nodes of a drawing
	// A node below this share of the whole is narrower than a pixel of most screens.
	smallest = 1.0 / 2500
)

// drawnFlame is what was live at the peak of the snapshot that a session keeps, by the stacks that allocated it.
type drawnFlame struct {
	File   string     `json:"file"`
	Device int        `json:"device"`
	Live   int64      `json:"live"` // bytes
	Root   *flameNode `json:"root"`
	Error  string     `json:"error,omitempty"` // why it can't be drawn
}

type flameNode struct {
	Name     string       `json:"n"` // function, file:line
	Bytes    int64        `json:"b"`
	Blocks   int          `json:"k"`
	Children []*flameNode `json:"c,omitempty"`
}

// flameOf reads the snapshot that a session keeps, of the device that had most. One that can't be read says why.
func flameOf(ctx context.Context, kept *api.Kept, host string) *drawnFlame {
	if kept == nil {
		return nil
	}
	out := &drawnFlame{File: kept.Path}
	if here, _ := os.Hostname(); host != here {
		out.Error = "it lies on " + host
		return out
	}
	if err := out.read(ctx, kept.Path); err != nil {
		out.Error = err.Error()
	}
	return out
}

func (out *drawnFlame) read(ctx context.Context, path string) error {
	f, err := os.Open(path)
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
	h.Flame(g, most, most.PeakRow(), false)
	left := maxNodes
	out.Device, out.Live, out.Root = most.Number, g.Root.Value, pruned(g.Root, int64(float64(g.Root.Value)*smallest),
		&left)
	return nil
}

// pruned leaves out what could not be seen.
func pruned(n *flame.Node, below int64, left *int) *flameNode {
	*left--
	out := &flameNode{Name: n.Name, Bytes: n.Value, Blocks: n.Blocks}
	if n.File != "" {
		out.Name = fmt.Sprintf("%s %s:%d", n.Name, n.File, n.Line)
	}
	larger := slices.SortedFunc(slices.Values(n.Children), func(a, b *flame.Node) int {
		return cmp.Compare(b.Value, a.Value)
	})
	for _, c := range larger {
		if c.Value > below && *left > 0 {
			out.Children = append(out.Children, pruned(c, below, left))
		}
	}
	return out
}
