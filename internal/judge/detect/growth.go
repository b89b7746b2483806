package detect

import (
	"fmt"
	"math"
	"slices"

	"github.com/memgauge/memgauge/internal/base/stats"
)

// Constants of judging one series. docs/detect.md discusses them.
const (
	// MinSteps a growth must have lasted. Caches, pools and buffers that fill by design do it in hundreds of batches at
	// most as a rule; younger growth is called young, not a leak.
	MinSteps = 200
	// minSpent is the same where the process ended because there was no more of this memory: what fills by design would
	// have to be larger than the memory, and nothing more will come that could decide. Below it, what a training builds
	// up in its first steps can't be told from the rest.
	minSpent = 50
	// minFloors is what the test for a random walk needs to have any power.
	minFloors = 12
	// blocks a window is divided into: enough to tell how the noise is correlated, and each still spans several
	// readings, so that its lowest one is a floor.
	blocks = 64
	// rising is the chance of a rise by accident: a run has some ten memories, each is looked at in some ten windows
	// and at some twenty moments (their number grows with the logarithm of the run), 2000 tries for 1 % of false alarms
	// in all.
	rising = 0.01 / 2000
	// material growth, in bytes: less than the pieces that allocators take and give back (an arena of Python's and one
	// of malloc's trimming are 1 MiB and 128 KiB).
	material = 1 << 20
	// overNoise is what growth must exceed the floor's own noise by: below it a line can't be told from its noise by
	// eye, and leftovers of a single jump look like one.
	overNoise = 5
	// flattens is Schwarz's criterion for a curve against a line: 2 is "positive" on Kass and Raftery's scale. The
	// curves tried have lost a fifth of their mean pace at least, so a line that is bent less passes for one.
	flattens = 2
	// slower is how much less than before counts as less: the pace over a window and over the one before it.
	slower = 0.95
	// outlast is by how much growth must outlast the longest that was ever given back.
	outlast = 3
)

// windows are where the last stretch of a run may begin, as shares of the run so far: leaks begin late, warm-ups end
// early. None is shorter than a seventh: in a shorter one every curve looks straight.
var windows = []float64{0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85}

// leastP is the least chance that is told: how well the tails of the noise are known ends long before.
const leastP = 1e-12

// Growth is the judgement of one series.
type Growth struct {
	Verdict Verdict
	Why     Why
	Reason  string // Why in a few words, for people
	Rate    float64
	Low     float64 // Rate's interval of 95 %, bytes a step
	High    float64
	Start   float64 // step from which it grows so
	End     float64 // step of the last reading
	Total   float64 // bytes, from Start to End
	Level   float64 // bytes at the end, on the line
	Noise   float64 // bytes, standard deviation of a floor
	Alpha   float64 // how much of a deviation is left at the next floor
	P       float64 // chance of such a rise without a trend
	N       int     // readings
	Floors  int
	Needs   float64 // steps more that would decide; 0 where steps don't
	Unseen  float64 // bytes a step that would not have been seen (of a healthy one)
	Since   float64 // step of the first reading
	Stairs  bool    // it came in few large steps, with rest between
	Load    string  // of a server: what it worked on meanwhile, such as "21 requests/s of 310 tokens"
}

// Judge judges one series. It has no memory: asked again later it may know better.
func Judge(raw Series) Growth { return judgeFrom(raw, MinSteps, nil) }

// judgeFrom is Judge of growth that must have lasted for least steps, and under a load.
func judgeFrom(raw Series, least float64, l *load) Growth {
	s := raw.clean()
	g := Growth{Verdict: Undecided, N: len(s.Steps)}
	if g.N > 0 {
		g.Since, g.Start, g.End, g.Level = s.Steps[0], s.Steps[0], s.Steps[g.N-1], s.Bytes[g.N-1]
	}
	all := s.floors(blocks)
	g.Floors, g.Noise = len(all.Steps), all.noise()
	if g.N < minFloors || s.width() < least {
		return tooShort(g, s)
	}
	g.Load, s = l.words(g.Start, g.End), l.level(s)
	all = s.floors(blocks)
	back := givenBack(all)
	var young, bent *window
	for _, share := range windows {
		w, ok := look(s, share)
		if !ok || !w.rises() {
			continue
		}
		why := l.grows(&w)
		if why == NoReason {
			why = w.doubts(s, back, least)
		}
		if why != NoReason {
			if young == nil {
				w.why, young = why, &w
			}
			if bent == nil && why == Flattens && w.bends() {
				bent = &w
			}
			continue
		}
		if bent != nil && !w.beyond(bent) && !w.straight() {
			continue
		}
		g = leaking(g, s, w)
		g.Load = l.words(g.Start, g.End)
		return g
	}
	return notLeaking(g, s, young, l)
}

