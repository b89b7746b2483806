package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/internal/judge/anatomy"
)

// This file prints what package anatomy found in a snapshot.

func (d *snapshotDoc) Text() string {
	var b strings.Builder
	what := "PyTorch memory snapshot"
	if d.Format == snapshot.ProfilerTrace {
		what = string(d.Format)
	}
	plain.Fprintf(&b, "%s: %s, %s, %s events, %s\n", d.File, what, doc.Size(d.Bytes), units.Count(int64(d.Events)),
		doc.Plural(len(d.Devices), "device"))
	if d.Cut != "" {
		plain.Fprintf(&b, "  cut short   %s; what stands before is told\n", d.Cut)
	}
	kinds := make([]string, 0, len(d.Unknown))
	for kind, n := range d.Unknown {
		kinds = append(kinds, fmt.Sprintf("%s %q", units.Count(int64(n)), kind))
	}
	if slices.Sort(kinds); len(kinds) > 0 {
		plain.Fprintf(&b, "  not known   events of these kinds count for nothing: %s\n", strings.Join(kinds, ", "))
	}
	for i := range d.Devices {
		deviceText(&b, &d.Devices[i])
	}
	return b.String()
}

func deviceText(b *strings.Builder, d *anatomy.DeviceReport) {
	name := fmt.Sprintf("device %d", d.Device)
	if d.Name != "" {
		name = d.Name
	}
	plain.Fprintf(b, "\n%s: %s events", name, units.Count(int64(d.Events)))
	if d.ToTime > d.FromTime {
		plain.Fprintf(b, " over %s, from %s UTC", micros(d.ToTime-d.FromTime),
			time.UnixMicro(d.FromTime).UTC().Format("2006-01-02 15:04:05"))
	}
	b.WriteString("\n")
	peakText(b, d)
	if d.Events > 0 {
		growthText(b, &d.Growth)
	}
	endText(b, &d.End)
	for i := range d.OOMs {
		oomText(b, d, &d.OOMs[i])
	}
	if d.OOMsLeft > 0 {
		plain.Fprintf(b, "  and %s more\n", doc.Plural(d.OOMsLeft, "OOM"))
	}
	leftOutText(b, d)
}

func peakText(b *strings.Builder, d *anatomy.DeviceReport) {
	p := &d.Peak
	plain.Fprintf(b, "  peak        %s requested, %s in blocks, %s reserved", doc.Size(p.Requested),
		doc.Size(p.Allocated),
		doc.Size(p.Reserved))
	if p.Row >= 0 && d.ToTime > d.FromTime {
		plain.Fprintf(b, ", %s after the first event", micros(p.Time-d.FromTime))
	} else if d.Events > 0 && p.Row < 0 {
		b.WriteString(", before the first event")
	}
	if p.ReservedPeak > p.Reserved {
		plain.Fprintf(b, " (at most %s reserved)", doc.Size(p.ReservedPeak))
	}
	b.WriteString("\n")
	if p.Allocated > p.Reserved {
		b.WriteString("  warning     the file contradicts itself: blocks can't take more than is reserved for them.\n" +
			"              Its events and its segments are of different moments, or events are missing\n")
	}
	shares(b, "for", p.Categories, p.Requested, 0)
	shares(b, "by line", p.Holders, p.Requested, p.HoldersLeft)
	shares(b, "by path", p.Paths, p.Requested, 0)
}

// shares prints parts of a whole, the first after its title.
func shares(b *strings.Builder, title string, list []anatomy.Share, whole int64, left int) {
	for _, s := range list {
		plain.Fprintf(b, "  %-9s %10s %6.1f %%  %s, %s\n", title, doc.Size(s.Bytes),
			100*float64(s.Bytes)/float64(max(whole, 1)), s.Name,
			doc.Plural(s.Blocks, "block"))
		title = ""
	}
	if left > 0 {
		plain.Fprintf(b, "  %31s and %s more\n", "", doc.Plural(left, "line"))
	}
}

