package snapshot

import (
	"math"
)

// This file makes a Snapshot of what torch.cuda.memory._snapshot() and its forerunners pickle. What is there is described at
// the end of torch/cuda/memory.py (_snapshot); keys that are not known are skipped, so that newer ones can be read.

// builder turns values into rows. Frames are shared in the file, and stay so.
type builder struct {
	*unpickler
	out    *Snapshot
	rows   int // made so far; see row
	stacks map[uint64][]Frame
	frames map[uint64]Frame
}

// readTorch reads the pickle of a snapshot: a dict with segments and device_traces, or (torch.cuda.memory_snapshot()) the
// list of segments alone.
func readTorch(data []byte) (*Snapshot, error) {
	u, root, err := unpickle(data)
	if err != nil {
		return nil, err
	}
	b := &builder{unpickler: u, out: &Snapshot{}, stacks: map[uint64][]Frame{}, frames: map[uint64]Frame{}}
	switch root.kind {
	case kList:
		err = b.segments(root)
	case kDict:
		err = b.root(u.seqs[root.bits])
	default:
		err = atByte(0, "pickle holds no dict and no list: not a memory snapshot")
	}
	if err != nil {
		return nil, err
	}
	return b.out, nil
}

func (b *builder) root(s seq) error {
	known := false
	err := b.each(s, func(key string, v value) (err error) {
		switch key {
		case "segments":
			known, err = true, b.segments(v)
		case "device_traces":
			known, err = true, b.traces(v)
		case "external_annotations":
			err = b.annotations(v)
		case "allocator_settings":
			err = b.settings(v)
		}
		return err
	})
	if err == nil && !known {
		err = atByte(s.at, "dict has neither segments nor device_traces: not a memory snapshot")
	}
	return err
}