// window is the stretch of a series from some step to its end.
type window struct {
	share  float64
	floors Series // without single jumps
	jumps  []int
	end    float64
	trend  stats.Trend
	curve  stats.Curve
	slope  float64 // Theil–Sen: a jump or two don't move it
	noise  float64
	equal  float64 // slope at equal load; +Inf where that is the same
	why    Why     // it is no leak yet
}

func look(s Series, share float64) (window, bool) {
	begin := s.Steps[0] + share*s.width()
	return newWindow(s.from(begin), share, s.until(begin).lowest())
}

// newWindow takes the lowest reading before the window as well.
func newWindow(part Series, share, lowest float64) (window, bool) {
	w := window{share: share, floors: part.floors(blocks), equal: math.Inf(1)}
	if len(w.floors.Steps) < minFloors || w.width() <= 0 {
		return w, false
	}
	w.end = w.floors.Bytes[len(w.floors.Bytes)-1]
	w.floors, w.jumps = w.floors.level(lowest)
	w.trend = stats.FitTrend(w.floors.Steps, w.floors.Bytes)
	w.slope = stats.TheilSen(w.floors.Steps, w.floors.Bytes)
	w.noise = w.floors.noise()
	return w, true
}

// How many rises count as events of their own; more of them are how this memory grows. A few more are that only where
// they come by the clock, as each epoch's do: of four events at random 1 in 80 are so evenly spaced.
const (
	maxJumps = 3
	fewJumps = 5
	evenly   = 0.1 // standard deviation of the intervals between them, of their mean
	// deeper is the share of a fall that must lie below all that was read before it.
	deeper = 0.25
)

// level takes out single jumps: a teacher network, a second pool. They say nothing of the growth beside them, and would
// drown it. Nor does one fall far below all that was read before, be it earlier than these floors (lowest): it gives
// back what is older than the growth, as the first full garbage collection does with what imports have left. What is
// given back of the growth itself leads no lower than where that began. at are the readings before which they were.
func (s Series) level(lowest float64) (out Series, at []int) {
	if len(s.Steps) < minFloors/2 { // what is usual can't be told
		return s, nil
	}
	pace := make([]float64, len(s.Steps)-1)
	for i := range pace {
		pace[i] = (s.Bytes[i+1] - s.Bytes[i]) / (s.Steps[i+1] - s.Steps[i])
	}
	usual := stats.Median(pace)
	rest := make([]float64, len(pace))
	for i := range rest {
		rest[i] = s.Bytes[i+1] - s.Bytes[i] - usual*(s.Steps[i+1]-s.Steps[i])
	}
	out = Series{s.Steps, slices.Clone(s.Bytes)}
	shift, spread := 0.0, stats.Spread(rest)
	fell := false
	for i, x := range rest {
		lowest = min(lowest, s.Bytes[i])
		down := !fell && x < -8*spread && s.Bytes[i+1] < lowest-deeper*(s.Bytes[i]-s.Bytes[i+1])
		fell = fell || down
		if down || x > max(material, 8*spread) {
			shift += s.across(i, usual)
			at = append(at, i+1)
		}
		out.Bytes[i+1] -= shift
	}
	if len(at) > fewJumps || len(at) > maxJumps && s.even(at) {
		return s, nil
	}
	return out, at
}

// even says whether jumps come at about equal intervals.
func (s Series) even(at []int) bool {
	n := float64(len(at) - 1)
	mean, sum := (s.Steps[at[len(at)-1]]-s.Steps[at[0]])/n, 0.0
	for i := 1; i < len(at); i++ {
		d := s.Steps[at[i]] - s.Steps[at[i-1]] - mean
		sum += d * d
	}
	return math.Sqrt(sum/n) < evenly*mean
}

// between is the longest stretch without a jump.
func (s Series) between(at []int) Series {
	var longest Series
	from := 0
	for _, to := range append(slices.Clone(at), len(s.Steps)) {
		if to-from > len(longest.Steps) {
			longest = Series{s.Steps[from:to], s.Bytes[from:to]}
		}
		from = to
	}
	return longest
}

// across is the height of a jump between readings i and i+1: between the middles of some readings on both sides.
func (s Series) across(i int, pace float64) float64 {
	const some = 5
	side := func(from, to int) float64 {
		var list []float64
		for k := max(from, 0); k < min(to, len(s.Steps)); k++ {
			list = append(list, s.Bytes[k]-pace*s.Steps[k])
		}
		return stats.Median(list)
	}
	return side(i+1, i+1+some) - side(i+1-some, i+1)
}

