package ingest

import (
	"strings"

	"github.com/memgauge/memgauge/internal/base/secret"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/wire"
)

// textState joins the pieces of an event's text.
type textState struct {
	buf   []byte // at most wire.MaxText bytes
	next  uint64 // number of the record that would go on with it
	slots uint32 // pieces gathered
}

// add appends a piece if it follows the last one; otherwise the text starts with it.
func (t *textState) add(s *[wire.SlotSize]byte) {
	var piece wire.Text
	piece.Decode(s)
	if piece.Seq != t.next || piece.Index == 0 {
		t.buf, t.slots = t.buf[:0], 0
	}
	n := min(int(piece.Length), wire.TextChunk, wire.MaxText-len(t.buf))
	t.buf = append(t.buf, piece.Data[:n]...)
	t.next = piece.Seq + 1
	t.slots++
}

// take returns the text that belongs to record seq, and forgets it. The record has the number of the text's pieces and
// bytes. If the beginning of the text is lost, the rest follows an ellipsis.
func (t *textState) take(seq uint64, slots uint32, length int) string {
	text := ""
	switch {
	case slots == 0:
	case t.next != seq || t.slots == 0:
		text = "…"
	case t.slots < slots:
		text = "…" + strings.ToValidUTF8(string(t.buf), "\uFFFD")
	default:
		text = strings.ToValidUTF8(string(t.buf[:min(len(t.buf), length)]), "\uFFFD")
	}
	t.buf, t.next, t.slots = t.buf[:0], 0, 0
	return text
}

// take is textState.take with secrets hidden. The agent hides them too, but agents of earlier versions did not. During
// a replay there is no text.
func (d *rowBuilder) take(seq uint64, slots uint32, length int) string {
	text := d.text.take(seq, slots, length)
	if d.mute {
		return text
	}
	return secret.Text(text)
}

func (d *rowBuilder) event(s *[wire.SlotSize]byte) {
	var e wire.Event
	e.Decode(s)
	text := d.take(e.Seq, e.TextSlots, int(e.TextLen))
	if d.mute {
		return
	}
	name := d.r.Name(e.Name)
	if name == "lost" && e.A > 0 { // the agent itself could not write them
		d.in.drop(d.r, model.Drop{Reason: reasonCrowded, Records: e.A, Detail: text})
	}
	d.in.batch.Events = append(d.in.batch.Events, model.Event{
		Time: d.micros(e.TS), PID: int32(d.r.PID), Rank: d.r.Rank, Name: name, Text: text,
		Code: wire.EventCode(e.Code), A: e.A, B: e.B,
	})
}
