package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// describe is the statistics as a text.
func (d *device) describe(window int, what string) (string, error) {
	s, err := d.stats(window)
	if err != nil {
		return "", err
	}
	var view any
	switch what {
	case "genesis":
		view = s.Genesis()
	case "torch":
		view = s.Torch()
	case "summary":
		return s.Summary(fmt.Sprintf("%s device %d", d.driver, d.number)), nil
	case "all":
		return both(&s)
	default:
		return "", fmt.Errorf("memgauge: statistics %q: not one of genesis, torch, all, summary", what)
	}
	text, err := json.Marshal(view)
	return string(text), err
}

// both returns the keys of Genesis and of PyTorch in one object; no key is in both.
func both(s *alloc.Stats) (string, error) {
	ours, err := json.Marshal(s.Genesis())
	if err != nil {
		return "", err
	}
	theirs, err := json.Marshal(s.Torch())
	return string(ours[:len(ours)-1]) + "," + string(theirs[1:]), err
}

// event is a line of memgauge_events: the members that Genesis's documentation promises.
type event struct {
	Kind      string  `json:"kind"` // alloc, free_requested, free_completed, segment_alloc …
	Timestamp float64 `json:"timestamp"`
	Size      int64   `json:"size"`
	Address   *uint64 `json:"address"`               // null where no memory was allocated
	Free      *int64  `json:"device_free,omitempty"` // oom: bytes that the device had left
	Duration  *int64  `json:"duration_ns,omitempty"`
	Lifetime  *int64  `json:"lifetime_ns,omitempty"`
	Hit       *bool   `json:"cache_hit,omitempty"`
	Thread    uint32  `json:"thread_id"`
	Stream    uint64  `json:"stream"`
}

func (d *device) events(n int) (string, error) {
	all := d.Snapshot().Events
	if n >= 0 && n < len(all) {
		all = all[len(all)-n:]
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	for _, e := range all {
		line := event{Kind: e.Kind.String(), Timestamp: float64(e.Time) / 1e9, Size: e.Size, Thread: e.Thread,
			Stream: uint64(e.Stream)}
		if e.Kind == alloc.EventOOM {
			left := int64(e.Addr)
			line.Free = &left
		} else {
			line.Address = &e.Addr
		}
		switch e.Kind {
		case alloc.EventAlloc:
			line.Duration, line.Hit = &e.Span, &e.Hit
		case alloc.EventFree, alloc.EventFreed:
			line.Lifetime = &e.Span
		}
		if err := enc.Encode(line); err != nil {
			return "", fmt.Errorf("memgauge: events: %w", err)
		}
	}
	return out.String(), nil
}

// save writes the state to a file, which appears complete or not at all.
func (d *device) save(path, format string) error {
	s := convert(d.Snapshot(), d.number)
	f, err := os.CreateTemp(dirOf(path), ".memgauge-*")
	if err != nil {
		return fmt.Errorf("memgauge: snapshot: %w", err)
	}
	defer os.Remove(f.Name()) // fails once it is renamed
	switch format {
	case "pickle":
		err = snapshot.WritePickle(f, s)
	case "csv":
		err = snapshot.WriteRMM(f, s, d.number)
	case "jsonl":
		err = snapshot.WriteLines(f, s)
	default:
		err = fmt.Errorf("format %q: not one of pickle, csv, jsonl", format)
	}
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("memgauge: snapshot: %w", err)
	}
	return nil
}

func dirOf(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[:i+1]
		}
	}
	return "."
}

// convert converts the allocator's snapshot into the form that files have.
func convert(from *alloc.Snapshot, device int) *snapshot.Snapshot {
	stacks := map[alloc.StackID][]snapshot.Frame{}
	frames := func(id alloc.StackID) []snapshot.Frame {
		if id == 0 {
			return nil
		}
		if known, ok := stacks[id]; ok {
			return known
		}
		var out []snapshot.Frame
		for _, f := range from.Stack(id) {
			if strings.HasPrefix(f.Func, "runtime.cgocallback") { // a stack of ours, taken where the caller gave none
				out = nil
				break
			}
			out = append(out, snapshot.Frame{File: f.File, Line: f.Line, Name: f.Func})
		}
		stacks[id] = out
		return out
	}
	out := &snapshot.Snapshot{Traces: make([][]snapshot.Event, device+1)}
	for i := range from.Segments {
		out.Segments = append(out.Segments, convertSegment(&from.Segments[i], device, frames))
	}
	for i := range from.Events {
		e := &from.Events[i]
		row := snapshot.Event{Action: snapshot.Action(e.Kind.String()), Device: device, Addr: e.Addr, Size: e.Size,
			Stream: uint64(e.Stream), Time: e.Time / 1000, Thread: uint64(e.Thread), Frames: frames(e.Stack)}
		if e.Kind == alloc.EventOOM {
			row.Addr, row.DeviceFree = 0, int64(e.Addr)
		}
		out.Traces[device] = append(out.Traces[device], row)
	}
	out.Settings = []snapshot.Setting{{Name: "policy", Value: string(from.Policy)}}
	return out
}

func convertSegment(g *alloc.Segment, device int, frames func(alloc.StackID) []snapshot.Frame) snapshot.Segment {
	out := snapshot.Segment{Device: device, Address: g.Addr, Size: g.Size, Allocated: g.Allocated, Active: g.Active,
		Requested: g.Requested, Stream: uint64(g.Stream), Kind: "small", Expandable: g.Virtual}
	if g.Large {
		out.Kind = "large"
	}
	for _, b := range g.Blocks {
		requested := b.Requested
		if b.State == alloc.BlockFree {
			requested = 0
		}
		out.Blocks = append(out.Blocks, snapshot.Block{Address: b.Addr, Size: b.Size, Requested: requested,
			State: snapshot.BlockState(b.State), Frames: frames(b.Stack)})
	}
	return out
}
