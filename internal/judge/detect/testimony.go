package detect

import (
	"math"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/stats"
	"github.com/memgauge/memgauge/internal/base/units"
)

// Both kinds of evidence are combined by one rule. The bytes give a chance of their rise by accident, a container's
// sizes give one of so constant a gain by accident (account.constant, times the containers that were tried). The two
// are measured by different means, so without a leak they are independent, and the chance of a product as small as
// theirs is q (1 − ln q) (Fisher 1932, for two). It must be below what a rise alone must be below: false alarms are as
// rare either way.
func together(bytes, census float64) float64 {
	q := bytes * census
	if q <= 0 {
		return 0
	}
	return min(1, q*(1-math.Log(q)))
}

const (
	// materialItems is the growth, in bytes, that counts where a census saw what makes it: it takes no noise for
	// growth, but what is less than this is a log of numbers, or a page or two of them.
	materialItems = 128 << 10
	// accident is the chance from which on a gain is no testimony, however clear it is that the memory rises.
	accident = 0.1
	// farther is how much farther from a curve than from the line sizes must lie for the line to be true. A size is
	// uncertain by an item, and by a step's.
	farther = 2
	// contradicts is by how often more than would have been seen a container must say it grows for the bytes to
	// contradict it: its size is known to about a half, since storages are shared.
	contradicts = 2
	// lateCensus is the share of a growth that may lie after the last census: what it saw then may have ended since.
	lateCensus = 2.0 / 3
)

// testify makes a leak of growth that the bytes alone can't show, where the censuses do: a container without a known
// bound gains a constant number of items a step.
func (p Process) testify(f *Finding, accounts []account) {
	if f.Verdict == Leak || f.End-f.Since < p.ripe() || f.Why == WithProcess {
		return
	}
	tried := 0
	for _, a := range accounts {
		if n := len(a.items) - 1; a.testifies(f) && (a.items[n] != a.items[0] || a.bytes[n] != a.bytes[0]) {
			tried++
		}
	}
	best, chance, shows := Growth{P: rising}, p.chance(f), p.shows(f)
	for _, a := range accounts {
		if !a.testifies(f) || within(a.holder, accounts) || a.before(accounts) {
			continue
		}
		if g, ok := p.grows(f, a, chance, shows, tried); ok && g.P < best.P {
			best = g
		}
		if b, ok := a.byBytes(accounts); ok {
			if g, ok := p.grows(f, b, chance, shows, tried); ok && g.P < best.P {
				best = g
			}
		}
	}
	if best.Verdict == Leak {
		f.Growth = best
	}
}

// nameless is what the path of something begins with that no name of the program leads to: of all such lists together.
const nameless = "<"

// testifies says whether the account is about the finding's memory, of the program's own, and has no known end.
func (a account) testifies(f *Finding) bool {
	named := !IsForeign(a.site) && !strings.HasPrefix(a.holder, nameless)
	return len(a.steps) >= leastCensuses && !a.trained && named && !a.ends() && a.device == (f.Device != "") &&
		(f.Memory == Heap || f.Memory == Anon || f.Memory == Worker || f.Memory == Device)
}

// ends says that the container's growth is known to end.
func (a account) ends() bool { return a.bound > 0 || a.guarded || a.state }

// grows is the finding's growth as the account tells it; ok where both together are beyond chance.
func (p Process) grows(f *Finding, a account, bytes, shows float64, tried int) (g Growth, ok bool) {
	chance, from := a.constant()
	if chance >= accident { // of memory that rises it says nothing
		return g, false
	}
	part := a.since(a.steps[from])
	items, rate := part.pace(part.items), part.pace(part.bytes)
	if math.IsNaN(rate) && a.conceals(f) && bytes < rising { // the memory rises, and tells what they take
		rate, shows = p.recent(f), math.Inf(1)
	}
	if !(items > 0) || !(rate > 0) || rate > contradicts*shows || a.slowed(from) || part.mayBend(items) {
		return g, false
	}
	start := part.steps[0]
	if from == 0 { // it grew before the first census: since it was empty, at this pace
		start = max(f.Since, start-part.items[0]/items)
	}
	last := part.steps[len(part.steps)-1]
	grown := rate * (f.End - start)
	g = f.Growth
	g.P = max(together(bytes, min(1, chance*float64(tried))), leastP)
	if g.P >= rising || f.End-start < p.ripe() || f.End-last > lateCensus*(f.End-start) || grown < materialItems {
		return g, false
	}
	g.because(Testified, a.holder)
	g.Rate, g.Low, g.High, g.Start, g.Total, g.Needs = rate, rate/contradicts, rate*contradicts, start, grown, 0
	return g, true
}

