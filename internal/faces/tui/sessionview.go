package tui

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/formats/doc"
	rows "github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// wideFrom is the width from which the series stand beside the processes.
const wideFrom = 140

// panels of a session's narrow screen; the wide one shows the first two at once.
var panels = []string{"holders", "events", "findings"}

func (x *sessionScreen) draw(m *model, wide, high int) []string {
	if x.rec == nil {
		return []string{paint(title, " memgauge top"), "", paint(faint, " reading the session …")}
	}
	lines := []string{x.head(m, wide)}
	lines = append(lines, x.verdict(wide, 1+high/30)...)
	lines = append(lines, drawLimits(x.limits(), wide, max(2, high/8))...)
	left := high - len(lines)
	if wide < wideFrom {
		return append(lines, x.narrow(m, wide, left, len(lines))...)
	}
	return append(lines, x.broad(m, wide, left, len(lines))...)
}

// narrow puts the parts below each other.
func (x *sessionScreen) narrow(m *model, wide, high, line int) []string {
	series := max(5, high*3/10)
	floors := max(3, high/5)
	tree := min(max(3, len(x.rec.alive(x.time.held(x.rec)))+2), max(4, (high-series-floors)*6/10))
	lines := x.memoryPart(m, wide, series)
	lines = append(lines, x.floorsPart(wide, floors)...)
	lines = append(lines, x.tree(wide, tree, line+len(lines))...)
	for len(lines) < series+floors+tree {
		lines = append(lines, "")
	}
	return append(lines, x.panelPart(m, panels[x.panel], wide, high-len(lines), true)...)
}

// broad puts the series at the left, and what they are made of at the right.
func (x *sessionScreen) broad(m *model, wide, high, line int) []string {
	wideLeft := (wide - 3) * 54 / 100
	wideRight := wide - 3 - wideLeft
	series := high * 6 / 10
	left := append(x.memoryPart(m, wideLeft, series), x.floorsPart(wideLeft, high-series)...)
	tree := min(max(4, len(x.rec.alive(x.time.held(x.rec)))+2), high*4/10)
	var rightPart []string
	rightPart = append(rightPart, x.tree(wideRight, tree, line)...)
	for len(rightPart) < tree {
		rightPart = append(rightPart, "")
	}
	rest := high - tree
	first := panels[x.panel]
	second := panels[(x.panel+1)%len(panels)]
	rightPart = append(rightPart, x.panelPart(m, first, wideRight, rest-rest/2, true)...)
	rightPart = append(rightPart, x.panelPart(m, second, wideRight, rest/2, false)...)
	return beside(left, rightPart, wideLeft, wideRight)[:high]
}

// head is the top line: which session, how it stands, and which moment is shown.
func (x *sessionScreen) head(m *model, wide int) string {
	r, at := x.rec, x.time.at(x.rec)
	var b builder
	b.put(title, " "+cut(safe(r.about.Name), 24))
	state, c := "running", fine
	if !r.end.Live {
		state, c = "ended", grey
		if r.end.Known {
			state = safe(r.end.Text)
		}
		if r.end.OOM != "" {
			c = alarm
		}
	}
	b.put(plainText, "  ")
	b.put(c, state)
	if r.first > 0 {
		b.put(faint, "  "+ago(at-r.first))
	}
	if step, duration := r.stepAt(at); step > 0 {
		b.put(plainText, "  step "+units.Count(step))
		if duration > 0 {
			b.put(faint, fmt.Sprintf(" (%s)", rateOf(duration)))
		}
	}
	when, wc := x.time.text(r, r.end.Live, m.o.Location)
	return ends(b.String(), paint(wc, when)+" ", wide)
}

// rateOf says how fast steps are.
func rateOf(us int64) string {
	if us >= 1e6 {
		return fmt.Sprintf("%.1f s each", float64(us)/1e6)
	}
	return fmt.Sprintf("%.0f a second", 1e6/float64(us))
}

// verdict is what is judged at the moment, in so many lines.
func (x *sessionScreen) verdict(wide, most int) []string {
	j := x.rec.verdictAt(x.time.at(x.rec))
	if j == nil && (x.rec.end.Live || !x.time.follow) {
		return []string{paint(faint, " no verdict yet: judging begins after some steps")}
	}
	if j == nil {
		return []string{paint(faint, " no verdict: too few steps")}
	}
	var lines []string
	for _, f := range j.findings {
		if f.Verdict == "leak" && len(lines) < most {
			lines = append(lines, folded(" "+paint(alarm, "LEAK")+" "+x.leakText(f), wide, 3)...)
			if advice := f.Advice.List(); len(advice) > 0 {
				lines = append(lines, folded("      "+paint(sky, "do ")+safe(strings.TrimSpace(advice[0])), wide, 2)...)
			}
		}
	}
	if len(lines) > 0 {
		return lines
	}
	if j.verdict == "healthy" {
		return []string{" " + paint(fine, "healthy") + ": no memory leaks " + paint(faint, x.judgedText(j))}
	}
	why := ""
	for _, f := range j.findings {
		if f.Verdict == "undecided" && f.Reason != "" {
			why = ": " + safe(f.Name) + ", " + safe(f.Reason)
			break
		}
	}
	return []string{cut(" "+paint(yellow, "undecided")+why+" "+paint(faint, x.judgedText(j)), wide)}
}

