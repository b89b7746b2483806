package snapshot

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/base/remedy"
)

// This file reads what torch.profiler's export_chrome_trace writes (Kineto, torch/csrc/autograd/profiler_kineto.cpp):
// its "[memory]" events are allocations and frees with addresses, of the CPU too, and the slices around one of them on
// its thread are its stack.

// profilerHead is how much of a file is looked at to tell what it is, in bytes.
const profilerHead = 4 << 10

var timelineHead = pattern.Of(`^\[\s*\[`)

// recogniseJSON tells a profiler's trace from other files that begin like JSON. A memory timeline is refused: it has no
// blocks.
func recogniseJSON(head []byte) (trace bool, err error) {
	head = bytes.TrimLeft(head, " \t\r\n")
	switch {
	case timelineHead().Match(head):
		return false, remedy.Add(atByte(0, "a memory timeline of torch.profiler has levels, but no allocations"),
			"export_chrome_trace of a profile with profile_memory=True, with_stack=True has them")
	case len(head) == 0 || head[0] != '{' && head[0] != '[':
		return false, nil
	}
	return bytes.Contains(head, []byte(`"traceEvents"`)) || bytes.Contains(head, []byte(`"schemaVersion"`)) ||
		bytes.Contains(head, []byte(`"ph"`)), nil
}

// traceEvent is an event of the trace, as far as it is looked at.
type traceEvent struct {
	Ph, Cat, Name string
	TID           json.RawMessage
	TS, Dur       float64 // µs
	Args          json.RawMessage
}

// memoryArgs are those of a "[memory]" event.
type memoryArgs struct {
	Bytes      int64
	Addr       uint64
	DeviceID   int   `json:"Device Id"`
	DeviceType int   `json:"Device Type"`
	Reserved   int64 `json:"Total Reserved"`
}

// The types of devices, as the trace has them (c10/core/DeviceType.h).
const typeCPU = 0

// slice is a stretch of time that something ran.
type slice struct {
	from, to float64
	frame    uint32
	called   int32 // the line of the caller's code; 0 where the trace does not say
	python   bool
}

// memoryEvent is one of a thread, before it is filed under its device.
type memoryEvent struct {
	memoryArgs
	at     float64
	thread string
	frames []Frame
}

// profile is a trace while it is read.
type profile struct {
	limit  *budget
	base   float64 // µs since the epoch, at 0 of the trace
	frames map[Frame]uint32
	list   []Frame
	stacks map[string][]Frame
	slices map[string][]slice
	memory map[string][]memoryEvent
	marks  []slice
}

// costSlice is what a slice takes, in bytes.
const costSlice = 40

// readProfile reads a trace into columns.
func readProfile(ctx context.Context, r io.Reader, disk *counter, most int64) (*Columns, error) {
	p := &profile{
		limit: &budget{most}, frames: map[Frame]uint32{}, stacks: map[string][]Frame{}, slices: map[string][]slice{},
		memory: map[string][]memoryEvent{},
	}
	cut, err := p.read(ctx, &spaced{Reader: &bounded{Reader: r, packed: disk}})
	if err != nil {
		return nil, err
	}
	s, names := p.snapshot()
	if p.limit.left < 0 {
		return nil, errTooMuch(disk.n.Load())
	}
	if len(s.Traces) == 0 {
		if cut != nil {
			return nil, cut
		}
		return nil, remedy.Add(atByte(0, "the profiler's trace has no memory events"),
			"record it with torch.profiler.profile(profile_memory=True, with_stack=True)")
	}
	var pickle bytes.Buffer
	if err := WritePickle(&pickle, s); err != nil {
		return nil, err
	}
	c, err := readColumns(ctx, &pickle, nil, most)
	if err != nil {
		return nil, err
	}
	c.Format, c.DeviceNames, c.Cut = ProfilerTrace, names, cut
	return c, nil
}