// slowed says whether a container gained faster before the moment `from`, over as long a time, than since: any piece
// of a curve looks straight.
func (a account) slowed(from int) bool {
	part := a.since(a.steps[from])
	before := a
	n := from + 1
	before.steps, before.items = a.steps[:n], a.items[:n]
	i, _ := slices.BinarySearch(before.steps, a.steps[from]-(part.steps[len(part.steps)-1]-part.steps[0]))
	before.steps, before.items = before.steps[i:], before.items[i:]
	return len(before.steps) >= leastCensuses && before.pace(before.items)*slackens > part.pace(part.items)
}

// mayBend says of a container that has more items than it can have gained at its pace since the first step that a curve
// through nothing at that step (a power of the steps, as of a vocabulary) fits about as well as the line does: it then
// gained faster before anybody looked. A list that was long when the training began lies on the line alone.
func (a account) mayBend(pace float64) bool {
	n := len(a.steps)
	if a.steps[0] < 1 || a.items[0] < 1 || a.items[0] <= pace*a.steps[0]/slackens {
		return false
	}
	slope := math.Log(a.items[n-1]/a.items[0]) / math.Log(a.steps[n-1]/a.steps[0])
	line, curve := 0.0, 0.0
	for i := range a.steps {
		line = max(line, math.Abs(a.items[i]-a.items[0]-pace*(a.steps[i]-a.steps[0])))
		curve = max(curve, math.Abs(a.items[i]-a.items[0]*math.Pow(a.steps[i]/a.steps[0], slope)))
	}
	return curve < farther*(line+1+pace)
}

// memories are the series that what the finding is about may show in: what Python keeps is in its own arenas as well as
// in malloc's.
func (p Process) memories(f *Finding) []Series {
	switch {
	case f.Device != "":
		for _, d := range p.Devices {
			if d.Name == f.Device {
				return []Series{d.Allocated}
			}
		}
	case f.Worker || p.ByTime:
		return []Series{ticking(p.Anon, p.tick())}
	}
	return []Series{p.Heap, p.Anon, p.Private, scaled(p.Blocks, blockSize)}
}

// chance of the rise of any of these memories over the younger two thirds by accident: the least of theirs, times how
// many there are.
func (p Process) chance(f *Finding) float64 {
	list := p.memories(f)
	least := 1.0
	for _, s := range list {
		s = s.clean()
		if len(s.Steps) < fewFloors {
			continue
		}
		if part := s.from(s.Steps[0] + s.width()/3).floors(blocks / 2); len(part.Steps) >= fewFloors {
			least = min(least, stats.FitTrend(part.Steps, part.Bytes).P())
		}
	}
	return min(1, least*float64(len(list)))
}

// recent is how fast the memories grow together over the younger two thirds.
func (p Process) recent(f *Finding) float64 {
	list := p.memories(f)
	s := list[min(1, len(list)-1)].clean() // of the host all that is private
	if len(s.Steps) < fewFloors {
		return 0
	}
	part := s.from(s.Steps[0] + s.width()/3).floors(blocks / 2)
	return stats.TheilSen(part.Steps, part.Bytes)
}

// shows is the rate above which growth would have been seen in all of these memories; +Inf where some were not read
// enough to tell.
func (p Process) shows(f *Finding) (rate float64) {
	if f.Device != "" || f.Worker || p.ByTime {
		return seenFrom(f.Unseen)
	}
	heap, private := p.judge(p.Heap), p.judge(p.Private)
	return min(seenFrom(heap.Unseen)+seenFrom(private.Unseen), seenFrom(p.judge(p.Anon).Unseen))
}

