package ingest

import (
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/wire"
)

// maxNames bounds the session's names in memory: 26 MB at 100 bytes each. Models have thousands. If a program makes new
// names for ever, those beyond the bound are stored as "?".
const maxNames = 1 << 18

// names are the texts that rows share, numbered for the session.
type names struct {
	ids  map[string]int32
	next int32
}

func newNames(stored []model.Name) names {
	n := names{ids: make(map[string]int32, len(stored)), next: 1}
	for _, s := range stored {
		n.ids[s.Text] = s.ID
		n.next = max(n.next, s.ID+1)
	}
	return n
}

// intern returns the session's number of a text, and puts new ones into the batch.
func (in *Ingester) intern(text string) int32 {
	if id, ok := in.names.ids[text]; ok {
		return id
	}
	if len(in.names.ids) >= maxNames && text != wire.UnknownName {
		return in.intern(wire.UnknownName)
	}
	id := in.names.next
	in.names.next++
	in.names.ids[text] = id
	in.batch.Names = append(in.batch.Names, model.Name{ID: id, Text: text})
	return id
}

// nameID is the session's number of a ring's name.
func (in *Ingester) nameID(r *ring, n uint32) int32 {
	if uint64(n) < uint64(len(r.ids)) && r.ids[n] != 0 {
		return r.ids[n]
	}
	id := in.intern(r.Name(n))
	if int(n) <= len(r.Names()) { // a larger number means damage, and must not make us allocate
		for len(r.ids) <= int(n) {
			r.ids = append(r.ids, 0)
		}
		r.ids[n] = id
	}
	return id
}
