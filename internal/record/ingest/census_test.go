package ingest

import (
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/formats/wire/wiretest"
)

// text appends the pieces of a text and says how many there are.
func text(r *wiretest.Ring, ts uint64, s string) (slots, length uint16) {
	for rest := s; rest != ""; slots++ {
		piece := wire.Text{TS: ts, Index: slots}
		piece.Length = uint8(copy(piece.Data[:], rest))
		rest = rest[piece.Length:]
		r.Append(&piece)
	}
	return slots, uint16(len(s))
}

func TestCensusRows(t *testing.T) {
	g := newRig(t)
	r := g.ring(wiretest.Options{})
	slots, length := text(r, 1, "(128, 10)\tfloat32\tcuda:0\ttensor\ttrain.py:30\t__main__.outputs[*]['logits']")
	r.Append(&wire.Tensors{TS: 2, Flags: wire.FlagEstimated | wire.FlagCompared, TextLen: length, TextSlots: slots,
		Census: 2, Step: 40, Count: 12, OldestStep: 3, Fresh: 5, Bytes: 1 << 33})
	slots, length = text(r, 3, "container\tbuiltins.list\t__main__.outputs\ttrain.py:30\tof dict")
	r.Append(&wire.Objects{TS: 4, Flags: wire.FlagCompared, TextLen: length, TextSlots: slots, Census: 2, Step: 40,
		Count: 1, Delta: -7, Length: 1204, Bytes: wire.NotTaken})
	r.Append(&wire.Objects{TS: 5, Census: 1, TextLen: 9, TextSlots: 1}) // its text was overwritten
	g.drain()
	groups, o := g.sink.rows.Tensors, g.sink.rows.Objects
	wantT := model.TensorGroup{Time: groups[0].Time, PID: 100, Rank: -1, Census: 2, Step: 40, Shape: "(128, 10)",
		Dtype: "float32", Device: "cuda:0", Role: "tensor", Count: 12, Bytes: 1 << 33, Fresh: 5, OldestStep: 3,
		Site: "train.py:30", Holder: "__main__.outputs[*]['logits']", Estimated: true}
	if got := groups[0]; got != wantT {
		t.Errorf("got  %+v\nwant %+v", got, wantT)
	}
	wantO := model.ObjectGroup{Time: o[0].Time, PID: 100, Rank: -1, Census: 2, Step: 40, Evidence: "container",
		Type: "builtins.list", Count: 1, Delta: -7, Length: 1204, Bytes: model.Null, Holder: "__main__.outputs",
		Site: "train.py:30", Detail: "of dict"}
	if o[0] != wantO {
		t.Errorf("got  %+v\nwant %+v", o[0], wantO)
	}
	if o[1].Step != model.Null || o[1].Delta != model.Null || !strings.HasPrefix(o[1].Evidence, "…") ||
		o[1].Holder != "?" {
		t.Errorf("a row without its text: %+v", o[1])
	}
}