// seenFrom is +Inf where it was not computed.
func seenFrom(unseen float64) float64 {
	if unseen <= 0 {
		return math.Inf(1)
	}
	return unseen
}

// byBytes is the account of a container that has as many items as ever, by what hangs below these: a table of lists of
// which each grows. What is replaced each step, or fills places that were made beforehand, is none.
func (a account) byBytes(all []account) (account, bool) {
	a = a.censuses()
	n := len(a.items)
	if !a.container || n < leastCensuses || a.items[0] != a.items[n-1] || !(a.bytes[n-1] > a.bytes[0]) || a.slots(all) {
		return a, false
	}
	for _, b := range all {
		if b.tensors && strings.HasPrefix(b.holder, a.holder) && b.replaced() {
			return a, false
		}
	}
	a.items = a.bytes
	return a, true
}

// halfOf is the share of a growth that must be known to end for it to end.
const halfOf = 0.5

// against takes a leak back that the censuses know to end: what fills a bound, or is replaced each step. No trend tells
// these from a leak before they are over. Unless the memory is full before.
func (p Process) against(f *Finding, accounts []account, limit Limit) {
	if f.Verdict != Leak || f.Why == Testified {
		return
	}
	ending, endless, largest := 0.0, 0.0, account{}
	most, replaced := 0.0, 0.0
	for _, a := range accounts {
		a = a.during(f)
		if a.tensors && (a.device != (f.Device != "") || f.Memory == Private) || len(a.steps) < 2 {
			continue // tensors are malloc's, or the device's
		}
		rate := a.pace(a.bytes)
		switch {
		case a.tensors && a.replaced():
			replaced += rate
		case !(rate > 0) || a.tensors && !a.state && !a.guarded:
		case a.ends() || a.slots(accounts):
			if ending += rate; rate > most {
				most, largest = rate, a
			}
		case a.pace(a.items) > 0 && !IsForeign(a.site) && (!local(a.holder) || a.gathers()):
			endless += rate
		}
	}
	switch {
	case replaced > halfOf*f.Rate && replaced < f.Rate/halfOf && endless < explains*f.Rate:
		f.because(Larger)
	case ending > halfOf*f.Rate && endless < explains*f.Rate:
		largest.fills(p, f, limit)
	}
}

// fillsItems says that a container with a bound grows by its items: what hangs in them need not be bounded.
func (a account) fillsItems() bool { return !a.rested && a.items[len(a.items)-1] > a.items[0] }

// within says that a holder is, or hangs below, a container whose growth is known to end: its tensors end with it.
func within(holder string, accounts []account) bool {
	return slices.ContainsFunc(accounts, func(a account) bool {
		return a.container && a.ends() && a.fillsItems() && below(holder, a.holder)
	})
}

// before says that the account ends before the container that it lies in came to rest: what it saw grow is what that
// gained.
func (a account) before(accounts []account) bool {
	return slices.ContainsFunc(accounts, func(c account) bool {
		return c.rested && below(a.holder, c.holder) && a.steps[len(a.steps)-1] <= c.rests
	})
}

// boundOf is the account of the container with a known bound that a holder is, or hangs below; nil for none. One that
// has as many items as ever bounds nothing: what these hold grows.
func boundOf(holder string, accounts []account) *account {
	for i := range accounts {
		a := &accounts[i]
		if a.container && a.bound > 0 && a.fillsItems() && holder != "" && below(holder, a.holder) {
			return a
		}
	}
	return nil
}

// bounded takes a leak back whose named holder fills up to a bound, whatever share of the growth it explains: nothing
// without a bound was found that explains as much.
func (p Process) bounded(f *Finding, accounts []account, limit Limit) {
	if a := boundOf(f.Holder, accounts); a != nil && f.Verdict == Leak && f.Why != Testified {
		a.during(f).fills(p, f, limit)
	}
}

// gathers says that the account gains as many items from census to census: a variable of the step that is going on has
// as many as it happens to have.
func (a account) gathers() bool {
	chance, _ := a.constant()
	return chance < concealed
}

