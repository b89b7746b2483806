package advise

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/render"
	"github.com/memgauge/memgauge/internal/judge/estimate"
)

// answer is what estimate found, ready to be shown.
type answer struct {
	options  estimateOptions
	question estimate.Question
	script   []string
	programs estimate.Programs
	cases    []estimate.Case
}

// fitsNot: the script as it is, at the first batch size that was asked for, is too large for the device.
func (r *answer) fitsNot() bool { return len(r.cases) > 0 && r.cases[0].Fits == estimate.FitsNot }

// unseen is what no run on the host can see.
type unseen struct {
	What string `json:"what"`
	Low  int64  `json:"low_bytes"`
	High int64  `json:"high_bytes"`
	Why  string `json:"why"`
}

func (r *answer) unseen() []unseen {
	out := []unseen{{"CUDA's context and PyTorch's kernels", estimate.ContextLow, estimate.ContextHigh,
		"751 MiB on an H100, about 300 MiB on small GPUs; in the interval"}}
	if p := r.programs[0].Program; p.Convolves {
		out = append(out, unseen{"cuDNN's workspaces", 0, estimate.CuDNNHigh,
			"chosen at run time; in the upper end of the interval"})
	}
	return out
}

// maxLines is how many lines of the program are listed.
const maxLines = 5

func (r *answer) writeText(w io.Writer, width int) error {
	var b bytes.Buffer
	r.head(&b)
	l := &doc.Listing{Head: []model.Column{doc.Text("precision"), doc.Number("batch"), doc.Number("on the GPU"),
		doc.Number("at least"), doc.Number("at most")}}
	asked := r.question.Device.Total > 0
	if asked {
		l.Head = append(l.Head, doc.Text("fits"), doc.Number("largest that fits"))
	}
	for i := range r.cases {
		l.Rows = append(l.Rows, row(&r.cases[i], asked))
	}
	if err := render.Write(&b, l, render.Table, render.Options{Width: width, NoRows: true,
		Whole: doc.WholeTables}); err != nil {
		return err
	}
	r.fills(&b)
	_, err := io.Copy(plain.NewWriter(w), &b)
	return err
}

func row(c *estimate.Case, asked bool) []any {
	batch := "not known"
	if c.Batch > 0 {
		batch = fmt.Sprint(c.Batch)
	}
	out := []any{c.Precision, batch, doc.Size(c.Device.Bytes), doc.Size(c.Device.Low), doc.Size(c.Device.High)}
	if asked {
		largest := "not known"
		switch {
		case c.Largest > 0:
			largest = fmt.Sprint(c.Largest)
		case c.Scales:
			largest = "none"
		}
		out = append(out, string(c.Fits), largest)
	}
	return out
}

func (r *answer) head(b *bytes.Buffer) {
	p, name := r.programs[0].Program, r.script[0]
	if name == "-m" {
		name = r.script[1]
	}
	plain.Fprintf(b, "%s: %s of training seen, torch %s", name, doc.Plural(p.Steps, "step"), p.Torch)
	if p.Batch > 0 {
		plain.Fprintf(b, ", batch size %d (%s)", p.Batch, p.BatchWhere)
	}
	if d := r.question.Device; d.Total > 0 {
		plain.Fprintf(b, "; %s has %s", d.Name, units.Bytes(d.Total))
	}
	b.WriteString("\n")
	switch {
	case p.Batch == 0:
		b.WriteString("The batch size was not found, or several numbers could be it, so only the script's own " +
			"is estimated:\n" +
			"put {batch:N} where it stands among the arguments.\n")
	case !p.Exact && !r.options.once:
		b.WriteString("At another batch size the script did something else, so only its own is estimated.\n")
	}
	if p.Steps == 0 {
		b.WriteString("No optimizer made a step: this is what the script took without training.\n")
	}
}