// read goes through the file. cut says where it ended before its time.
func (p *profile) read(ctx context.Context, r io.Reader) (cut, err error) {
	d := json.NewDecoder(r)
	wrong := func(err error) (error, error) {
		switch at := d.InputOffset(); {
		case errors.Is(err, ErrFormat), ctx.Err() != nil:
			return nil, err
		case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
			return atByte(at, "trace is cut short"), nil
		default:
			return nil, atByte(at, "profiler's trace: %v", err)
		}
	}
	t, err := d.Token()
	if err != nil {
		return wrong(err)
	}
	if t == json.Delim('[') {
		if err := p.events(ctx, d); err != nil {
			return wrong(err)
		}
		return nil, nil
	}
	for d.More() {
		key, err := d.Token()
		if err == nil {
			err = p.member(ctx, d, key)
		}
		if err != nil {
			return wrong(err)
		}
	}
	if _, err := d.Token(); err != nil {
		return wrong(err)
	}
	return nil, nil
}

// member reads what stands behind a key of the outermost object.
func (p *profile) member(ctx context.Context, d *json.Decoder, key json.Token) error {
	switch key {
	case "traceEvents":
		t, err := d.Token()
		if err == nil && t != json.Delim('[') {
			err = fmt.Errorf("traceEvents is not a list")
		}
		if err != nil {
			return err
		}
		return p.events(ctx, d)
	case "baseTimeNanoseconds":
		var ns float64
		err := d.Decode(&ns)
		p.base = ns / 1e3
		return err
	}
	var other json.RawMessage
	return d.Decode(&other)
}

// events reads the rest of a list of events.
func (p *profile) events(ctx context.Context, d *json.Decoder) error {
	for n := 0; d.More(); n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return fmt.Errorf("read trace: %w", ctx.Err())
		}
		var e traceEvent
		if err := d.Decode(&e); err != nil {
			return err
		}
		if err := p.event(&e); err != nil {
			return fmt.Errorf("event %d: %w", n, err)
		}
		if p.limit.left < 0 {
			return errTooMuch(d.InputOffset())
		}
	}
	_, err := d.Token()
	return err
}

// event keeps what tells of memory, and what may be part of a stack.
func (p *profile) event(e *traceEvent) error {
	thread := string(e.TID)
	switch {
	case e.Name == "[memory]":
		m := memoryEvent{at: e.TS, thread: thread}
		if err := json.Unmarshal(e.Args, &m.memoryArgs); err != nil {
			return err
		}
		p.memory[thread] = append(p.memory[thread], m)
		p.limit.take(costRow)
	case e.Ph == "X" && (e.Cat == "python_function" || e.Cat == "cpu_op" || e.Cat == "user_annotation"):
		var args struct{ CallFrom string }
		if e.Cat == "python_function" {
			_ = json.Unmarshal(e.Args, &args) // what it does not say is not known
		}
		s := slice{from: e.TS, to: e.TS + e.Dur, frame: p.frame(e.Name), python: e.Cat == "python_function",
			called: callLine(args.CallFrom)}
		p.slices[thread] = append(p.slices[thread], s)
		if e.Cat == "user_annotation" {
			p.marks = append(p.marks, s)
		}
		p.limit.take(costSlice)
	}
	return nil
}

// callLine is the line in "train.py:20".
func callLine(text string) int32 {
	at := len(text)
	for at > 0 && text[at-1] >= '0' && text[at-1] <= '9' {
		at--
	}
	line, _ := strconv.ParseInt(text[at:], 10, 32) // nothing is 0
	return int32(line)
}

var pythonName = pattern.Of(`^(.+)\(([0-9]+)\): (.+)$`)

// frame numbers what a slice is called: "train.py(12): step", "nn.Module: Linear_0", "aten::linear".
func (p *profile) frame(name string) uint32 {
	f := Frame{Name: name}
	if m := pythonName().FindStringSubmatch(name); m != nil {
		line, _ := strconv.Atoi(m[2]) // digits only
		f = Frame{File: m[1], Line: line, Name: m[3]}
	}
	return p.number(f)
}

func (p *profile) number(f Frame) uint32 {
	id, ok := p.frames[f]
	if !ok {
		id = uint32(len(p.list))
		p.frames[f], p.list = id, append(p.list, f)
		p.limit.take(2*costFrame + int64(len(f.Name)+len(f.File)))
	}
	return id
}

