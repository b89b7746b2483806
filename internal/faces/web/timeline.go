package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/judge/anatomy"
)

// This file makes a page of one snapshot that needs no server: its timeline, with the answers inside.

// heldShot is what the page of a snapshot carries, by the questions that it would ask a server.
type heldShot struct {
	Version string                `json:"version"`
	Answers map[string]any        `json:"answers"`
	Tiles   map[string][]heldTile `json:"tiles"`  // by device, coarse first
	Blocks  map[string]heldBlocks `json:"blocks"` // by device: those that are in a tile, or listed at a moment
	Stacks  map[uint32]heldStack  `json:"stacks"`
	Frames  map[uint32]shotFrame  `json:"frames"`
	Texts   [][]string            `json:"texts"` // that are attached to some block together

	texts map[string]int // where they are
}

type heldTile struct {
	Level int    `json:"level"`
	Index int    `json:"index"`
	Bytes []byte `json:"bytes"` // see drawn
}

// heldBlocks are blocks in columns, sorted by ID.
type heldBlocks struct {
	ID    []uint32 `json:"id"`
	Bytes []int64  `json:"bytes"`
	From  []int    `json:"from"`
	To    []int    `json:"to"`
	Made  []bool   `json:"made"`
	Freed []bool   `json:"freed"`
	Began []int64  `json:"began"`
	Ended []int64  `json:"ended"`
	Addr  []string `json:"addr"`
	Use   []string `json:"use"`
	Stack []uint32 `json:"stack"`
	// Attached are indices in Texts.
	Attached []int `json:"attached"`
}

type heldStack struct {
	Site   string   `json:"site"`
	Frames []uint32 `json:"frames"`
}

const (
	// heldBoxes bounds the boxes of all tiles: what the page takes, and how deep one can zoom. The coarsest tile of
	// each device is there whatever it has.
	heldBoxes = 120_000
	// heldMoments is how many moments of a device are there, beside the peak, the end and the OOMs: each takes 3 kB.
	heldMoments = 64
	// heldLargest is how many blocks are listed at a moment.
	heldLargest = 20
	// heldHeight is into how many parts the highest level is cut: smaller blocks are not drawn one by one.
	heldHeight = 1024
)

// WriteTimeline writes a history as a page that needs no server: its blocks over time, as far as there is room; what
// was live at moments; flame graphs of the peak and of the end; the segments.
func WriteTimeline(ctx context.Context, w io.Writer, h *anatomy.History, name string, size int64,
	version string) error {
	x := &shot{key: "1", name: name, origin: "file", history: h, boxes: map[int]*anatomy.Boxes{}}
	x.read.Store(size)
	x.total.Store(size)
	out := &heldShot{Version: version, Answers: map[string]any{},
		Tiles: map[string][]heldTile{}, Blocks: map[string]heldBlocks{}, Stacks: map[uint32]heldStack{},
		Frames: map[uint32]shotFrame{}, texts: map[string]int{}}
	for _, d := range h.Devices {
		x.boxes[d.Number] = h.Boxes(d)
	}
	told := h.Told()
	if len(told) == 0 {
		return anatomy.ErrNoDevice
	}
	c := cover{Name: name}
	for _, d := range told {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := pictured{shot: x, d: d, boxes: x.boxes[d.Number]}
		if err := out.hold(p, heldBoxes/len(told)); err != nil {
			return err
		}
		c.Lines = append(c.Lines, fmt.Sprintf("device %d: %s at the peak, %d events", d.Number, units.Bytes(d.PeakLive),
			d.To-d.From))
	}
	shown := x.shown(true)
	out.Answers[""], out.Answers["list"] = shown, []any{shown}
	return writePage(w, c, "timeline.js", out)
}