func (x *sessionScreen) judgedText(j *judgement) string {
	if d := x.time.at(x.rec) - j.at; d > 60e6 {
		return "(judged " + ago(d) + " before)"
	}
	return ""
}

// leakText is a leak in a line: how fast, since when, who holds it, when it ends.
func (x *sessionScreen) leakText(f rows.Finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s since %s %s", safe(f.Name), detect.Pace(f), f.Unit, units.Count(int64(f.Start)))
	if f.Holder != "" {
		fmt.Fprintf(&b, ", held by %s", safe(string(f.Holder)))
		if f.Held != "" {
			fmt.Fprintf(&b, " (%s)", safe(string(f.Held)))
		}
	}
	if f.Site != "" {
		fmt.Fprintf(&b, ", made at %s", x.here(string(f.Site)))
	}
	return b.String()
}

// limits are the memories with a limit at the moment: cgroups, the host, GPUs.
func (x *sessionScreen) limits() []limit {
	r, at := x.rec, x.time.held(x.rec)
	var list []limit
	for _, path := range slices.Sorted(maps.Keys(r.cgroups)) {
		if c, ok := r.cgroups[path].when(at, r.stale()); ok && c.limit > 0 {
			list = append(list, x.forecast(limit{name: "cgroup", used: c.current - max(0, c.idle), total: c.limit,
				note: safe(short(path, 24))}, "cgroup", "host", at))
		}
	}
	if h, ok := r.host.when(at, r.stale()); ok {
		list = append(list, x.forecast(limit{name: "host", used: h.total - h.available, total: h.total}, "host", "host",
			at))
	}
	for _, id := range slices.Sorted(maps.Keys(r.gpus)) {
		if g, ok := r.gpus[id].at.when(at, r.stale()); ok {
			note := safe(r.gpus[id].name)
			if g.busy >= 0 {
				note = fmt.Sprintf("%d %% busy %s", g.busy, note)
			}
			name := "GPU " + strconv.Itoa(id)
			list = append(list, x.forecast(limit{name: name, used: g.used, total: g.total, note: note}, name,
				strconv.Itoa(id), at))
		}
	}
	return list
}

// forecast adds when a limit will be met: what was judged at the moment, else the outlook of now. kind begins the name
// of the limit in a finding.
func (x *sessionScreen) forecast(l limit, kind, device string, at int64) limit {
	if j := x.rec.verdictAt(at); j != nil {
		gone := float64(at-j.at) / 1e6
		for _, f := range j.findings {
			left := float64(f.Seconds) - gone
			if f.Verdict != "leak" || !(left > 0) || !strings.HasPrefix(string(f.Limit), kind) {
				continue
			}
			if l.seconds == 0 || left < l.seconds {
				l.seconds, l.low, l.high = left, 0, 0
				if low, high := float64(f.Soonest), float64(f.Latest); high > 0 {
					l.low, l.high = max(0, low-gone), max(0, high-gone)
				}
			}
		}
	}
	if o, ok := x.foreseen[device]; ok && l.seconds == 0 && x.time.follow && x.rec.end.Live {
		l.seconds, l.low, l.high = o.seconds, o.low, o.high
	}
	if !x.rec.end.Live && x.time.follow {
		l.seconds = 0 // it is over
	}
	return l
}

// class is a kind of memory that is drawn on top of the others.
type class struct {
	name   string
	colour colour
	of     func(m memory) int64
}

var classes = []class{
	{"heap in use", blue, func(m memory) int64 { return max(0, m.heap) }},
	{"heap free", green, func(m memory) int64 { return max(0, m.free) }},
	{"anonymous", sky, func(m memory) int64 { return max(0, m.anon) }},
	{"shared", pink, func(m memory) int64 { return max(0, m.shmem) }},
	{"files", grey, func(m memory) int64 { return max(0, m.file) }},
	{"swapped", orange, func(m memory) int64 { return max(0, m.swap) }},
}

// series are values over time, one for each column of dots.
type series struct {
	name   string
	colour colour
	values []float64
	now    float64
}

// classSeries adds up the processes' classes over the time that is shown.
func (x *sessionScreen) classSeries(procs []*process, n int) []series {
	r := x.rec
	from, to, held := x.time.from(r), x.time.at(r), x.time.held(r)
	out := make([]series, len(classes))
	for i, c := range classes {
		out[i] = series{name: c.name, colour: c.colour, values: make([]float64, n)}
	}
	for _, p := range procs {
		v, ok := p.memory.over(from, to, n, r.stale())
		for k := range v {
			if !ok[k] || p.gone(from+(to-from)*int64(k)/int64(n)) {
				continue
			}
			for i, c := range classes {
				out[i].values[k] += float64(c.of(v[k]))
			}
		}
		if now, ok := p.memory.when(held, r.stale()); ok && !p.gone(held) {
			for i, c := range classes {
				out[i].now += float64(c.of(now))
			}
		}
	}
	return out
}

