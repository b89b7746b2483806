package collector

import "time"

// What the collector does unasked comes out of the budget of the session: half a percent of a core once a run is old,
// and some hundred milliseconds of CPU time at its beginning. All that it does grows rarer with the age of the run: a
// verdict on t seconds gains nothing from readings that are much closer together than t/20, and a look at what changed
// by a third tells something new.
const (
	drainEvery = time.Second            // a look at the rings' heads, some 20 µs; questions drain by themselves
	densest    = 100 * time.Millisecond // between samples while a run is young
	sparse     = 20                     // samples are a twentieth of the age apart, up to the session's interval

	firstLook = 500 * time.Millisecond // half a second of short steps is what a verdict needs at least; …
	// … before the first step a program is judged by time, and imports alone are no growth
	idleLook  = 5 * time.Second
	lookShare = 500                    // looks take at most this part of a core in the long run, …
	lookSaved = 200 * time.Millisecond // … and so much CPU time at once: what a short run is judged by must come soon
	// the next look comes when the run is a third older: each one is a chance of a false alarm, too
	lookSpread = 3
	rarest     = 2 * time.Minute
)

// sampleAfter is the time until the next sample of a run of this age. every is the session's interval.
func sampleAfter(age, every time.Duration) time.Duration {
	return min(max(age/sparse, densest), every)
}

// lookAfter is the time until the next look, when looks took so much CPU time at this age of the training.
func lookAfter(spent, age time.Duration) time.Duration {
	return min(max(lookShare*(spent-lookSaved)-age, age/lookSpread), rarest)
}
