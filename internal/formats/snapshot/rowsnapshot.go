package snapshot

// Snapshot makes of columns what programs that follow a history event by event want: structs. It takes some 150 bytes
// an event. The result does not refer to the columns.
func (c *Columns) Snapshot() *Snapshot {
	s := &Snapshot{Annotations: c.Annotations, Settings: c.Settings}
	stacks := make([][]Frame, c.Stacks())
	frames := make([]Frame, c.Frames())
	texts := make([]string, c.Texts())
	for i := range texts {
		texts[i] = c.Text(uint32(i))
	}
	text := func(id uint32) string {
		if id == NoText {
			return ""
		}
		return texts[id]
	}
	for i := range frames {
		name, file, line := c.FrameTexts(uint32(i))
		frames[i] = Frame{File: text(file), Line: line, Name: text(name)}
	}
	for i := 1; i < len(stacks); i++ {
		for _, f := range c.StackFrames(uint32(i)) {
			stacks[i] = append(stacks[i], frames[f])
		}
	}
	for _, g := range c.Segments {
		out := c.segment(g)
		out.Frames = stacks[g.Stack]
		for i := range out.Blocks {
			out.Blocks[i].Frames = stacks[c.Blocks[g.From+i].Stack]
		}
		s.Segments = append(s.Segments, out)
	}
	for _, r := range c.Rows {
		for len(s.Traces) <= r.Device {
			s.Traces = append(s.Traces, nil)
		}
		events := make([]Event, 0, r.To-r.From)
		for i := r.From; i < r.To; i++ {
			events = append(events, c.event(i, stacks, text))
		}
		s.Traces[r.Device] = events
	}
	return s
}

// segment is a segment without its stacks.
func (c *Columns) segment(g SegmentRow) Segment {
	out := Segment{
		Device: g.Device, Address: g.Address, Size: g.Size, Allocated: g.Allocated, Active: g.Active,
		Requested: g.Requested, Stream: g.Stream, Kind: c.Text(g.Kind), Pool: g.Pool, Expandable: g.Expandable,
	}
	for _, b := range c.Blocks[g.From:g.To] {
		out.Blocks = append(out.Blocks, Block{Address: b.Address, Size: b.Size, Requested: b.Requested, State: b.State})
	}
	return out
}

func (c *Columns) event(i int, stacks [][]Frame, text func(uint32) string) Event {
	e := Event{
		Action: Action(c.Actions[c.Action[i]]), Device: int(c.Device[i]), Addr: c.Addr[i], Size: c.Size[i],
		Stream: c.Streams[c.Stream[i]], Time: c.Time[i], Frames: stacks[c.Stack[i]], Context: text(c.Context[i]),
		Metadata: text(c.Metadata[i]),
	}
	if c.Action[i] == IsOOM {
		e.Addr, e.DeviceFree = 0, int64(c.Addr[i])
	}
	if c.Thread != nil {
		e.Thread = c.Thread[i]
	}
	return e
}
