package tui

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/formats/doc"
)

// deviceSeries adds up what allocators and drivers say of all devices; nil where there is none.
func (x *sessionScreen) deviceSeries(procs []*process, n int) []series {
	r := x.rec
	from, to := x.time.from(r), x.time.at(r)
	allocated := series{name: "allocated", colour: blue, values: make([]float64, n)}
	cached := series{name: "cached", colour: sky, values: make([]float64, n)}
	other := series{name: "outside", colour: grey, values: make([]float64, n)}
	any := false
	for _, p := range procs {
		sum := make([]float64, n)
		for _, d := range p.devices {
			v, ok := d.over(from, to, n, r.stale())
			for k := range v {
				if ok[k] {
					allocated.values[k] += float64(max(0, v[k].allocated))
					cached.values[k] += float64(max(0, v[k].reserved-max(0, v[k].allocated)))
					sum[k] += float64(max(0, v[k].reserved))
				}
			}
			any = true
		}
		used, ok := p.gpu.over(from, to, n, r.stale())
		for k := range used {
			if ok[k] {
				other.values[k] += max(0, float64(used[k])-sum[k])
				any = true
			}
		}
	}
	if !any {
		return nil
	}
	out := []series{allocated, cached, other}
	last := n - 1
	if to > from {
		last = min(last, int(int64(n)*(x.time.held(r)-from)/(to-from)))
	}
	for i := range out {
		out[i].now = out[i].values[max(0, last)]
	}
	return out
}

// floorsPart draws what the chosen process held at the end of each step.
func (x *sessionScreen) floorsPart(wide, high int) []string {
	p := x.chosen()
	if p != nil && len(p.steps.at) == 0 {
		p = x.rec.foremost(x.time.at(x.rec))
	}
	if p == nil || high < 2 {
		return pad([]string{rule("floor after each step", wide), paint(faint, " no steps yet")}, high)
	}
	list := x.floorSeries(p, dotsAcross*(wide-axis))
	first, last := p.stepsOver(x.time.from(x.rec), x.time.at(x.rec))
	heading := fmt.Sprintf("floor after each step, %s", p.label())
	if last > 0 {
		heading += fmt.Sprintf(", steps %s to %s", units.Count(first), units.Count(last))
	}
	lines := []string{rule(heading, wide)}
	rows := high - 1
	if len(list) > 2 || rows < 2*len(list) {
		list = list[:max(1, min(len(list), rows/2, 2))]
	}
	for i, s := range list {
		share := rows / len(list)
		if i == len(list)-1 {
			share = rows - i*share
		}
		lines = append(lines, floorPlot(s, wide, share)...)
	}
	return pad(lines, high)
}

// floorSeries are the floors of a process: of its devices, then of the host.
func (x *sessionScreen) floorSeries(p *process, n int) (list []series) {
	r := x.rec
	from, to := x.time.from(r), x.time.at(r)
	for _, name := range slices.Sorted(maps.Keys(p.devices)) {
		v, ok := p.devices[name].over(from, to, n, r.stale())
		s := series{name: "allocated on " + safe(name), colour: green, values: make([]float64, n)}
		for k := range v {
			if s.values[k] = none; ok[k] && v[k].allocated >= 0 {
				s.values[k] = float64(v[k].allocated)
			}
		}
		list = append(list, s)
	}
	v, ok := p.steps.over(from, to, n, r.stale())
	heap := series{name: "heap in use", colour: blue, values: make([]float64, n)}
	anon := series{name: "private resident", colour: sky, values: make([]float64, n)}
	known := false
	for k := range v {
		heap.values[k], anon.values[k] = none, none
		if ok[k] && v[k].heap >= 0 {
			heap.values[k], known = float64(v[k].heap), true
		} else if ok[k] && k > 0 {
			heap.values[k] = heap.values[k-1] // malloc is asked only now and then
		}
		if ok[k] && v[k].anon >= 0 {
			anon.values[k] = float64(v[k].anon)
		}
	}
	if known {
		return append(list, heap, anon)
	}
	return append(list, anon)
}