func (w window) width() float64 { return w.floors.width() }

// total is what the window grew by.
func (w window) total() float64 { return w.slope * w.width() }

// rises says whether there is growth beyond chance, of some size.
func (w window) rises() bool {
	return w.trend.P() < rising && w.total() > max(material, overNoise*w.noise)
}

// doubts says why growth is no leak yet; NoReason when nothing speaks against it.
func (w *window) doubts(s Series, back release, least float64) Why {
	last := w.floors.from(w.floors.Steps[0] + 0.7*w.width())
	if len(last.Steps) >= 3 {
		if now := stats.TheilSen(last.Steps, last.Bytes); now < w.slope/2 && last.total() < w.total()*0.3/2 {
			return Stopped
		}
	}
	if len(w.jumps) > 0 {
		quiet := w.floors.between(w.jumps)
		if slope := stats.TheilSen(quiet.Steps, quiet.Bytes); !(slope > w.slope/2 &&
			slope*quiet.width() > overNoise*w.noise) {
			return SingleJumps
		}
	}
	w.curve = stats.FitCurve(w.floors.Steps, w.floors.Bytes)
	if w.curve.Evidence > flattens {
		return Flattens
	}
	if w.slowed(s) {
		return Slower
	}
	if back.longest > 0 && w.floors.Steps[len(w.floors.Steps)-1]-back.at < outlast*back.longest && !back.outgrown(w) {
		return GivenBack
	}
	if w.width() < least*0.95 { // the window's first floor lies somewhat after its start
		return Young
	}
	return NoReason
}

// clearly is Schwarz's criterion from which a curve is preferred whatever it looks like: "strong" on the same scale.
// One that has lost much of its pace needs less: a line with noise seldom looks so.
const (
	clearly  = 6
	lostPace = 0.6
)

// bends says that a window is a curve clearly enough to speak for the shorter windows in it.
func (w window) bends() bool { return w.curve.Evidence > clearly || w.curve.Pace < lostPace }

// more is how much faster than a curve foretells a window must grow to go beyond it: what a curve that was fitted to
// noise is wrong by.
const more = 1.1

// A window that leaves out the first fifth at most and is a line beyond doubt ("very strong" on the same scale) says
// that the longer one is bent by its beginning alone, such as a table that gets its keys in the first epoch. Of a
// logarithm, a root or an exponential so long a piece is bent as well.
const (
	mostLeftOut = 0.2
	beyondDoubt = 10
)

func (w window) straight() bool { return w.share <= mostLeftOut && w.curve.Evidence < -beyondDoubt }

// beyond says that a short window grows faster than the curve over a longer one foretells. A short piece of any curve
// looks straight; only what the curve does not explain is growth of its own.
func (w window) beyond(bent *window) bool {
	begin, end := w.floors.Steps[0], w.floors.Steps[len(w.floors.Steps)-1]
	foretold := bent.curve.Slope(begin, end)
	return !(w.slope <= more*foretold+2*w.trend.Err)
}

// total of a piece of a series: from its first to its last reading.
func (s Series) total() float64 { return s.Bytes[len(s.Bytes)-1] - s.Bytes[0] }

// slowed compares with the stretch before, as long as this one where there is as much: a short window on a curve looks
// straight, but what came before was steeper.
func (w window) slowed(s Series) bool {
	begin := w.floors.Steps[0]
	before := s.until(begin).from(begin - w.width())
	if len(before.Steps) < minFloors/2 || before.width() < 0.2*w.width() {
		return false
	}
	before, _ = before.floors(blocks).level(s.until(before.Steps[0]).lowest())
	slope := stats.TheilSen(before.Steps, before.Bytes)
	return slope*slower > w.slope+math.Hypot(w.floors.slopeError(), before.slopeError())
}

// slopeError is a line's standard error by the noise between neighbours alone: the least that it can be.
func (s Series) slopeError() float64 {
	return s.noise() / s.width() * math.Sqrt(12/float64(len(s.Steps)))
}

// release is what a series gave back: sawtooths of caches that are emptied, of lists that are cleared, of garbage that
// is collected. What grows and is given back is no leak, but one rise of it looks like one.
type release struct {
	at      float64 // step of the last release; 0 without any
	longest float64 // steps of the longest rise before a release
	count   int
	peak    float64 // the highest level before a release
	fall    float64 // the largest
}

