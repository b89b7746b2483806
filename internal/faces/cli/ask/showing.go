package ask

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/chart"
	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/tui"
	"github.com/memgauge/memgauge/internal/formats/doc"
)

// maxPaged bytes of an answer are kept for the pager: a million lines. The rest is counted.
const maxPaged = 64 << 20

// kept holds the beginning of an answer.
type kept struct {
	bytes.Buffer
	left int64 // bytes that found no room
}

func (k *kept) Write(b []byte) (int, error) {
	n := min(len(b), maxPaged-k.Len())
	k.left += int64(len(b) - n)
	k.Buffer.Write(b[:n])
	return len(b), nil
}

// page takes what a command prints, and shows it when the function that it returns is called: on the terminal where it
// fits, else in a pager.
func (p *talk) page(ctx context.Context, sub *app.App) (show func()) {
	answer := &kept{}
	out := sub.Stdout
	sub.Stdout = answer
	return func() {
		text := answer.String()
		wide, high, known := p.tty.size()
		if answer.left > 0 {
			plain.Fprintf(p.a.Stderr, "memgauge: the last %s of the answer are not shown; query -o FILE writes all\n",
				units.Bytes(answer.left))
		}
		if !known || fits(text, wide, high) || ctx.Err() != nil {
			_, _ = io.WriteString(out, text)
			return
		}
		if err := tui.Page(ctx, text, p.tty.in, p.tty.out, os.Environ()); err != nil {
			p.a.Report(err)
			return
		}
		lines := strings.Split(strings.TrimSpace(text), "\n")
		fmt.Fprintln(out, lines[len(lines)-1]) // how many rows it was
	}
}

// fits says that a text needs no scrolling, with a line for the prompt.
func fits(text string, wide, high int) bool {
	if strings.Count(text, "\n") >= high {
		return false
	}
	for line := range strings.Lines(text) {
		if len([]rune(line)) > wide+1 {
			return false
		}
	}
	return true
}

// maxCharted rows are drawn; a terminal has some hundred columns.
const maxCharted = 100_000

// chart draws the columns of a result over its first one.
func (p *talk) chart(ctx context.Context, sql string) error {
	if p.tty == nil {
		return errors.New(`\chart: this is no terminal`)
	}
	if p.target == nil || strings.TrimSpace(sql) == "" {
		return remedy.Add(errors.New(`\chart: nothing to draw`), `\chart SELECT step, rss FROM python.steps`)
	}
	session, err := p.target.Connect(ctx)
	if err != nil {
		return err
	}
	defer session.Close()
	rows, err := api.Rows[json.RawMessage](ctx, session, fmt.Sprintf("SELECT * FROM (%s\n) LIMIT %d", sql, maxCharted))
	if err != nil {
		return err
	}
	c, err := chartOf(rows)
	if err != nil {
		return err
	}
	wide, _, _ := p.tty.size()
	return tui.WriteInline(p.tty.out, c, tui.GraphicsOf(os.Getenv), wide)
}

// chartOf makes a chart of rows: the first column, a number or a time, is the axis, and each other column of numbers a
// series.
func chartOf(rows []json.RawMessage) (chart.Chart, error) {
	c := chart.Chart{Panels: []chart.Panel{{Unit: chart.Count}}}
	series := map[string]*chart.Series{}
	var order []string
	var begin time.Time
	for _, row := range rows {
		names, values, err := doc.Members(json.NewDecoder(bytes.NewReader(row)))
		if err != nil || len(names) == 0 {
			return c, fmt.Errorf(`\chart: read the answer: %w`, err)
		}
		x, at := number(values[0])
		if moment, err := time.Parse(time.RFC3339Nano, fmt.Sprint(values[0])); err == nil {
			if begin.IsZero() {
				begin = moment
			}
			x, at = moment.Sub(begin).Seconds(), true
		}
		if !at {
			continue
		}
		c.Across = names[0]
		for i, v := range values[1:] {
			name := names[i+1]
			if series[name] == nil {
				series[name] = &chart.Series{Name: name}
				order = append(order, name)
			}
			y, ok := number(v)
			if !ok {
				y = math.NaN()
			}
			series[name].X, series[name].Y = append(series[name].X, x), append(series[name].Y, y)
		}
	}
	for _, name := range order {
		if s := series[name]; !allNaN(s.Y) {
			c.Panels[0].Series = append(c.Panels[0].Series, *s)
		}
	}
	if len(c.Panels[0].Series) == 0 {
		return c, remedy.Add(errors.New(`\chart: no numbers to draw`),
			`the first column is the axis, a number or a time: \chart SELECT step, rss FROM python.steps`)
	}
	if !begin.IsZero() {
		c.Across = "s since " + begin.UTC().Format("15:04:05") + " UTC"
	} else {
		c.Begin = c.Panels[0].Series[0].X[0]
	}
	return c, nil
}

func allNaN(values []float64) bool {
	for _, v := range values {
		if !math.IsNaN(v) {
			return false
		}
	}
	return true
}

func number(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}
