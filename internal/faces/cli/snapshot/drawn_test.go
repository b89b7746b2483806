package snapshot

import (
	"fmt"
	"testing"

	"github.com/memgauge/memgauge/internal/judge/anatomy"
)

// Categories stand on each other by the device's own events; the peak is drawn though no stretch ends there.
func TestCategoriesAreStacked(t *testing.T) {
	level := func(row int, bytes ...int64) anatomy.ClassLevel { return anatomy.ClassLevel{Row: row, Bytes: bytes} }
	doc := categoriesDoc{File: "dir/a.pickle", first: []int{100}, Devices: []anatomy.ClassLevels{{Device: 1,
		Names: []string{"a", "b"}, Levels: []anatomy.ClassLevel{level(109, 1, 2), level(119, 3, 4)},
		Peak:    level(115, 9, 9),
		Highest: []anatomy.ClassLevel{level(115, 9, 9), level(-1, 0, 5)}}}}
	c := doc.chart()
	if c.Title != "a.pickle" || len(c.Panels) != 1 {
		t.Fatalf("%+v", c)
	}
	got := ""
	for _, s := range c.Panels[0].Series {
		got += fmt.Sprint(s.Name, s.X, s.Low, s.High, " ")
	}
	if want := "a[0 9 15 19] [0 0 0 0] [0 1 9 3] b[0 9 15 19] [0 1 9 3] [5 3 18 7] "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
