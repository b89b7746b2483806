package service

import (
	"path/filepath"
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/record/store"
)

// TestTheCensusThatCounts: the newest whole one, or a newer one that was cut short and found at least as much.
func TestTheCensusThatCounts(t *testing.T) {
	const short = "it ended early, having used up what the budget allows: 9 objects were seen"
	const end = "the process ended: not everything was looked at"
	type taken struct {
		note  string
		bytes int64 // 0: no rows
	}
	for name, c := range map[string]struct {
		censuses []taken
		want     int64
	}{
		"whole ones":                 {[]taken{{"", 20}, {"", 10}}, 2},
		"cut short, and found more":  {[]taken{{"", 20}, {short, 450}}, 2},
		"cut short, and found less":  {[]taken{{"", 20}, {"", 400}, {short, 30}}, 2},
		"cut short, without a row":   {[]taken{{"", 20}, {short, 30}, {short, 0}}, 2},
		"at the end, and found more": {[]taken{{"", 20}, {end, 30}}, 2},
		"at the end, and found less": {[]taken{{"", 20}, {end, 3}}, 1},
		"none is whole":              {[]taken{{short, 20}, {short, 10}, {end, 30}}, 2},
		"nothing else":               {[]taken{{end, 0}}, 1},
	} {
		db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "session.duckdb")})
		if err != nil {
			t.Fatal(err)
		}
		b := &model.Batch{}
		for i, taken := range c.censuses {
			id, at := int64(i+1), int64(1.7e15)+int64(i)*1e6
			b.Events = append(b.Events, model.Event{Time: at, PID: 7, Rank: -1, Name: "census", Text: taken.note, A: id,
				B: model.Null})
			if taken.bytes > 0 {
				b.Tensors = append(b.Tensors, model.TensorGroup{Time: at, PID: 7, Rank: -1, Census: id, Step: 40 * id,
					Holder: "main().kept[*]", Role: "tensor", Count: 1, Bytes: taken.bytes})
			}
		}
		if err := db.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		rows, err := api.Rows[struct {
			ID   int64 `json:"census_id"`
			Step *int64
			Note string
		}](t.Context(), &Service{Open: Opened(db)}, questions.NewestCensuses("pid = 7"))
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != 1 || rows[0].ID != c.want || rows[0].Note != c.censuses[c.want-1].note ||
			rows[0].Step != nil && *rows[0].Step != 40*c.want {
			t.Errorf("%s: %+v, want census %d", name, rows, c.want)
		}
		db.Close()
	}
}