// snapshot files the events under their devices, in the order of time. The CPU comes behind the devices that have
// numbers.
func (p *profile) snapshot() (*Snapshot, map[int]string) {
	var all []memoryEvent
	for thread, list := range p.memory {
		p.stack(p.slices[thread], list)
		all = append(all, list...)
	}
	slices.SortStableFunc(all, func(a, b memoryEvent) int {
		return cmp.Or(cmp.Compare(a.at, b.at),
			cmp.Compare(a.thread, b.thread))
	})
	cpu := 0
	for _, m := range all {
		if m.DeviceType != typeCPU {
			cpu = max(cpu, min(m.DeviceID, maxDevices-2)+1)
		}
	}
	s, names, reserved := &Snapshot{}, map[int]string{}, map[int]int64{}
	for _, m := range all {
		device := cpu
		if m.DeviceType == typeCPU {
			names[cpu] = "CPU"
		} else if device = m.DeviceID; device < 0 || device >= maxDevices-1 {
			continue
		}
		p.add(s, device, m, reserved)
	}
	for device, events := range s.Traces {
		if len(events) == 0 || !p.limit.take(4*costFrame*int64(len(p.marks))) {
			continue
		}
		for _, mark := range p.marks {
			name := p.list[mark.frame].Name
			s.Annotations = append(s.Annotations, Annotation{"START", name, device, p.time(mark.from)},
				Annotation{"END", name, device, p.time(mark.to)})
		}
	}
	return s, names
}

// add appends a memory event, and before it what its device's allocator got from the driver or gave back.
func (p *profile) add(s *Snapshot, device int, m memoryEvent, reserved map[int]int64) {
	at := p.time(m.at)
	if change := m.Reserved - reserved[device]; change > 0 {
		s.addEvent(Event{Action: SegmentAlloc, Device: device, Size: change, Time: at, Frames: m.frames})
	} else if change < 0 {
		s.addEvent(Event{Action: SegmentFree, Device: device, Size: -change, Time: at, Frames: m.frames})
	}
	reserved[device] = m.Reserved
	e := Event{Action: Alloc, Device: device, Addr: m.Addr, Size: m.Bytes, Time: at, Frames: m.frames}
	if m.Bytes < 0 {
		e.Action, e.Size = FreeCompleted, -max(m.Bytes, -math.MaxInt64)
	}
	s.addEvent(e)
}

func (p *profile) time(us float64) int64 { return int64(math.Round(p.base + us)) }

// stack gives memory events of a thread the slices that were open then.
func (p *profile) stack(around []slice, events []memoryEvent) {
	slices.SortStableFunc(around, func(a, b slice) int {
		return cmp.Or(cmp.Compare(a.from, b.from),
			cmp.Compare(b.to, a.to))
	})
	slices.SortStableFunc(events, func(a, b memoryEvent) int { return cmp.Compare(a.at, b.at) })
	var open []slice
	next := 0
	for i := range events {
		at := events[i].at
		for ; next < len(around) && around[next].from <= at; next++ {
			open = append(ended(open, around[next].from), around[next])
		}
		open = ended(open, at)
		events[i].frames = p.framesOf(open)
	}
}

// ended takes off what was over at a moment.
func ended(open []slice, at float64) []slice {
	for len(open) > 0 && open[len(open)-1].to < at {
		open = open[:len(open)-1]
	}
	return open
}

// maxOpen is how deep a stack may be; the innermost frames stay. Python's own limit is 1,000 calls, each with an
// operator or two.
const maxOpen = 4000

// framesOf is a stack, innermost first. A function's line is that from which it called the next one; that of the
// innermost is where it begins, since the trace has no other.
func (p *profile) framesOf(open []slice) []Frame {
	var key []byte
	var ids []uint32
	called := int32(0)
	for _, s := range slices.Backward(open[max(0, len(open)-maxOpen):]) {
		id := s.frame
		if s.python {
			if f := p.list[id]; called > 0 && f.File != "" {
				f.Line = int(called)
				id = p.number(f)
			}
			called = s.called
		}
		ids, key = append(ids, id), binary.LittleEndian.AppendUint32(key, id)
	}
	stack, ok := p.stacks[string(key)]
	if !ok {
		for _, id := range ids {
			stack = append(stack, p.list[id])
		}
		p.stacks[string(key)] = stack
		p.limit.take(int64(len(ids)) * costFrame)
	}
	return stack
}

// peekTrace looks whether a profiler's trace begins here.
func peekTrace(r io.Reader) (*bufio.Reader, bool, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	head, _ := in.Peek(profilerHead) // a shorter file gives what it has
	trace, err := recogniseJSON(head)
	return in, trace, err
}