// each calls f for the text keys of a dict.
func (b *builder) each(s seq, f func(key string, v value) error) error {
	for i := 0; i+1 < len(s.items); i += 2 {
		key, ok := b.str(s.items[i])
		if !ok {
			continue
		}
		if err := f(key, s.items[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// list gives the items of a list; at is the dict that has it.
func (b *builder) list(v value, what string, at int64) ([]value, error) {
	if v.kind == kNone {
		return nil, nil
	}
	if v.kind != kList {
		return nil, atByte(at, "%s is not a list", what)
	}
	return b.seqs[v.bits].items, nil
}

// row opens a dict that becomes a row. An honest file has a dict for each row; one that refers to the same lists again and
// again would otherwise make of a megabyte a trillion rows.
func (b *builder) row(v value, what string, at int64) (seq, error) {
	if v.kind != kDict {
		return seq{}, atByte(at, "%s is not a dict", what)
	}
	if b.rows++; b.rows > len(b.seqs) {
		return seq{}, atByte(b.seqs[v.bits].at, "%s occurs more often than the file has dicts", what)
	}
	return b.seqs[v.bits], nil
}

func (b *builder) segments(v value) error {
	items, err := b.list(v, "segments", 0)
	for _, item := range items {
		s, err := b.row(item, "a segment", 0)
		if err != nil {
			return err
		}
		if err := b.segment(s); err != nil {
			return err
		}
	}
	return err
}

func (b *builder) segment(s seq) error {
	g := Segment{}
	var blocks value
	err := b.each(s, func(key string, v value) (err error) {
		switch key {
		case "device":
			g.Device, err = b.device(v, s.at)
		case "address":
			err = b.address(v, &g.Address, key, s.at)
		case "total_size":
			err = b.size(v, &g.Size, key, s.at)
		case "allocated_size":
			err = b.size(v, &g.Allocated, key, s.at)
		case "active_size":
			err = b.size(v, &g.Active, key, s.at)
		case "requested_size":
			err = b.size(v, &g.Requested, key, s.at)
		case "stream":
			err = b.address(v, &g.Stream, key, s.at)
		case "segment_type":
			g.Kind, _ = b.str(v)
		case "segment_pool_id":
			g.Pool = b.pool(v)
		case "is_expandable":
			g.Expandable = v.kind == kBool && v.bits == 1
		case "frames":
			g.Frames, err = b.stack(v)
		case "blocks":
			blocks = v
		}
		return err
	})
	if err == nil {
		g.Blocks, err = b.blocks(blocks, g.Address, s.at)
	}
	b.out.Segments = append(b.out.Segments, g)
	return err
}

func (b *builder) pool(v value) (id [2]int64) {
	if v.kind != kList || len(b.seqs[v.bits].items) != 2 {
		return id
	}
	for i, x := range b.seqs[v.bits].items {
		id[i], _ = x.integer()
	}
	return id
}

func (b *builder) blocks(v value, address uint64, at int64) ([]Block, error) {
	items, err := b.list(v, "a segment's blocks", at)
	if err != nil {
		return nil, err
	}
	var out []Block
	for _, item := range items {
		s, err := b.row(item, "a block", at)
		if err != nil {
			return nil, err
		}
		block, err := b.block(s, address)
		if err != nil {
			return nil, err
		}
		address = block.Address + uint64(block.Size)
		out = append(out, block)
	}
	return out, nil
}

// block reads a block; torch 1.13 gives no address, so it begins where the last one ended.
func (b *builder) block(s seq, address uint64) (Block, error) {
	k := Block{Address: address, Requested: -1}
	err := b.each(s, func(key string, v value) (err error) {
		switch key {
		case "address":
			err = b.address(v, &k.Address, key, s.at)
		case "size":
			err = b.size(v, &k.Size, key, s.at)
		case "requested_size":
			err = b.size(v, &k.Requested, key, s.at)
		case "state":
			k.State, err = b.state(v, s.at)
		case "frames":
			k.Frames, err = b.stack(v)
		case "history":
			err = b.history(v, &k, s.at)
		}
		return err
	})
	if k.Requested < 0 {
		k.Requested = k.Size
	}
	if err == nil && k.State == "" {
		err = atByte(s.at, "block has no state")
	}
	return k, err
}

func (b *builder) state(v value, at int64) (BlockState, error) {
	text, _ := b.str(v)
	switch text {
	case string(Allocated), string(Inactive):
		return BlockState(text), nil
	case string(PendingFree), "active_awaiting_free":
		return PendingFree, nil
	}
	return "", atByte(at, "block has the unknown state %.40q", text)
}

// history is what torch 1.13 to 2.0 gave instead of frames: the newest allocation first.
func (b *builder) history(v value, k *Block, at int64) error {
	items, err := b.list(v, "a block's history", at)
	if err != nil || len(items) == 0 || items[0].kind != kDict {
		return err
	}
	return b.each(b.seqs[items[0].bits], func(key string, v value) (err error) {
		switch key {
		case "real_size":
			err = b.size(v, &k.Requested, key, at)
		case "frames":
			k.Frames, err = b.stack(v)
		}
		return err
	})
}

func (b *builder) traces(v value) error {
	devices, err := b.list(v, "device_traces", 0)
	if err != nil {
		return err
	}
	if len(devices) > maxDevices {
		return atByte(0, "device_traces has %d devices, more than any machine", len(devices))
	}
	for device, list := range devices {
		items, err := b.list(list, "a device's trace", 0)
		if err != nil {
			return err
		}
		events := make([]Event, 0, min(len(items), len(b.seqs)))
		for _, item := range items {
			s, err := b.row(item, "an event", 0)
			if err != nil {
				return err
			}
			e, err := b.event(s, device)
			if err != nil {
				return err
			}
			events = append(events, e)
		}
		b.out.Traces = append(b.out.Traces, events)
	}
	return nil
}

func (b *builder) event(s seq, device int) (Event, error) {
	e := Event{Device: device}
	err := b.each(s, func(key string, v value) (err error) {
		switch key {
		case "action":
			text, ok := b.str(v)
			e.Action = Action(text)
			if !ok {
				err = atByte(s.at, "event has an action that is not text")
			}
		case "addr":
			err = b.address(v, &e.Addr, key, s.at)
		case "size":
			err = b.size(v, &e.Size, key, s.at)
		case "stream":
			err = b.address(v, &e.Stream, key, s.at)
		case "time_us":
			e.Time, _ = v.integer()
		case "thread": // ours; PyTorch does not say
			err = b.address(v, &e.Thread, key, s.at)
		case "device_free":
			err = b.size(v, &e.DeviceFree, key, s.at)
		case "frames":
			e.Frames, err = b.stack(v)
		case "compile_context":
			e.Context, _ = b.str(v)
		case "user_metadata":
			e.Metadata, _ = b.str(v)
		}
		return err
	})
	if err == nil && e.Action == "" {
		err = atByte(s.at, "event has no action")
	}
	return e, err
}

func (b *builder) device(v value, at int64) (int, error) {
	n, ok := v.integer()
	if !ok || n < 0 || n >= maxDevices {
		return 0, atByte(at, "device is not a number from 0 to %d", maxDevices-1)
	}
	return int(n), nil
}

func (b *builder) address(v value, to *uint64, key string, at int64) error {
	n, ok := v.address()
	if !ok {
		return atByte(at, "%s is not an integer", key)
	}
	*to = n
	return nil
}

// maxSize bounds one size, so that no sum of as many as fit in memory overflows: 2^50 is a thousand terabytes.
const maxSize = 1 << 50

func (b *builder) size(v value, to *int64, key string, at int64) error {
	n, ok := v.integer()
	if !ok || n < 0 || n > maxSize {
		return atByte(at, "%s is not a size in bytes", key)
	}
	*to = n
	return nil
}

// stack reads a list of frames, each list once.
func (b *builder) stack(v value) ([]Frame, error) {
	if v.kind == kNone || v.kind != kList {
		return nil, nil
	}
	if known, ok := b.stacks[v.bits]; ok {
		return known, nil
	}
	s := b.seqs[v.bits]
	var out []Frame
	for _, item := range s.items {
		if item.kind != kDict {
			return nil, atByte(s.at, "a frame is not a dict")
		}
		out = append(out, b.frame(item.bits))
	}
	b.stacks[v.bits] = out
	return out, nil
}

func (b *builder) frame(i uint64) Frame {
	if f, ok := b.frames[i]; ok {
		return f
	}
	var f Frame
	for s := b.seqs[i]; len(s.items) >= 2; s.items = s.items[2:] {
		key, _ := b.str(s.items[0])
		switch key {
		case "filename":
			f.File, _ = b.str(s.items[1])
		case "name":
			f.Name, _ = b.str(s.items[1])
		case "line":
			n, _ := s.items[1].integer()
			f.Line = int(n)
		}
	}
	b.frames[i] = f
	return f
}

func (b *builder) annotations(v value) error {
	items, err := b.list(v, "external_annotations", 0)
	for _, item := range items {
		s, err := b.row(item, "an annotation", 0)
		if err != nil {
			return err
		}
		var a Annotation
		err = b.each(s, func(key string, v value) (err error) {
			switch key {
			case "stage":
				a.Stage, _ = b.str(v)
			case "name":
				a.Name, _ = b.str(v)
			case "device":
				a.Device, err = b.device(v, s.at)
			case "time_us":
				a.Time, _ = v.integer()
			}
			return err
		})
		if err != nil {
			return err
		}
		b.out.Annotations = append(b.out.Annotations, a)
	}
	return err
}

func (b *builder) settings(v value) error {
	s, err := b.row(v, "allocator_settings", 0)
	if err != nil {
		return err
	}
	b.out.Settings, err = b.settingsIn(s, 0)
	return err
}

// settingsIn reads a dict of settings; one of them, roundup_power2_divisions, is a dict itself.
func (b *builder) settingsIn(s seq, depth int) (out []Setting, err error) {
	err = b.each(s, func(key string, v value) error {
		set := Setting{Name: key}
		switch v.kind {
		case kText:
			set.Value, _ = b.str(v)
		case kInt:
			set.Value = int64(v.bits)
		case kBool:
			set.Value = v.bits == 1
		case kFloat:
			set.Value = math.Float64frombits(v.bits)
		case kNone:
		case kDict:
			if depth > 0 {
				return nil
			}
			inner, err := b.row(v, "a setting", s.at)
			if err != nil {
				return err
			}
			if set.Value, err = b.settingsIn(inner, depth+1); err != nil {
				return err
			}
		default:
			return nil
		}
		out = append(out, set)
		return nil
	})
	return out, err
}
