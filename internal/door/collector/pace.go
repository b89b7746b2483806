package collector

import "time"

// What the collector does without a request counts in the session's budget: half a percent of a core once a run is old,
// and some hundred milliseconds of CPU time at its beginning. Its work becomes rarer with the age of the run: readings
// much closer together than t/20 don't improve a verdict on t seconds, and a new verdict is worth its cost when the run
// is a third older.
const (
	drainEvery = time.Second            // reading the rings' heads costs some 20 µs; requests drain by themselves
	densest    = 100 * time.Millisecond // between samples while a run is young
	sparse     = 20                     // samples are a twentieth of the age apart, up to the session's interval

	firstLook = 500 * time.Millisecond // half a second of short steps is what a verdict needs at least; …
	// … before the first step a program is judged by time, for which a verdict takes 20 s, and not by its imports
	idleLook  = 10 * time.Second
	lookShare = 500                    // looks take at most this part of a core in the long run, …
	lookSaved = 200 * time.Millisecond // … and so much CPU time at once, since a short run needs its verdicts soon
	// the next look comes when the run is a third older: each one is a chance of a false alarm, too
	lookSpread = 3
	rarest     = 2 * time.Minute
)

// sampleAfter is the time until the next sample of a run of this age. every is the session's interval.
func sampleAfter(age, every time.Duration) time.Duration {
	return min(max(age/sparse, densest), every)
}

// lookAfter returns the time until the next look. spent is the CPU time that looks have taken so far, age that of the
// training.
func lookAfter(spent, age time.Duration) time.Duration {
	return min(max(lookShare*(spent-lookSaved)-age, age/lookSpread), rarest)
}

// classesAfter is the time until a job's maps may be read again, in its age, when the last reading took so much CPU
// time.
func classesAfter(age, took time.Duration) time.Duration {
	return min(max(age/4, classesShare*took), classesRest)
}
