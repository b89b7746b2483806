package snapshot

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/chart"
	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/judge/anatomy"
	"github.com/memgauge/memgauge/internal/record/sink"
)

// drawnMoments is how many stretches are drawn where nobody says: about one for each two pixels.
const drawnMoments = 500

// chartWriter returns the function that writes the format of a file's extension, nil if there is none.
func chartWriter(name string) func(chart.Chart, io.Writer) error {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".png":
		return chart.Chart.WritePNG
	case ".svg":
		return chart.Chart.WriteSVG
	case ".html":
		return func(c chart.Chart, w io.Writer) error { return chart.WritePage(w, c) }
	}
	return nil
}

// draw writes the categories as a picture, one above the other.
func (t *categoriesDoc) draw(output string) error {
	out, err := sink.CreateFrom(output, t.File)
	if err != nil {
		return fmt.Errorf("snapshot categories: %w", err)
	}
	defer out.Discard()
	if err := chartWriter(output)(t.chart(), out); err != nil {
		return fmt.Errorf("snapshot categories: %s: %w", output, err)
	}
	return out.Commit()
}

// chart has a panel for each device, by the number of the event, as the timeline has: time passes between bursts of
// events in which nothing is seen. Its moments are the ends of the stretches, the peak, and where a category had most.
func (t *categoriesDoc) chart() chart.Chart {
	c := chart.Chart{Title: filepath.Base(t.File), Note: "live bytes by category, one above the other",
		Across: "event of the device"}
	for i, d := range t.Devices {
		levels := append(append(slices.Clone(d.Levels), d.Highest...), d.Peak)
		order.By(levels, func(a, b anatomy.ClassLevel) int { return cmp.Compare(a.Row, b.Row) })
		levels = slices.CompactFunc(levels, func(a, b anatomy.ClassLevel) bool { return a.Row == b.Row })
		x, below := make([]float64, len(levels)), make([]float64, len(levels))
		for k, l := range levels {
			x[k] = float64(max(0, l.Row-t.first[i])) // before the history: 0
		}
		p := chart.Panel{Title: fmt.Sprintf("device %d: at most %s", d.Device, doc.Size(d.Peak.Live)),
			Unit: chart.Bytes}
		for class, name := range d.Names {
			s := chart.Series{Name: name, X: x, Low: slices.Clone(below)}
			for k := range levels {
				below[k] += float64(levels[k].Bytes[class])
			}
			s.High = slices.Clone(below)
			s.Y = s.High
			p.Series = append(p.Series, s)
		}
		c.Panels = append(c.Panels, p)
	}
	return c
}