func growthText(b *strings.Builder, g *anatomy.Growth) {
	plain.Fprintf(b, "  growth      %s", g.Verdict)
	if g.Rate != 0 {
		plain.Fprintf(b, ": %s an iteration (%s to %s) since iteration %.0f of %d", change(int64(g.Rate)),
			bareSize(g.RateLow),
			bareSize(g.RateHigh), g.Start, g.Iterations)
	} else if g.By != "" && g.Iterations > 0 {
		plain.Fprintf(b, " over %s", doc.Plural(g.Iterations, "iteration"))
	}
	if g.Reason != "" {
		plain.Fprintf(b, ": %s", g.Reason)
	}
	if g.By != "" {
		plain.Fprintf(b, " (iterations by %s)", g.By)
	}
	b.WriteString("\n")
	title := "stays"
	for _, s := range g.Sites {
		plain.Fprintf(b, "  %-9s %10s            %s, %s of %s\n", title, doc.Size(s.Bytes), s.Name, doc.Plural(s.Blocks,
			"block"),
			doc.Plural(s.Iterations, "iteration"))
		title = ""
	}
	if g.SitesLeft > 0 {
		plain.Fprintf(b, "  %31s and %s more\n", "", doc.Plural(g.SitesLeft, "line"))
	}
}

func endText(b *strings.Builder, e *anatomy.EndState) {
	if e.Segments == 0 {
		return
	}
	plain.Fprintf(b,
		"  at the end  %s reserved in %s: %s in blocks, %s free (the largest piece %s; %s beside blocks in use, which can't go back)\n",
		doc.Size(e.Reserved), doc.Plural(e.Segments, "segment"), doc.Size(e.Allocated), doc.Size(e.Free),
		doc.Size(e.LargestFree),
		doc.Size(e.Splits))
	if in := e.Rounding + e.Rests; in > 0 {
		fmt.Fprintf(b, "              the blocks have %s more than was asked for: "+
			"%s by rounding, %s in rests too small to split off (%.1f %% of what is unused)\n",
			doc.Size(in), doc.Size(e.Rounding), doc.Size(e.Rests),
			100*float64(in)/float64(e.Free+in))
	}
	if e.Pending > 0 {
		plain.Fprintf(b, "              %s freed and still in use by a stream\n", doc.Size(e.Pending))
	}
}

func oomText(b *strings.Builder, d *anatomy.DeviceReport, o *anatomy.OutOfMemory) {
	plain.Fprintf(b, "  OOM         asked for %s", doc.Size(o.Asked))
	if d.ToTime > d.FromTime {
		plain.Fprintf(b, " %s after the first event", micros(o.Time-d.FromTime))
	}
	plain.Fprintf(b, " at %s\n              the driver had %s; of %s reserved %s were held, %s unused\n", o.Site,
		doc.Size(o.DeviceFree), doc.Size(o.Reserved),
		doc.Size(o.Live), doc.Size(o.Unused))
	if o.Missing > 0 {
		plain.Fprintf(b, "              %s would have had to go\n", doc.Size(o.Missing))
	} else {
		b.WriteString("              there was enough in all, but not in one piece: fragmentation\n")
	}
	shares(b, "  held", o.Holders, o.Live, 0)
}

func leftOutText(b *strings.Builder, d *anatomy.DeviceReport) {
	switch {
	case !d.BeforeKnown && d.Events > 0:
		plain.Fprintf(b, "  not known   what was live when the history began: the file has no segments; at least %s\n",
			doc.Size(d.Before))
	case d.Before > 0:
		plain.Fprintf(b, "  not known   who made %s that were live when the history began, where no stack is kept\n",
			doc.Size(d.Before))
	}
}

// micros is a time between two moments in µs.
func micros(us int64) string { return units.Duration(time.Duration(us) * time.Microsecond).String() }

func bareSize(bytes float64) string { return units.Bytes(bytes).String() }