// givenBack finds falls that undo at least half of the rise before them.
func givenBack(f Series) (r release) {
	if len(f.Bytes) < 3 {
		return r
	}
	least := max(material, 4*f.noise())
	trough, peak := 0, 0
	for i := range f.Bytes {
		rise, fall := f.Bytes[peak]-f.Bytes[trough], f.Bytes[peak]-f.Bytes[i]
		switch {
		case f.Bytes[i] > f.Bytes[peak]:
			peak = i
		case rise >= least && fall >= least && fall >= rise/2:
			r.at, r.longest = f.Steps[i], max(r.longest, f.Steps[peak]-f.Steps[trough])
			r.count++
			r.peak, r.fall = max(r.peak, f.Bytes[peak]), max(r.fall, fall)
			trough, peak = i, i
		case f.Bytes[i] < f.Bytes[trough] || peak == trough:
			trough, peak = i, i
		}
	}
	return r
}

// outgrown says that the releases are small against the growth: its floors rise all the same.
func (r release) outgrown(w *window) bool {
	return r.count >= 3 && w.total() > 2*r.fall || w.end > r.peak+2*r.fall
}

func leaking(g Growth, s Series, w window) Growth {
	start := onset(s, w)
	// A stretch of few stairs has the rest of them taken out as single jumps: what is left is not this growth.
	if exact, ok := newWindow(s.from(start), w.share, s.until(start).lowest()); ok && exact.slope > w.slope/2 &&
		exact.width() > w.width()/8 {
		exact.equal, w = w.equal, exact
	}
	g.fill(w)
	g.because(Steady)
	g.Start, g.Stairs = start, s.from(start).floors(blocks).stairs()
	return g
}

// fewStairs make most of a growth that comes in stages: a network that is deepened, resolutions, shards.
const (
	fewStairs  = 10
	ofTheRise  = 0.8
	inBetween  = 0.2 // of the rise may be lost between the stairs
	leastRests = 3   // floors without a stair for each with one
)

// stairs says whether the series rises in few large steps and rests in between.
func (s Series) stairs() bool {
	var up []float64
	down := 0.0
	for i := 1; i < len(s.Bytes); i++ {
		if d := s.Bytes[i] - s.Bytes[i-1]; d > 0 {
			up = append(up, d)
		} else {
			down -= d
		}
	}
	if len(s.Bytes) < minFloors || down > inBetween*s.total() {
		return false
	}
	slices.Sort(up)
	sum, count := 0.0, 0
	for i := len(up) - 1; i >= 0 && sum < ofTheRise*s.total(); i-- {
		sum += up[i]
		count++
	}
	return count <= fewStairs && (leastRests+1)*count <= len(s.Bytes)
}

// fill takes the figures of a window.
func (g *Growth) fill(w window) {
	g.Rate = w.slope
	low, high := w.trend.Interval(0.95)
	g.Low, g.High = min(low, w.slope), max(high, w.slope)
	g.P, g.Alpha, g.Noise, g.Floors = max(w.trend.P(), leastP), w.trend.Alpha, w.noise, len(w.floors.Steps)
	g.Total, g.Start = w.total(), w.floors.Steps[0]
	g.Level = w.end
	if w.equal < w.slope/2 { // the rest of it came with the load
		g.Rate, g.Low, g.Total = w.equal, min(g.Low, w.equal), w.equal*w.width()
	}
}

// promised is how many steps more of growth that may end are waited for: until it is twice as old as it was when the
// last wait ended, at MinSteps, twice as many, and so on. So what is told shrinks as the steps are made, and a wait
// that was told is not put off meanwhile.
func promised(age float64) float64 {
	until := 2.0 * MinSteps
	for until <= age {
		until *= 2
	}
	return math.Ceil(until - age)
}

func notLeaking(g Growth, s Series, w *window, l *load) Growth {
	recent, ok := look(s, 0.5)
	if ok {
		_, high := recent.trend.Interval(0.95)
		g.Unseen = max(high, material/recent.width()) // less than material is not looked at, however clear it is
	}
	if w == nil {
		g.because(NoGrowth)
		return g
	}
	g.fill(*w)
	g.because(w.why)
	switch w.why {
	case Flattens, Slower:
		g.Needs = promised(g.End - g.Since)
		if over(s, w) {
			g.because(Flattened)
			g.Needs = 0
		}
	case OtherLoad:
		quarter := (g.End - g.Start) / 4
		g.because(OtherLoad, l.words(g.Start, g.Start+quarter), l.words(g.End-quarter, g.End))
		g.Needs = promised(g.End - g.Since)
	case Young:
		g.Needs = math.Ceil(max(MinSteps-w.width(), MinSteps/10))
	}
	return g
}

