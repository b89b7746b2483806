package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"os"
	"strings"
	"testing"
)

const gib = 1 << 30

func example() Chart {
	n := 600
	x, used, cached := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range n {
		x[i] = float64(i)
		used[i] = (4 + 0.01*float64(i) + 0.8*math.Abs(math.Sin(float64(i)/9))) * gib
		cached[i] = used[i] + 1.5*gib
	}
	cached[300] = math.NaN()
	return Chart{
		Title: "GPU 0: NVIDIA A100-SXM4-80GB",
		Note:  "risk high: the floor grows by 10.2 MiB/s and meets the limit in 9 min", Panels: []Panel{
			{Title: "memory in use", Unit: Bytes, Series: []Series{{Name: "used", X: x, Y: used, Area: true},
				{Name: "reserved", X: x, Y: cached}},
				Levels: []Level{{Name: "limit", Value: 16 * gib, Alarm: true}, {Name: "warns at", Value: 13.6 * gib}}},
			{Title: "far below its limit", Unit: Bytes, Series: []Series{{Name: "used", X: x, Y: used}},
				Levels: []Level{{Name: "limit", Value: 80 * gib, Alarm: true}}},
			{Title: "free holes by size", Unit: Bytes,
				Bars: []Bar{{"< 1 MiB", 1e6}, {"1–2 MiB", 3e7}, {"2–20 MiB", 8e8}, {"> 20 MiB", 2e9}}},
		},
		Events: []Event{{Seconds: 120, Text: "evaluation"}, {Seconds: 520, Text: "OOM warning", Bad: true}},
	}
}

func TestPNG(t *testing.T) {
	var b bytes.Buffer
	if err := example().WritePNG(&b); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if s := img.Bounds().Size(); s.X < 900 || s.Y < 700 {
		t.Errorf("a picture of %v", s)
	}
	if path := os.Getenv("MEMGAUGE_LOOK"); path != "" { // to look at it
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// What a reader must find: the axes' units, the limit with its value, the events, the legend.
func TestSVGSaysWhatItShows(t *testing.T) {
	var b bytes.Buffer
	if err := example().WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"GiB", "time (minutes from the start)", "limit 16 GiB", "warns at 13.6 GiB",
		"↑ limit 80 GiB", "OOM warning", "evaluation", "reserved", "risk high"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in the picture", want)
		}
	}
}

// A picture is XML whatever things are called.
func TestOddNames(t *testing.T) {
	const odd = "a\x01\x80\ufffe\x1b&<"
	var b bytes.Buffer
	err := Chart{Title: odd, Note: odd, Panels: []Panel{{Title: odd, Levels: []Level{{Name: odd, Value: 1}},
		Series: []Series{{Name: odd, X: []float64{0, 1}, Y: []float64{0, 1}}}}},
		Events: []Event{{Seconds: 1, Text: odd}}}.WriteSVG(&b)
	if err != nil || !strings.Contains(b.String(), `a\x01\x80`) {
		t.Errorf("%v, %s", err, b.String())
	}
	for d := xml.NewDecoder(&b); err == nil; {
		if _, err = d.Token(); err != nil && !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	}
}

func TestOddCharts(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]Chart{
		"nothing":   {},
		"no points": {Panels: []Panel{{Series: []Series{{Name: "a"}}}}},
		"one point": {Panels: []Panel{{Series: []Series{{Name: "a", X: []float64{0}, Y: []float64{5}}}}}},
		"only NaN": {
			Panels: []Panel{{Series: []Series{{Name: "a", X: []float64{0, 1}, Y: []float64{nan, nan}}}}}},
		"all zero": {Panels: []Panel{{Series: []Series{{Name: "a", X: []float64{0, 1}, Y: []float64{0, 0}}}}}},
		"constant": {Panels: []Panel{{Series: []Series{{Name: "a", X: []float64{0, 1}, Y: []float64{7, 7}}}}}},
		"infinite limit": {Panels: []Panel{{Series: []Series{{Name: "a", X: []float64{0, 1}, Y: []float64{7, 8}}},
			Levels: []Level{{"l", math.Inf(1), true}}}}},
		"percent": {Panels: []Panel{{Unit: Percent,
			Series: []Series{{Name: "a", X: []float64{0, 1}, Y: []float64{7, 99}}}}}},
	} {
		var b bytes.Buffer
		if err := c.WritePNG(&b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Thinning a long series keeps every peak and every interruption.
func TestThin(t *testing.T) {
	s := Series{}
	for i := range 100000 {
		s.X, s.Y = append(s.X, float64(i)), append(s.Y, 1)
	}
	s.Y[77777], s.Y[500] = 9, math.NaN()
	x, y := thin(s)
	peak, gap := false, false
	for i := range y {
		peak = peak || y[i] == 9 && x[i] == 77777
		gap = gap || math.IsNaN(y[i])
	}
	if len(x) > maxPoints+2 || !peak || !gap {
		t.Errorf("%d points, peak %v, interruption %v", len(x), peak, gap)
	}
}

// A line's interval is an area behind it, and X may begin before zero.
func TestBand(t *testing.T) {
	c := Chart{Across: "seconds before it", Begin: -60,
		Panels: []Panel{{Series: []Series{{Name: "trend", X: []float64{-60, 0}, Y: []float64{1 * gib, 2 * gib},
			Low: []float64{1 * gib, 1.5 * gib}, High: []float64{1 * gib, 2.5 * gib}}}}}}
	var with, without bytes.Buffer
	if err := c.WriteSVG(&with); err != nil {
		t.Fatal(err)
	}
	c.Panels[0].Series[0].Low = nil
	if err := c.WriteSVG(&without); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(with.String(), ">-40<") || !strings.Contains(with.String(), "seconds before it") {
		t.Error("the axis does not begin where it should")
	}
	fill := `fill-opacity="0.25"`
	if !strings.Contains(with.String(), fill) || strings.Contains(without.String(), fill) {
		t.Errorf("%s: %v with a band, %v without", fill, strings.Contains(with.String(), fill),
			strings.Contains(without.String(), fill))
	}
}
