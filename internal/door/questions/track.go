package questions

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Track is a memory over time: parts that add up to what is drawn as a whole, or lines of their own.
type Track struct {
	from  string // table and condition
	whole string // expression; its least and most in each interval are drawn too
	limit string // expression, "" for none
	Parts []Part // of what is drawn, from the bottom
	apart bool   // parts are read at different moments: of each the last that was taken counts, not one moment's all
}

// Part is a class of memory: its name, and the expression.
type Part struct{ Name, expr string }

var residentParts = []Part{{"heap_in_use", HeapInUse}, {"heap_free", HeapFree}, {"anonymous", Divided},
	{"undivided", Undivided}, {"shared", "shmem"}, {"file", "file"}}

// TrackOf is the memory of a kind: job, host, process, device, allocator, floors; pid, device and path tell which.
func TrackOf(kind string, pid, dev int64, path string) (Track, error) {
	switch kind {
	case "job":
		return Track{from: "cgroup.memory WHERE path = " + Quoted(path), whole: "current", limit: "limit_bytes",
			Parts: []Part{{"anonymous", "anon"}, {"shared", "shmem"}, {"file", "file"}, {"kernel", "kernel"}}}, nil
	case "host":
		return Track{from: "host.memory WHERE true", whole: "total - available", limit: "total",
			Parts: []Part{{"anonymous", "anon"}, {"shared", "shmem"},
				{"kernel", "slab - slab_reclaimable + kernel_stack + page_tables"}}}, nil
	case "process":
		return Track{from: fmt.Sprintf("process.memory WHERE pid = %d", pid), whole: "rss", Parts: residentParts}, nil
	case "device":
		return Track{from: fmt.Sprintf("gpu.utilization WHERE device_id = %d", dev), whole: "used_bytes",
			limit: "total_bytes", Parts: []Part{{"used", "used_bytes"}}}, nil
	case "allocator":
		return Track{from: fmt.Sprintf("python.step_devices WHERE pid = %d AND device = %s", pid, Quoted(path)),
			apart: true, whole: "max_reserved",
			Parts: []Part{{"allocated", "allocated"}, {"cached", "reserved - allocated"}}}, nil
	case "floors":
		return Track{from: fmt.Sprintf("python.steps WHERE pid = %d", pid), apart: true, whole: "heap_in_use",
			Parts: []Part{{"step", "step"}, {"heap_in_use", "heap_in_use"}, {"anon", "anon"}}}, nil
	}
	return Track{}, fmt.Errorf("there is no series %q", kind)
}

// Interval is a stretch of a track: from and to in µs since the epoch, divided into stretches of width µs.
// Those begin at multiples of width, so that a page can ask for the end alone and join it to what it has.
type Interval struct{ From, To, Width int64 }

// maxIntervals bounds an answer: twice the pixels of the widest screen.
const maxIntervals = 8192

// Check refuses what is no interval, or too many stretches.
func (i Interval) Check() error {
	if i.Width <= 0 || i.To < i.From || (i.To-i.From)/i.Width > maxIntervals {
		return fmt.Errorf("the interval is not one: %d to %d by %d", i.From, i.To, i.Width)
	}
	return nil
}

// Key tells tracks apart.
func (t Track) Key() string { return t.from + " " + t.whole }

// In is the track in an interval.
func (t Track) In(i Interval) Of[Reading] {
	var b strings.Builder
	fmt.Fprintf(&b, `SELECT epoch_us(max(ts)) AS t, min(%[1]s)::DOUBLE AS lo, max(%[1]s)::DOUBLE AS hi`, t.whole)
	limit := t.limit
	if limit == "" {
		limit = "NULL::BIGINT"
	}
	fmt.Fprintf(&b, ", arg_max(%s, ts)::DOUBLE AS \"limit\", %s", limit, t.parts())
	fmt.Fprintf(&b, ` AS parts FROM %s AND ts >= make_timestamp(%d) AND ts <= make_timestamp(%d)
		GROUP BY epoch_us(ts) // %d ORDER BY 1`, t.from, i.From-i.From%i.Width, i.To, i.Width)
	return Of[Reading](b.String())
}

// parts is the list of their values at a stretch's last moment.
func (t Track) parts() string {
	list := make([]string, len(t.Parts))
	for n, p := range t.Parts {
		list[n] = "(" + p.expr + ")::DOUBLE"
		if t.apart {
			list[n] = "arg_max(" + list[n] + ", ts)"
		}
	}
	all := "[" + strings.Join(list, ", ") + "]"
	if t.apart {
		return all
	}
	return "arg_max(" + all + ", ts)"
}

// Reading is a track in one stretch, at its last moment.
type Reading struct {
	T             int64
	Lo, Hi, Limit *float64
	Parts         []*float64
}

// Covers is the time that the track's readings cover; one row.
func (t Track) Covers() Of[Covered] {
	return Of[Covered](`SELECT coalesce(epoch_us(min(ts)), 0) AS "from", coalesce(epoch_us(max(ts)), 0) AS "to"
		FROM ` + t.from)
}

// Join is a stretch together with the next: the least and the most of both, else the later.
func (t Track) Join(r, next Reading) Reading {
	out := Reading{T: next.T, Lo: r.Lo, Hi: r.Hi, Limit: cmp.Or(next.Limit, r.Limit), Parts: slices.Clone(r.Parts)}
	if r.Lo == nil || next.Lo != nil && *next.Lo < *r.Lo {
		out.Lo = next.Lo
	}
	if r.Hi == nil || next.Hi != nil && *next.Hi > *r.Hi {
		out.Hi = next.Hi
	}
	if !t.apart {
		out.Parts = slices.Clone(next.Parts)
		return out
	}
	for k, p := range next.Parts {
		if p != nil && k < len(out.Parts) {
			out.Parts[k] = p
		}
	}
	return out
}