// over says that what grows ever more slowly has all but ended: little is left by its own curve, and the last part
// shows no rise.
func over(s Series, w *window) bool {
	tail, ok := look(s, 0.7)
	little := max(0.05*w.total(), min(material, 0.2*w.total()))
	return ok && (!tail.rises() || w.curve.Left < little)
}

// tooShort is the answer where no verdict can be given.
func tooShort(g Growth, s Series) Growth {
	g.Needs = math.Ceil(MinSteps - s.width())
	g.because(TooFewSteps)
	if s.mayGrow() {
		g.Total = s.total() // so far; too little to be told from chance, and too much to be passed over
	}
	if g.N < minFloors {
		g.because(TooFewReadings)
		if g.N > 1 {
			g.Needs = max(g.Needs, math.Ceil(s.width()/float64(g.N-1)*float64(minFloors-g.N)))
		}
		g.Needs = max(g.Needs, float64(minFloors-g.N))
	}
	return g
}

// onset is the step from which the line holds that leads to the end: the break after which a line of its own fits best,
// beside another one before it. Where one line from the beginning is as good, within a hundredth of the growth, the
// growth is as old as the series.
func onset(s Series, w window) float64 {
	f := s.floors(2 * blocks)
	n := len(f.Steps)
	one := lineLoss(f)
	best, at := one-0.01*w.total()*float64(n), 0
	for k := 2; k <= n-minFloors/2; k++ {
		if loss := lineLoss(Series{f.Steps[:k], f.Bytes[:k]}) +
			lineLoss(Series{f.Steps[k:], f.Bytes[k:]}); loss < best {
			best, at = loss, k
		}
	}
	return f.Steps[at]
}

// lineLoss is the sum of absolute deviations from a robust line.
func lineLoss(f Series) (sum float64) {
	stride := (len(f.Steps) + 23) / 24 // 24 points give 276 slopes: enough for a median
	var xs, ys []float64
	for i := 0; i < len(f.Steps); i += stride {
		xs, ys = append(xs, f.Steps[i]), append(ys, f.Bytes[i])
	}
	slope := 0.0
	if len(xs) > 2 {
		slope = stats.TheilSen(xs, ys)
	}
	rest := make([]float64, len(f.Steps))
	for i := range rest {
		rest[i] = f.Bytes[i] - slope*f.Steps[i]
	}
	m := stats.Median(rest)
	for _, r := range rest {
		sum += math.Abs(r - m)
	}
	return sum
}

// String is for tests and logs.
func (g Growth) String() string {
	return fmt.Sprintf("%s (%s): %.0f B/step (%.0f to %.0f) from %.0f, %d floors, p %.1g", g.Verdict, g.Reason, g.Rate,
		g.Low, g.High, g.Start, g.Floors, g.P)
}

// suspicious growth is worth a look at what is held: a chance of 1 in 1000 is enough, and a fifth of the steps that a
// verdict needs. What a census saw while it was young is what an older one is compared with.
const (
	suspicious    = 0.001
	suspiciousFor = MinSteps / 5
	fewFloors     = 5
)

// Suspicious says whether some memory of a process may be growing. Without steps a program's beginning looks so, and a
// look that is taken then is missing later: there it must be a leak.
func Suspicious(p Process) bool {
	if p.ByTime {
		return p.judge(p.Anon).Verdict == Leak || p.judge(p.Shared).Verdict == Leak
	}
	tick := p.tick()
	list := []Series{p.Heap, p.Anon, p.Private, scaled(p.Blocks, blockSize), p.Shared, p.Unmapped}
	if p.Worker {
		list = []Series{p.Anon, p.Shared}
	}
	for _, d := range p.Devices {
		list = append(list, d.Allocated)
	}
	for _, s := range list {
		if ticking(s, tick).clean().mayGrow() {
			return true
		}
	}
	return false
}

func (s Series) mayGrow() bool {
	if s.width() < suspiciousFor {
		return false
	}
	for _, share := range []float64{0.1, 0.5, 0.7} {
		f := s.from(s.Steps[0] + share*s.width()).floors(blocks / 2)
		if len(f.Steps) < fewFloors {
			continue
		}
		if stats.FitTrend(f.Steps, f.Bytes).P() < suspicious && stats.TheilSen(f.Steps, f.Bytes)*f.width() > material {
			return true
		}
	}
	return false
}
