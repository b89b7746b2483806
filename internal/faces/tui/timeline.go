package tui

import (
	"fmt"
	"time"

	"github.com/memgauge/memgauge/internal/base/units"
)

// timeline says which moment the screen shows, and how much of the time before it. All times are µs since the epoch.
type timeline struct {
	follow  bool  // the newest reading, whatever it is
	cursor  int64 // else this moment
	span    int64 // shown before it; 0: everything
	playing bool
	speed   float64 // of a replay
	real    int64   // wall clock at its last step
}

// leastSpan: readings are a tenth of a second apart at best.
const leastSpan = 2e6

// at is the moment that is shown.
func (t *timeline) at(r *recording) int64 {
	if t.follow {
		return r.last
	}
	return min(max(t.cursor, r.first), r.last)
}

// held is the moment of the memories beside the series. At the end of a session that is over, it is the last at which
// its largest process lived: what is read behind that was left over.
func (t *timeline) held(r *recording) int64 {
	at := t.at(r)
	if !t.follow || r.end.Live {
		return at
	}
	return min(at, r.held)
}

// from is where the series begin.
func (t *timeline) from(r *recording) int64 {
	at := t.at(r)
	if t.span == 0 {
		return min(r.first, at-leastSpan)
	}
	return at - t.span
}

// shown is the time between from and at, never 0.
func (t *timeline) shown(r *recording) int64 { return max(leastSpan, t.at(r)-t.from(r)) }

// freeze stops at the moment that is shown.
func (t *timeline) freeze(r *recording) { t.cursor, t.follow, t.playing = t.at(r), false, false }

// scroll moves the moment by a share of what is shown; beyond the newest it follows again.
func (t *timeline) scroll(r *recording, share float64) {
	wide := t.shown(r)
	if t.span == 0 {
		wide = max(leastSpan, r.last-r.first)
	}
	t.freeze(r)
	t.cursor = max(r.first, t.cursor+int64(share*float64(wide)))
	if t.cursor >= r.last {
		t.cursor, t.follow = r.last, true
	}
}

// zoom shows more (factor > 1) or less of the time before.
func (t *timeline) zoom(r *recording, factor float64) {
	t.span = max(leastSpan, int64(float64(t.shown(r))*factor))
	if t.span >= r.last-r.first {
		t.span = 0
	}
}

// play starts or stops; at the end it starts from the beginning.
func (t *timeline) play(r *recording, now time.Time) {
	if t.playing {
		t.playing = false
		return
	}
	if t.at(r) >= r.last {
		t.cursor = r.first
	} else {
		t.cursor = t.at(r)
	}
	t.playing, t.follow, t.real = true, false, now.UnixMicro()
}

// step goes on with a replay.
func (t *timeline) step(r *recording, now time.Time) {
	if !t.playing {
		return
	}
	t.cursor += int64(float64(now.UnixMicro()-t.real) * t.speed)
	t.real = now.UnixMicro()
	if t.cursor >= r.last {
		t.cursor, t.playing, t.follow = r.last, false, true
	}
}

// speeds of a replay.
const slowest, fastest = 0.25, 4096

func (t *timeline) faster(factor float64) { t.speed = min(fastest, max(slowest, t.speed*factor)) }

// text says which moment is shown, in the zone of loc.
func (t *timeline) text(r *recording, live bool, loc *time.Location) (string, colour) {
	clock := time.UnixMicro(t.at(r)).In(loc).Format("15:04:05")
	switch {
	case t.playing:
		return fmt.Sprintf("▶ %g× %s", t.speed, clock), sky
	case t.follow && live:
		return "● live " + clock, fine
	case t.follow:
		return "■ end " + clock, grey
	}
	return "❚❚ " + clock + ", " + ago(r.last-t.at(r)) + " before the " +
		map[bool]string{true: "newest", false: "end"}[live], orange
}

// ago is a stretch of time without needless digits.
func ago(us int64) string {
	d := time.Duration(us) * time.Microsecond
	switch {
	case d >= time.Hour:
		d = d.Truncate(time.Minute)
	case d >= 10*time.Second:
		d = d.Truncate(time.Second)
	default:
		d = d.Truncate(100 * time.Millisecond)
	}
	return units.Duration(d).String()
}
