package ingest

import (
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/wire"
)

const (
	hostDevice = -1

	// maxOpen bounds the stages of a step that have begun and not ended. Modules nest some tens deep. More open stages
	// come from calls that an exception has ended; the oldest of them are forgotten.
	maxOpen = 1024
)

// rowBuilder makes rows of one ring's records. It keeps state of the current step only, so a new process restores that
// state by reading again what the ring still holds of this step.
type rowBuilder struct {
	in   *Ingester
	r    *ring
	wall int64 // ns since the epoch when CLOCK_MONOTONIC was 0
	mute bool  // make no rows: they are stored already, only the state is restored

	step    stepState
	host    wire.Host // what was read at the end of the step that is going on
	heap    wire.Heap
	devices []wire.Device
	hasHost bool
	hasHeap bool
	text    textState
}

// stepState is the state that the rows of a step share.
type stepState struct {
	number    uint32
	begun     bool
	first     uint64     // ts of its first row
	rows      int32      // so far
	roots     int32      // forwards of a root begun
	maxAlloc  int64      // host: highest so far, Null if none
	maxCached int64      //
	open      [3][]frame // begun and not ended: forward, step, backward
}

// frame is a stage that has begun.
type frame struct {
	ts         uint64
	alloc, max int64
	name       uint32
	device     int8
}

func (d *rowBuilder) reset(in *Ingester, r *ring) {
	*d = rowBuilder{in: in, r: r, wall: r.WallTime(0), devices: d.devices[:0]}
}

func (d *rowBuilder) micros(ts uint64) int64 { return micros(d.wall + int64(ts)) }

// replay restores the state at the end of a chunk whose rows are stored.
func (d *rowBuilder) replay(c *wire.Chunk) {
	d.mute = true
	d.emit(c)
	d.mute = false
}

// emit makes rows of a chunk.
func (d *rowBuilder) emit(c *wire.Chunk) {
	for i := range c.Len() {
		s := c.Slot(i)
		switch wire.SlotKind(s) {
		case wire.KindTrace:
			d.trace(s)
		case wire.KindStep:
			d.endStepBefore12(s)
		case wire.KindStepEnd:
			var end wire.StepEnd
			end.Decode(s)
			d.endStep(&end)
		case wire.KindHost:
			d.host.Decode(s)
			d.hasHost = true
		case wire.KindHeap:
			d.heap.Decode(s)
			d.hasHeap = true
		case wire.KindDevice:
			d.addDevice(s)
		case wire.KindText:
			d.text.add(s)
		case wire.KindEvent:
			d.event(s)
		case wire.KindOverhead:
			d.overhead(s)
		case wire.KindTensors:
			d.tensors(s)
		case wire.KindObjects:
			d.objects(s)
		case wire.KindNone:
			continue // counted by the reader
		default:
			d.unknown(s)
		}
		d.r.lastTS = max(d.r.lastTS, wire.SlotTS(s))
	}
}

// gap resets the state after missing records: ends that follow can't be matched with beginnings before the gap.
func (d *rowBuilder) gap() {
	d.step.clearOpen()
	d.hasHost, d.hasHeap, d.devices = false, false, d.devices[:0]
	d.text = textState{buf: d.text.buf[:0]}
}

func (s *stepState) clearOpen() {
	for i := range s.open {
		s.open[i] = s.open[i][:0]
	}
}

// begin starts a step at its first row.
func (s *stepState) begin(number uint32, ts uint64) {
	s.clearOpen()
	*s = stepState{number: number, begun: true, first: ts, maxAlloc: model.Null, maxCached: model.Null, open: s.open}
}

func (d *rowBuilder) trace(slot *[wire.SlotSize]byte) {
	var t wire.Trace
	t.Decode(slot)
	if int(t.Stage) >= len(wire.Stages) { // of a newer minor version
		d.unknown(slot)
		return
	}
	s := &d.step
	if !s.begun || s.number != t.Step {
		s.begin(t.Step, t.TS)
	}
	if t.Flags&wire.FlagRoot != 0 && t.Stage == preForward {
		s.roots++
	}
	row := model.Trace{
		Time: d.micros(t.TS), PID: int32(d.r.PID), Rank: d.r.Rank, World: d.r.WorldSize,
		Step: int64(t.Step), Micro: max(s.roots-1, 0), Seq: s.rows, Stage: model.Stage(t.Stage), Device: t.Device,
		Allocated: gauge(t.Allocated), MaxAllocated: gauge(t.MaxAllocated), Cached: gauge(t.Cached),
		MaxCached: gauge(t.MaxCached), AllocatedDelta: model.Null, MaxAllocatedDelta: model.Null,
		OffsetNS: min(max(int64(t.TS-s.first), -maxNS), maxNS), DurationNS: model.Null,
	}
	s.rows++
	if t.Device == hostDevice {
		s.peak(&row)
	}
	s.match(&t, &row)
	if !d.mute {
		row.Module = d.in.nameID(d.r, t.Name)
		d.in.batch.Trace = append(d.in.batch.Trace, row)
	}
}