// during is the account since the growth began, with one census before where there are too few.
func (a account) during(f *Finding) account {
	if len(a.steps) == 1 && a.ends() && a.steps[0] > 0 { // all of it may have come since; or since the first step
		seen, start := a.steps[0], f.Start
		if seen <= start {
			start = 0
		}
		if a.state { // it is complete at the first step of its parameters: the rest of the growth is not its
			seen = max(seen, f.End)
		}
		a.steps, a.items = []float64{start, seen}, []float64{0, a.items[0]}
		a.bytes, a.fresh, a.counted = []float64{0, a.bytes[0]}, []float64{0, a.fresh[0]}, []bool{false, false}
		return a
	}
	i, _ := slices.BinarySearch(a.steps, f.Start)
	return a.since(a.steps[max(0, min(i, len(a.steps)-2))])
}

const (
	// fromNothing is the share of its last size that what gets larger with the steps had at first: what is built up
	// from nothing by making it anew each step is kept.
	fromNothing = 0.25
	// allFresh is the share of tensors that must be new for all to be: some are counted in samples.
	allFresh = 0.9
	// aboutAsMany is by how much a number that stays may differ.
	aboutAsMany = 0.1
	// bent is how far the sizes of larger steps may lie from a line, as a share of their rise: lengths are raised in
	// stairs.
	bent = 0.3
)

// replaced says that a holder keeps as many tensors as ever, all of them new, and these get larger.
func (a account) replaced() bool {
	n := len(a.steps)
	if n < leastCensuses || a.bytes[0] < fromNothing*a.bytes[n-1] || math.Abs(a.items[n-1]-a.items[0]) >
		aboutAsMany*a.items[0] {
		return false
	}
	rise, width := a.bytes[n-1]-a.bytes[0], a.steps[n-1]-a.steps[0]
	for i := 1; i < n; i++ {
		away := math.Abs(a.bytes[i] - a.bytes[0] - rise*(a.steps[i]-a.steps[0])/width)
		if !(a.fresh[i] >= allFresh*a.items[i]) || away > bent*rise {
			return false
		}
	}
	return rise > 0
}

// places is how many items a list that is made beforehand has at least: lists of layers and of classes are shorter.
const places = 64

// slots says that a container has as many items as ever, of which ever more are in use: a buffer that is written by
// index. Its tensors are fewer than its places, and nothing in it grows.
func (a account) slots(all []account) bool {
	n := len(a.steps)
	if n < 2 || a.items[n-1] < places || a.items[0] != a.items[n-1] {
		return false
	}
	used, before := 0.0, 0.0
	for _, b := range all {
		if b.holder == a.holder && b.tensors {
			b = b.since(a.steps[0])
			if m := len(b.items); m > 1 {
				used, before = used+b.items[m-1], before+b.items[0]
			}
		}
		if b.container && b.holder != a.holder && strings.HasPrefix(b.holder, a.holder) && b.pace(b.items) > 0 {
			return false
		}
	}
	return used > before && used < a.items[n-1]
}

// fills takes the leak back, unless the memory is full before the container is. A container that has had its fill says
// nothing about growth that goes on.
func (a account) fills(p Process, f *Finding, limit Limit) {
	items, pace := a.items[len(a.items)-1], a.pace(a.items)
	room := limit.Bytes - limit.Used
	switch {
	case a.bound > 0 && items < a.bound && pace > 0:
		left := (a.bound - items) / pace
		if limit.Bytes > 0 && left*f.Rate > room {
			return
		}
		f.because(FillsUp, a.holder, units.Count(int64(items)), units.Count(int64(a.bound)))
		f.Needs = math.Ceil(left)
	case a.bound > 0 && items >= a.bound:
		f.because(Full, a.holder, units.Count(int64(items)))
		f.Needs = p.wait(f)
	case a.state:
		f.because(Stages, a.holder)
		f.Needs = p.wait(f)
	case a.guarded:
		f.because(Guarded, a.holder)
		f.Needs = p.wait(f)
	case a.bound == 0:
		f.because(FillsSlots, a.holder, units.Count(int64(items)))
		f.Needs = p.wait(f)
	}
}
