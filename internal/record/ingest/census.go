package ingest

import (
	"strings"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/wire"
)

// parts splits the text that belongs to a census record into n parts. A missing part is "?" if the text was cut, else
// "".
func (d *rowBuilder) parts(seq uint64, slots, length uint16, n int) []string {
	text := d.take(seq, uint32(slots), int(length))
	list := strings.SplitN(text, "\t", n)
	filler := ""
	if strings.HasPrefix(text, "…") {
		filler = "?"
	}
	for len(list) < n {
		list = append(list, filler)
	}
	return list
}

func (d *rowBuilder) tensors(s *[wire.SlotSize]byte) {
	var t wire.Tensors
	t.Decode(s)
	p := d.parts(t.Seq, t.TextSlots, t.TextLen, 6)
	if d.mute {
		return
	}
	row := model.TensorGroup{
		Time: d.micros(t.TS), PID: int32(d.r.PID), Rank: d.r.Rank, Census: int64(t.Census), Step: positive(t.Step),
		Shape: p[0], Dtype: p[1], Device: p[2], Role: p[3], Site: p[4], Holder: p[5],
		Count: int64(t.Count), Bytes: max(gauge(t.Bytes), 0), Fresh: model.Null, OldestStep: positive(t.OldestStep),
		Estimated: t.Flags&wire.FlagEstimated != 0,
	}
	if t.Flags&wire.FlagCompared != 0 {
		row.Fresh = int64(t.Fresh)
	}
	d.in.batch.Tensors = append(d.in.batch.Tensors, row)
}

func (d *rowBuilder) objects(s *[wire.SlotSize]byte) {
	var o wire.Objects
	o.Decode(s)
	p := d.parts(o.Seq, o.TextSlots, o.TextLen, 5)
	if d.mute {
		return
	}
	row := model.ObjectGroup{
		Time: d.micros(o.TS), PID: int32(d.r.PID), Rank: d.r.Rank, Census: int64(o.Census), Step: positive(o.Step),
		Evidence: p[0], Type: p[1], Holder: p[2], Site: p[3], Detail: p[4],
		Count: int64(o.Count), Delta: model.Null, Length: gauge(o.Length), Bytes: gauge(o.Bytes),
		Estimated: o.Flags&wire.FlagEstimated != 0,
	}
	if o.Flags&wire.FlagCompared != 0 {
		row.Delta = int64(o.Delta)
	}
	d.in.batch.Objects = append(d.in.batch.Objects, row)
}

// positive returns a step's number, or Null for 0: the first step is number 1.
func positive(n uint32) int64 {
	if n == 0 {
		return model.Null
	}
	return int64(n)
}