// hold takes in a device, with about so many boxes.
func (out *heldShot) hold(p pictured, boxes int) error {
	device := strconv.Itoa(p.d.Number)
	ids := map[uint32]bool{}
	out.tiles(p, device, boxes, ids)
	for _, event := range heldEvents(p) {
		q := fmt.Sprintf("?device=%s&event=%d", device, event)
		p.q = params{"event": {strconv.Itoa(event)}}
		v, err := momentOf(p)
		if err != nil {
			return err
		}
		m, ok := v.(moment)
		if !ok {
			return errors.New("hold: not a moment")
		}
		m.Blocks = m.Blocks[:min(len(m.Blocks), heldLargest)]
		for _, b := range m.Blocks {
			ids[b.ID] = true
		}
		out.Answers["moment"+q] = m
	}
	for _, event := range []int{p.d.Peak - p.d.From, p.boxes.Len() - 1} {
		out.Answers[fmt.Sprintf("flame?device=%s&event=%d", device, event)] = p.flame(event, mostHeld)
	}
	segments, err := segmentsOf(p)
	if err != nil {
		return err
	}
	out.Answers["segments?device="+device] = segments
	out.blocks(p, device, ids)
	return nil
}

// attached is the index of texts: many blocks have the same.
func (out *heldShot) attached(texts []string) int {
	key := strings.Join(texts, "\x00")
	at, known := out.texts[key]
	if !known {
		at = len(out.Texts)
		out.texts[key] = at
		out.Texts = append(out.Texts, append([]string{}, texts...))
	}
	return at
}

// tiles takes whole levels, the coarsest first, as long as there is room.
func (out *heldShot) tiles(p pictured, device string, boxes int, ids map[uint32]bool) {
	if p.boxes.Len() == 0 {
		return
	}
	top := 0
	for (p.boxes.Len()-1)>>top >= anatomy.TileColumns {
		top++
	}
	least := max(512, p.d.PeakLive/heldHeight)
	for level := top; level >= 0 && boxes > 0; level-- {
		for _, t := range p.level(level, least) {
			boxes -= len(t.Boxes)
			for _, b := range t.Boxes {
				if b.ID != anatomy.Rest {
					ids[b.ID] = true
				}
			}
			out.Tiles[device] = append(out.Tiles[device], heldTile{level, t.Index, p.drawn(t)})
		}
	}
}

// level draws all tiles of a level with one least size: where they had several, blocks would seem to begin at the
// border of two tiles.
func (p pictured) level(level int, least int64) (tiles []anatomy.BoxTile) {
	last := (p.boxes.Len() - 1) >> level / anatomy.TileColumns
	for {
		tiles = tiles[:0]
		most := least
		for index := range last + 1 {
			t, ok := p.boxes.Tile(level, index, least)
			if !ok {
				return nil
			}
			tiles, most = append(tiles, t), max(most, t.Least)
		}
		if most == least {
			return tiles
		}
		least = most
	}
}

// heldEvents are the moments that the page tells: the peak, the end, the OOMs, and others at equal distances.
func heldEvents(p pictured) (events []int) {
	n := p.boxes.Len()
	seen := map[int]bool{}
	add := func(event int) {
		if event >= -1 && event < max(1, n) && !seen[event] {
			seen[event] = true
			events = append(events, event)
		}
	}
	add(p.d.Peak - p.d.From)
	add(n - 1)
	for _, oom := range p.device(p.d).OOMs {
		add(oom)
	}
	for i := range heldMoments {
		add(n * i / heldMoments)
	}
	return events
}

// blocks takes in what is said of blocks, and their stacks once each.
func (out *heldShot) blocks(p pictured, device string, ids map[uint32]bool) {
	var all heldBlocks
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		b, ok := p.block(id, false)
		if !ok {
			continue
		}
		drawn, _ := p.boxes.Block(id)
		all.ID, all.Bytes = append(all.ID, id), append(all.Bytes, b.Bytes)
		all.From, all.To = append(all.From, b.From), append(all.To, b.To)
		all.Made, all.Freed = append(all.Made, b.Made), append(all.Freed, b.Freed)
		all.Began, all.Ended = append(all.Began, b.Began), append(all.Ended, b.Ended)
		all.Addr, all.Use = append(all.Addr, b.Addr), append(all.Use, b.Use)
		all.Stack = append(all.Stack, drawn.Stack)
		all.Attached = append(all.Attached, out.attached(p.boxes.Attached(id)))
		if _, known := out.Stacks[drawn.Stack]; known {
			continue
		}
		stack := heldStack{Site: b.Site, Frames: []uint32{}}
		for _, f := range p.frames(drawn.Stack) {
			stack.Frames = append(stack.Frames, f.Frame)
			out.Frames[f.Frame] = f
		}
		out.Stacks[drawn.Stack] = stack
	}
	out.Blocks[device] = all
}