// fills says what holds the memory of the first case.
func (r *answer) fills(b *bytes.Buffer) {
	c := &r.cases[0]
	plain.Fprintf(b, "\nWhat fills it (%s; PyTorch reserves %s, of which %s are in use at the peak, in step "+
		"%d):\n", c.Precision,
		doc.Size(c.Play.PeakReserved), doc.Size(c.Play.PeakRequested), c.Play.Step)
	for _, h := range held(c) {
		plain.Fprintf(b, "  %10s  %5.1f %%  %s\n", doc.Size(h.Bytes),
			100*float64(h.Bytes)/float64(c.Play.PeakRequested), h.What)
	}
	b.WriteString("by line:\n")
	for _, l := range c.Play.Lines[:min(maxLines, len(c.Play.Lines))] {
		plain.Fprintf(b, "  %10s  %5.1f %%  %s\n", doc.Size(l.Bytes),
			100*float64(l.Bytes)/float64(c.Play.PeakRequested), l.Site)
	}
	b.WriteString("Not seen on the host:\n")
	for _, u := range r.unseen() {
		plain.Fprintf(b, "  %s: %s to %s (%s)\n", u.What, doc.Size(u.Low), doc.Size(u.High), u.Why)
	}
}

type holding struct {
	What  string `json:"what"`
	Bytes int64  `json:"bytes"`
}

// held are the categories at the peak, the largest first.
func held(c *estimate.Case) (out []holding) {
	for _, h := range c.Play.Holdings() {
		out = append(out, holding{h.Category.String(), h.Bytes})
	}
	return out
}

type caseJSON struct {
	Precision string         `json:"precision"`
	Batch     *int64         `json:"batch"`
	Device    estimate.Range `json:"device"`
	Allocator estimate.Range `json:"allocator"`
	Requested int64          `json:"peak_requested_bytes"`
	Fits      *string        `json:"fits"`
	Largest   *int64         `json:"largest_batch"`
	Filled    []holding      `json:"filled_by"`
	Lines     []holding      `json:"lines"`
}

func (r *answer) writeJSON(w io.Writer) error {
	p, d := r.programs[0].Program, r.question.Device
	out := struct {
		SchemaVersion int        `json:"schema_version"`
		Script        string     `json:"script"`
		Torch         string     `json:"torch"`
		Steps         int        `json:"steps"`
		Batch         *int64     `json:"batch"`
		BatchWhere    *string    `json:"batch_where"`
		Scales        bool       `json:"scales"`
		Device        *string    `json:"device"`
		Total         *int64     `json:"device_bytes"`
		Estimates     []caseJSON `json:"estimates"`
		Unseen        []unseen   `json:"not_seen"`
	}{SchemaVersion: doc.JSONVersion, Script: strings.Join(r.script, " "), Torch: p.Torch, Steps: p.Steps,
		Batch: known(p.Batch), BatchWhere: doc.Known(p.BatchWhere), Scales: p.Exact, Unseen: r.unseen()}
	if d.Total > 0 {
		out.Device, out.Total = &d.Name, &d.Total
	}
	for i := range r.cases {
		out.Estimates = append(out.Estimates, jsonOf(&r.cases[i]))
	}
	return doc.WriteJSON(w, out)
}

func jsonOf(c *estimate.Case) caseJSON {
	j := caseJSON{Precision: c.Precision, Batch: known(c.Batch), Device: c.Device, Allocator: c.Allocator,
		Requested: c.Play.PeakRequested, Fits: doc.Known(string(c.Fits)), Largest: nil, Filled: held(c),
		Lines: []holding{}}
	if c.Scales && c.Fits != estimate.Unasked {
		j.Largest = doc.KnownCount(int64(c.Largest)) // 0: not even 1 fits
	}
	for _, l := range c.Play.Lines {
		j.Lines = append(j.Lines, holding{l.Site, l.Bytes})
	}
	return j
}

// known is a count, or null where it is none.
func known(n int) *int64 {
	if n <= 0 {
		return nil
	}
	return doc.KnownCount(int64(n))
}