// memoryPart draws the job's memory by class: stacked, and each for itself.
func (x *sessionScreen) memoryPart(m *model, wide, high int) []string {
	heading := "memory of the job, last " + ago(x.time.shown(x.rec))
	lines := []string{rule(heading, wide)}
	legend := legendIn(wide)
	n := dotsAcross * (wide - legend - axis)
	devices := x.deviceSeries(x.rec.all(), n)
	host := x.classSeries(x.rec.all(), n)
	rows := high - 1
	if len(devices) > 0 && rows >= 6 {
		lines = append(lines, chartOf(host, wide, rows-rows/2, legend, x.limitNear())...)
		return append(lines, chartOf(devices, wide, rows/2, legend, 0)...)
	}
	return append(lines, chartOf(host, wide, rows, legend, x.limitNear())...)
}

// limitNear is the least limit of the job's cgroups; 0 for none.
func (x *sessionScreen) limitNear() float64 {
	least := 0.0
	for _, l := range x.limits() {
		if l.name == "cgroup" && (least == 0 || float64(l.total) < least) {
			least = float64(l.total)
		}
	}
	return least
}

// axis is the room for the heights at the left of a plot.
const axis = 10

// legendIn is the room for the legend; there is none where the plot needs all.
func legendIn(wide int) int {
	if wide < 64 {
		return 0
	}
	return 34
}

// chartOf draws series on top of each other, and at the right each for itself with its present value.
func chartOf(list []series, wide, high, legend int, limitAt float64) []string {
	high = max(high, 1)
	field := wide - legend - axis
	top := 0.0
	for k := range list[0].values {
		sum := 0.0
		for _, s := range list {
			if !math.IsNaN(s.values[k]) {
				sum += s.values[k]
			}
		}
		top = max(top, sum)
	}
	top *= 1.04
	if limitAt > 0 && limitAt < 1.6*top {
		top = max(top, limitAt*1.02)
	}
	p := newPlot(field, high)
	layers, colours := make([][]float64, len(list)), make([]colour, len(list))
	for i, s := range list {
		layers[i], colours[i] = s.values, s.colour
	}
	p.stack(layers, colours, top)
	p.level(limitAt, top, alarm)
	var side []string
	if legend > 0 {
		side = legendOf(list, legend-1, high)
	}
	lines := p.rows()
	for i := range lines {
		label := ""
		switch i {
		case 0:
			label = doc.Size(int64(top))
		case high - 1:
			label = "0"
		}
		text := paint(faint, right(label, axis-1)) + paint(grey, "▏") + lines[i]
		if i < len(side) {
			text += " " + side[i]
		}
		lines[i] = text
	}
	return lines
}

// legendOf names each series with its value and its own line, between 0 and its highest. What is nothing comes last.
func legendOf(list []series, wide, high int) []string {
	ranked := slices.Clone(list)
	order.Stable(ranked, func(a, b series) int {
		return cmp.Compare(highest(b.values), highest(a.values))
	})
	if sum := total(list); high > len(list) {
		ranked = append([]series{sum}, ranked...)
	}
	each := max(1, min(3, high/max(1, len(ranked))))
	var lines []string
	for _, s := range ranked {
		if highest(s.values) == 0 && s.now == 0 {
			continue
		}
		field := max(4, wide-12-10)
		p := newPlot(field, each)
		p.line(resample(s.values, field*dotsAcross), 0, highest(s.values), s.colour)
		for i, row := range p.rows() {
			name, value := "", ""
			if i == 0 {
				name, value = s.name, doc.Size(int64(s.now))
			}
			lines = append(lines, paint(s.colour, fit(name, 11))+" "+right(value, 9)+" "+row)
		}
	}
	return lines
}

func total(list []series) series {
	sum := series{name: "total", values: make([]float64, len(list[0].values))}
	for _, s := range list {
		sum.now += s.now
		for k, v := range s.values {
			if !math.IsNaN(v) {
				sum.values[k] += v
			}
		}
	}
	return sum
}

func highest(values []float64) float64 {
	top := 0.0
	for _, v := range values {
		if v > top {
			top = v
		}
	}
	return top
}

// resample makes n values of many, of each group the highest.
func resample(values []float64, n int) []float64 {
	out := make([]float64, n)
	for k := range out {
		out[k] = none
		for i := k * len(values) / n; i < max((k+1)*len(values)/n, k*len(values)/n+1) && i < len(values); i++ {
			if math.IsNaN(out[k]) || values[i] > out[k] {
				out[k] = values[i]
			}
		}
	}
	return out
}