// peak fills the peaks of a host row. The agent writes ru_maxrss only when it has risen, so otherwise the highest value
// of the step is used.
func (s *stepState) peak(row *model.Trace) {
	s.maxAlloc = max(s.maxAlloc, row.Allocated, row.MaxAllocated) // Null is the smallest number
	s.maxCached = max(s.maxCached, row.Cached, row.MaxCached)
	row.MaxAllocated, row.MaxCached = s.maxAlloc, s.maxCached
}

// Stages come in pairs: even ones begin what the odd one after them ends.
const preForward = 0

// match stores a stage that begins. For a stage that ends, it finds the latest beginning of the same module. Later
// beginnings of other modules stay open: threads interleave (DataParallel), and backward stages don't nest. If an
// exception skipped a stage's end, its beginning stays until the end of the step.
func (s *stepState) match(t *wire.Trace, row *model.Trace) {
	open := &s.open[t.Stage>>1]
	if t.Stage&1 == 0 {
		if len(*open) == maxOpen {
			*open = append((*open)[:0], (*open)[maxOpen/2:]...)
		}
		*open = append(*open, frame{ts: t.TS, alloc: row.Allocated, max: row.MaxAllocated, name: t.Name,
			device: t.Device})
		return
	}
	for i := len(*open) - 1; i >= 0; i-- {
		f := (*open)[i]
		if f.name != t.Name {
			continue
		}
		row.DurationNS = nanoseconds(t.TS - f.ts) // what ends before it begins has none
		if f.device == t.Device {
			row.AllocatedDelta = difference(row.Allocated, f.alloc)
			row.MaxAllocatedDelta = difference(row.MaxAllocated, f.max)
		}
		*open = append((*open)[:i], (*open)[i+1:]...)
		return
	}
}

// addDevice keeps a device's reading until the step's own record comes. Readings of a step without such a record are
// forgotten. The later of two readings of a device counts, so there are at most as many as devices.
func (d *rowBuilder) addDevice(s *[wire.SlotSize]byte) {
	var v wire.Device
	v.Decode(s)
	if len(d.devices) > 0 && d.devices[0].Step != v.Step {
		d.devices = d.devices[:0]
	}
	if v.Device < 0 {
		return // no device has this number: the record is damaged, though its check is right
	}
	for i := range d.devices {
		if d.devices[i].Device == v.Device {
			d.devices[i] = v
			return
		}
	}
	d.devices = append(d.devices, v)
}

// devicesOf returns the readings of devices at the end of a step. fullest is the device that holds most, nil if none
// was read.
func (d *rowBuilder) devicesOf(step uint32) (list []wire.Device, fullest *wire.Device) {
	if len(d.devices) == 0 || d.devices[0].Step != step {
		return nil, nil
	}
	for i := range d.devices {
		if v := &d.devices[i]; fullest == nil || v.Allocated > fullest.Allocated {
			fullest = v
		}
	}
	return d.devices, fullest
}

// endStepBefore12 decodes the step record of rings up to version 1.1, which held both the end of a step and the host's
// reading.
func (d *rowBuilder) endStepBefore12(slot *[wire.SlotSize]byte) {
	var t wire.Step
	t.Decode(slot)
	d.host, d.hasHost = notRead, true
	d.host.Step, d.host.RSS, d.host.Anon, d.host.MaxRSS = t.Step, t.RSS, t.Anon, t.MaxRSS
	d.endStep(&wire.StepEnd{TS: t.TS, Flags: t.Flags, Steps: t.Steps, Step: t.Step, AgentNS: t.AgentNS,
		Duration: t.Duration, Work: wire.NotTaken, Tokens: wire.NotTaken})
}

// notRead is the host's reading of a step without one: every value is "not taken".
var notRead = func() (h wire.Host) {
	var ones [wire.SlotSize]byte
	for i := range ones {
		ones[i] = 0xFF
	}
	h.Decode(&ones)
	return h
}()