// floorPlot draws a line between its lowest and its highest value, which stand at the left.
func floorPlot(s series, wide, high int) []string {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range s.values {
		if !math.IsNaN(v) {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	if hi < lo {
		return pad([]string{paint(faint, " "+s.name+": not taken")}, high)
	}
	if hi-lo < hi/50 { // else noise fills the height
		lo = max(0, hi-hi/50)
	}
	p := newPlot(wide-axis, high)
	p.line(s.values, lo, hi, s.colour)
	lines := p.rows()
	for i := range lines {
		label := ""
		switch i {
		case 0:
			label = doc.Size(int64(hi))
		case high - 1:
			label = doc.Size(int64(lo))
		}
		lines[i] = paint(faint, right(label, axis-1)) + paint(grey, "▏") + lines[i]
	}
	if high > 1 { // the name where a rising line leaves room
		lines[0] = overlay(lines[0], " "+s.name+" ", axis+1)
	}
	return lines
}

// overlay writes a short text over blanks of a line, from a column on, where there are only blanks.
func overlay(line, text string, at int) string {
	bare := []rune(strip(line))
	w := len([]rune(text))
	if at+w > len(bare) || strings.TrimSpace(string(bare[at:at+w])) != "" {
		return line
	}
	return cut2(line, 0, at) + paint(faint, text) + cut2(line, at+w, len(bare))
}

func pad(lines []string, high int) []string {
	for len(lines) < high {
		lines = append(lines, "")
	}
	return lines[:max(0, high)]
}

// stepsOver are the first and the last step in a stretch of time.
func (p *process) stepsOver(from, to int64) (first, last int64) {
	i, j := p.steps.upTo(from), p.steps.upTo(to)
	if i >= j {
		return 0, 0
	}
	return p.steps.v[i].step, p.steps.v[j-1].step
}

// label names a process.
func (p *process) label() string {
	if p.rank >= 0 {
		return fmt.Sprintf("rank %d", p.rank)
	}
	return fmt.Sprintf("pid %d", p.pid)
}

var treeOrders = []struct {
	name string
	less func(x *sessionScreen, a, b *process) int
}{
	{"largest first", func(x *sessionScreen, a, b *process) int { return cmp.Compare(x.rss(b), x.rss(a)) }},
	{"by rank", func(_ *sessionScreen, a, b *process) int {
		return cmp.Or(cmp.Compare(uint(a.rank), uint(b.rank)), cmp.Compare(a.pid, b.pid)) // -1 comes last
	}},
	{"by CPU", func(x *sessionScreen, a, b *process) int {
		at := x.time.held(x.rec)
		return cmp.Compare(b.cpuShare(at), a.cpuShare(at))
	}},
	{"by PID", func(_ *sessionScreen, a, b *process) int { return cmp.Compare(a.pid, b.pid) }},
}

func (x *sessionScreen) rss(p *process) int64 {
	v, ok := p.memory.when(x.time.held(x.rec), x.rec.stale())
	if !ok {
		return -1
	}
	return v.rss
}

var treeColumns = []column{{name: "process", wide: 15}, {name: "pid", wide: 8, right: true},
	{name: "memory", wide: 9, right: true}, {name: "", wide: 8, from: 60},
	{name: "GPU", wide: 9, right: true, from: 90}, {name: "CPU", wide: 5, right: true},
	{name: "step", wide: 9, right: true}, {name: "command"}}

// tree shows the processes that were alive at the moment below their parents.
func (x *sessionScreen) tree(wide, high, line int) []string {
	at := x.time.held(x.rec)
	alive := x.rec.alive(at)
	order := treeOrders[x.procs.sort%len(treeOrders)]
	heading := doc.Plural(len(alive), "process") + ", " + order.name
	heading = strings.Replace(heading, "processs", "processes", 1)
	if at != x.time.at(x.rec) {
		heading += ", read " + ago(x.time.at(x.rec)-at) + " before the end"
	}
	slices.SortStableFunc(alive, func(a, b *process) int {
		if x.procs.reverse {
			a, b = b, a
		}
		return order.less(x, a, b)
	})
	sum := 1.0 // of numbers that another machine may have said: whole ones overflow
	for _, p := range alive {
		sum += float64(max(0, x.rss(p)))
	}
	var items []item
	for _, n := range nested(alive) {
		items = append(items, x.treeItem(n, at, sum))
	}
	if p := x.rec.foremost(at); p != nil && !x.procs.picked {
		x.procs.chosen = strconv.Itoa(p.pid)
	}
	lines := []string{rule(heading, wide)}
	if len(items) == 0 {
		x.procs.point(nil)
		return append(lines, paint(faint, " none at this moment"))
	}
	return append(lines, x.procs.draw(treeColumns, items, wide, high-1, line+1, true)...)
}

func (x *sessionScreen) treeItem(n node, at int64, sum float64) item {
	p := n.p
	role := cmp.Or(p.role, "process")
	if p.rank >= 0 {
		role = fmt.Sprintf("rank %d", p.rank)
	}
	step := ""
	if i := p.steps.upTo(at) - 1; i >= 0 {
		step = units.Count(p.steps.v[i].step)
	}
	gpuUsed, ok := p.gpu.when(at, x.rec.stale())
	if !ok {
		gpuUsed = -1
	}
	rss := x.rss(p)
	share := strings.Repeat("█", int(math.Round(8*float64(max(0, rss))/sum)))
	command := safe(p.command)
	return item{key: strconv.Itoa(p.pid), text: fmt.Sprint(p.pid, " ", role, " ", p.role, " ", command),
		cells: []string{n.prefix + safe(role), strconv.Itoa(p.pid), size(rss), paint(blue, share), size(gpuUsed),
			percent(p.cpuShare(at)), step, safe(brief(strings.Fields(p.command)))}}
}

// node is a process at its place in the tree.
type node struct {
	p      *process
	prefix string // branches
}

// nested puts children behind their parents, in the order given. Processes that form a circle, made by PIDs used again,
// are roots.
func nested(list []*process) (out []node) {
	there := map[int]bool{}
	for _, p := range list {
		there[p.pid] = true
	}
	children := map[int][]*process{}
	for _, p := range list {
		parent := p.ppid
		if !there[parent] || parent == p.pid {
			parent = 0
		}
		children[parent] = append(children[parent], p)
	}
	done := map[int]bool{}
	var walk func(parent int, indent string)
	walk = func(parent int, indent string) {
		for i, p := range children[parent] {
			if done[p.pid] {
				continue
			}
			done[p.pid] = true
			branch, further := "├ ", "│ "
			if i == len(children[parent])-1 {
				branch, further = "└ ", "  "
			}
			if parent == 0 {
				branch, further = "", ""
			}
			out = append(out, node{p, indent + branch})
			walk(p.pid, indent+further)
		}
	}
	walk(0, "")
	for _, p := range list {
		if !done[p.pid] {
			out = append(out, node{p, ""})
		}
	}
	return out
}

// panelPart shows holders, events or findings.
func (x *sessionScreen) panelPart(m *model, which string, wide, high int, scrolled bool) []string {
	if high < 1 {
		return nil
	}
	var heading string
	var body []string
	switch which {
	case "events":
		heading, body = "events, the newest first", x.eventLines(m, wide)
	case "findings":
		heading, body = "findings: what was judged", x.findingLines(wide)
	default:
		heading, body = "who holds it, at the last census", x.holderLines(wide)
	}
	if scrolled {
		x.scroll = max(0, min(x.scroll, len(body)-(high-1)))
		body = body[x.scroll:]
		if x.scroll > 0 || len(body) > high-1 {
			heading += fmt.Sprintf(" (%d more: [ ])", x.scroll+max(0, len(body)-(high-1)))
		}
	}
	return pad(append([]string{rule(heading, wide)}, body...), high)
}

func (x *sessionScreen) holderLines(wide int) (lines []string) {
	for _, h := range x.holders {
		amount := size(h.Bytes)
		if h.Bytes < 0 {
			amount = units.Count(h.Count) + "×"
		}
		fresh := ""
		if h.Fresh > 0 {
			fresh = "+" + units.Count(h.Fresh)
		}
		name := cmp.Or(safe(h.Holder), "held by nothing that was found")
		site := ""
		if h.Site != "" {
			site = "  " + x.here(h.Site)
		}
		lines = append(lines, cut(right(amount, 10)+" "+paint(orange, right(fresh, 7))+" "+name+
			paint(faint, site+"  "+safe(h.Text)), wide))
	}
	if len(lines) == 0 {
		return []string{paint(faint, " no census yet: one is taken when memory grows")}
	}
	return lines
}

func (x *sessionScreen) eventLines(m *model, wide int) (lines []string) {
	at := x.time.at(x.rec)
	for i := len(x.rec.events) - 1; i >= 0; i-- {
		e := x.rec.events[i]
		if e.at > at {
			continue
		}
		c := plainText
		if strings.HasPrefix(e.name, "oom") {
			c = alarm
		}
		clock := time.UnixMicro(e.at).In(m.o.Location).Format("15:04:05")
		lines = append(lines, cut(" "+paint(faint, clock)+" "+paint(c, safe(e.name))+
			paint(faint, " "+strconv.Itoa(e.pid))+" "+safe(e.text), wide))
	}
	if len(lines) == 0 {
		return []string{paint(faint, " none until this moment")}
	}
	return lines
}

// foldedLines are as many as a sentence takes on the narrowest screen.
const foldedLines = 8

func (x *sessionScreen) findingLines(wide int) (lines []string) {
	j := x.rec.verdictAt(x.time.at(x.rec))
	if j == nil {
		return []string{paint(faint, " nothing judged yet")}
	}
	for _, f := range j.findings {
		c := map[string]colour{"leak": alarm, "undecided": yellow, "healthy": fine}[f.Verdict]
		text := safe(f.Name) + " (pid " + strconv.Itoa(int(f.PID)) + ")"
		if f.Verdict == "leak" {
			text = x.leakText(f)
		} else if f.Reason != "" {
			text += ": " + safe(f.Reason)
		}
		lines = append(lines, folded(" "+paint(c, safe(f.Verdict))+" "+text, wide, foldedLines)...)
		if f.Verdict == "leak" {
			for _, advice := range f.Advice.List() {
				lines = append(lines, folded("   "+paint(sky, "do ")+safe(strings.TrimSpace(advice)), wide,
					foldedLines)...)
			}
		}
	}
	return lines
}