// endStep makes a step's rows from its record, the records before it (host, heap, devices) and the peaks of its trace
// rows.
func (d *rowBuilder) endStep(t *wire.StepEnd) {
	host := &notRead
	if d.hasHost && d.host.Step == t.Step {
		host = &d.host
	}
	row := model.Step{
		Time: d.micros(t.TS), PID: int32(d.r.PID), Rank: d.r.Rank, World: d.r.WorldSize,
		Step: int64(t.Step), Steps: max(int32(t.Steps), 1), DurationNS: nanoseconds(t.Duration),
		Sampled: t.Flags&wire.FlagSampled != 0, Inference: t.Flags&wire.FlagInference != 0, Device: hostDevice,
		RSS: gauge(host.RSS), Anon: gauge(host.Anon), MaxRSS: gauge(host.MaxRSS),
		HeapInUse: model.Null, HeapHeld: model.Null, PyBlocks: model.Null, GCCollections: model.Null,
		GCFull: model.Null, AgentNS: int64(t.AgentNS), Work: wire.WorkKind(t.Work), Tokens: gauge(t.Tokens),
	}
	if row.Inference && row.Work == wire.WorkKinds[0] {
		row.Work = wire.WorkKinds[1]
	}
	if row.MaxRSS != model.Null {
		row.MaxRSS = max(row.MaxRSS, row.RSS) // the kernel brings ru_maxrss up to date a little late
	}
	devices, fullest := d.devicesOf(t.Step)
	d.fillMemory(&row, t.Step, fullest)
	if d.hasHeap && d.heap.Step == t.Step {
		h := &d.heap
		row.HeapInUse, row.HeapHeld, row.PyBlocks = gauge(h.HeapInUse), gauge(h.HeapHeld), gauge(h.PyBlocks)
		row.GCCollections, row.GCFull = int64(h.GCYoung), int64(h.GCCount)
	}
	if !d.mute {
		d.in.batch.Steps = append(d.in.batch.Steps, row)
		d.emitDevices(&row, devices)
	}
	d.hasHost, d.hasHeap, d.devices, d.step.begun = false, false, d.devices[:0], false
}

// emitDevices makes a row for each device, since the step's own row shows only the fullest device.
func (d *rowBuilder) emitDevices(step *model.Step, devices []wire.Device) {
	for i := range devices {
		v := &devices[i]
		d.in.batch.Devices = append(d.in.batch.Devices, model.StepDevice{
			Time: step.Time, PID: step.PID, Rank: step.Rank, Step: step.Step, Steps: step.Steps,
			Inference: step.Inference, Device: v.Device, Allocated: gauge(v.Allocated),
			MaxAllocated: gauge(v.MaxAllocated), Reserved: gauge(v.Reserved), MaxReserved: gauge(v.MaxReserved),
		})
	}
}

// fillMemory fills the step's memory from the device that holds most (python.step_devices has each of them). Without a
// device it is the host's: anonymous memory as allocated, resident memory as reserved, and as peaks the highest values
// of the step's trace rows, or ru_maxrss if it has risen.
func (d *rowBuilder) fillMemory(row *model.Step, step uint32, v *wire.Device) {
	if v != nil {
		row.Device = v.Device
		row.Allocated, row.MaxAllocated = gauge(v.Allocated), gauge(v.MaxAllocated)
		row.Reserved, row.MaxReserved = gauge(v.Reserved), gauge(v.MaxReserved)
		return
	}
	row.Allocated, row.Reserved = row.Anon, row.RSS
	row.MaxAllocated, row.MaxReserved = model.Null, row.MaxRSS
	if s := &d.step; s.begun && s.number == step && s.maxAlloc != model.Null {
		row.MaxAllocated = max(s.maxAlloc, row.Anon)
		row.MaxReserved = max(s.maxCached, row.RSS, row.MaxRSS)
	}
}

func (d *rowBuilder) overhead(s *[wire.SlotSize]byte) {
	if d.mute {
		return
	}
	var o wire.Overhead
	o.Decode(s)
	d.in.batch.Overheads = append(d.in.batch.Overheads, model.Overhead{
		Time: d.micros(o.TS), PID: int32(d.r.PID), Rank: d.r.Rank, Part: d.r.Name(o.Name),
		NS: nanoseconds(o.NS), Count: gauge(o.Count), Steps: int64(o.Steps), CoveredNS: nanoseconds(o.Covered),
		Gap: gauge(o.Gap), Measured: o.Flags&1 != 0,
	})
}

func (d *rowBuilder) unknown(s *[wire.SlotSize]byte) {
	if d.mute {
		return
	}
	l := &d.r.lost
	if l.unknown == 0 {
		l.unknownAt, l.unknownKind = wire.SlotSeq(s), wire.SlotKind(s)
	}
	l.unknown++
}

// What a process says of itself is added up in questions, whose sums have 63 bits. So what no process can have is as if
// it had not been taken.
const (
	maxGauge = 1 << 50 // bytes or things; no machine has a PiB
	maxNS    = 1 << 57 // 4 years
)

// gauge converts bytes or a count of a record. A value that was not taken, or is impossibly large, becomes Null.
func gauge(v uint64) int64 { return atMost(v, maxGauge) }

// nanoseconds is gauge for times.
func nanoseconds(v uint64) int64 { return atMost(v, maxNS) }

func atMost(v, most uint64) int64 {
	if v > most {
		return model.Null
	}
	return int64(v)
}

func difference(a, b int64) int64 {
	if a == model.Null || b == model.Null {
		return model.Null
	}
	return a - b
}
