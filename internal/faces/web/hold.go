package web

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/faces/page"
)

const (
	// maxValues bounds the readings of a report: compressed they take some 4 bytes each, a third more as text.
	maxValues = 220_000
	maxTracks = 48   // of those that a page offers
	mostOfOne = 2048 // intervals of one track: more than a screen has pixels for one
	least     = 256
	// A long session's last minutes are held twice, the second time finer: that is where it ended.
	lastMinutes = 2 * time.Minute
	lastOfOne   = 512
	moments     = 32 // at which is told where the bytes were
	heldSites   = 24 // whose source is held
	heldPIDs    = 4  // whose censuses are held
	// noticed is how long before its event the victim of a kill was still there.
	noticed = time.Second
)

// hold asks a session what a page would.
func hold(ctx context.Context, s api.Session, d *page.Document) (*held, error) {
	h := &held{Version: d.Session.Memgauge, Written: d.Generated.UnixMicro(), Answers: map[string]any{},
		Series: map[string][]*columns{}, Where: []picked{}}
	a, err := about(ctx, s, nil)
	if err != nil {
		return nil, err
	}
	whole := a.(described)
	h.Answers["about"] = whole
	for name, q := range map[string]question{"verdicts": verdicts, "events": events, "cost": cost, "native": native} {
		if h.Answers[name], err = q(ctx, s, nil); err != nil {
			return nil, err
		}
	}
	if w, err := where(ctx, s, nil); err == nil { // the processes may end just now; the page then lacks their part
		h.Answers["where"] = w
	}
	h.Answers["postmortem"] = ranOut{d.PostMortem, d.Minute}
	if err := h.holdTensors(ctx, s); err != nil {
		return nil, err
	}
	h.holdSources(ctx, s)
	if err := h.holdSeries(ctx, s, whole); err != nil {
		return nil, err
	}
	if err := h.holdWhere(ctx, s, whole, d.PostMortem); err != nil {
		return nil, err
	}
	h.Flame = flameOf(ctx, s, whole.Snapshot)
	return h, nil
}

// holdTensors holds of the first processes the newest census, the one before and the first, each against the older.
func (h *held) holdTensors(ctx context.Context, s api.Session) error {
	a, err := tensors(ctx, s, nil)
	if err != nil {
		return err
	}
	all := a.(counted)
	by, pids := map[int][]questions.Census{}, []int{}
	for _, c := range all.Censuses { // newest first
		if by[c.PID] == nil {
			pids = append(pids, c.PID)
		}
		by[c.PID] = append(by[c.PID], c)
	}
	kept := []questions.Census{}
	for _, pid := range pids[:min(len(pids), heldPIDs)] {
		list := by[pid]
		if n := len(list); n > 3 {
			list = []questions.Census{list[0], list[1], list[n-1]}
		}
		kept = append(kept, list...)
	}
	all.Censuses = kept
	h.Answers["tensors"] = all
	for i, c := range kept {
		for k := i + 1; k <= len(kept); k++ {
			if k < len(kept) && kept[k].PID != c.PID {
				continue
			}
			before := int64(0)
			if k < len(kept) {
				before = kept[k].ID
			}
			one, err := tensors(ctx, s, params(url.Values{"pid": {fmt.Sprint(c.PID)}, "census": {fmt.Sprint(c.ID)},
				"before": {fmt.Sprint(before)}}))
			if err != nil {
				return err
			}
			x := one.(counted)
			x.Censuses = nil // the page has the list
			h.Answers[fmt.Sprintf("tensors:%d:%d:%d", c.PID, c.ID, before)] = x
		}
	}
	return nil
}

// holdSources holds the lines around sites: of the verdicts, then of the largest tensors.
func (h *held) holdSources(ctx context.Context, s api.Session) {
	var sites []string
	for _, f := range h.Answers["verdicts"].(judged).Findings {
		sites = append(sites, string(f.Site))
	}
	for _, p := range h.Answers["verdicts"].(judged).Peaks {
		sites = append(sites, p.Site)
	}
	for _, g := range h.Answers["tensors"].(counted).Groups {
		if g.Site != nil {
			sites = append(sites, *g.Site)
		}
	}
	n := 0
	for _, site := range sites {
		key := "source:" + site
		if _, done := h.Answers[key]; done || site == "" || n == heldSites {
			continue
		}
		n++
		v, err := source(ctx, s, params(url.Values{"site": {site}}))
		if err != nil {
			v = api.Pack(err)
		}
		h.Answers[key] = v
	}
}

// askedTrack is a track as a page asks for it.
type askedTrack struct {
	kind     string
	pid, dev int64
	path     string
}

func (t askedTrack) key() string {
	number := func(n int64, has bool) string {
		if !has {
			return ""
		}
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s:%s:%s:%s", t.kind, number(t.pid, t.pid != 0), number(t.dev, t.kind == "device"), t.path)
}

// tracksOf are those that the page offers for a session, in its order.
func tracksOf(d described) (list []askedTrack) {
	for _, c := range d.Cgroups[:min(2, len(d.Cgroups))] {
		list = append(list, askedTrack{kind: "job", path: c.Path})
	}
	for _, x := range d.Devices {
		list = append(list, askedTrack{kind: "device", dev: int64(x.ID)})
	}
	list = append(list, askedTrack{kind: "host"})
	for _, p := range d.Processes {
		pid := int64(p.PID)
		list = append(list, askedTrack{kind: "process", pid: pid})
		if p.Steps == nil {
			continue
		}
		list = append(list, askedTrack{kind: "floors", pid: pid})
		for _, x := range d.Devices {
			list = append(list, askedTrack{kind: "allocator", pid: pid, path: fmt.Sprintf("cuda:%d", x.ID)})
		}
	}
	return list
}

// holdSeries holds the least and the most of each interval, so that the page's size does not follow the session's.
func (h *held) holdSeries(ctx context.Context, s api.Session, d described) error {
	list := tracksOf(d)
	h.LeftOut = max(0, len(list)-maxTracks)
	list = list[:min(len(list), maxTracks)]
	const valuesOfOne = 9 // time, least, most, limit, and five parts
	n := min(mostOfOne, max(least, maxValues/valuesOfOne/max(1, len(list))))
	levels := []questions.Interval{stretch(d.From, d.To, int64(n))}
	if last := lastMinutes.Microseconds(); d.To-d.From > 4*last {
		levels = append(levels, stretch(d.To-last, d.To, int64(max(least/2, min(lastOfOne, n/4)))))
	}
	for _, a := range list {
		t, err := questions.TrackOf(a.kind, a.pid, a.dev, a.path)
		if err != nil {
			return err
		}
		for _, i := range levels {
			c, err := read(ctx, s, t, i)
			if err != nil {
				return err
			}
			h.Series[a.key()] = append(h.Series[a.key()], c)
		}
	}
	return nil
}

// stretch divides a time into at most n intervals, whose length is a power of two as those of the page.
func stretch(from, to, n int64) questions.Interval {
	width := int64(1000)
	for width*n < to-from {
		width *= 2
	}
	return questions.Interval{From: from, To: to, Width: width}
}

// holdWhere tells where the bytes were at moments all along, and when memory ran out.
func (h *held) holdWhere(ctx context.Context, s api.Session, d described, ran *page.PostMortem) error {
	at := []int64{}
	for i := range int64(moments) {
		at = append(at, d.From+(d.To-d.From)*(i+1)/moments)
	}
	if ran != nil {
		at = append(at, ran.Time.UnixMicro()-noticed.Microseconds())
	}
	slices.Sort(at)
	for _, t := range at {
		if t <= 0 {
			continue
		}
		w, err := whereAt(ctx, s, t)
		if err != nil {
			return err
		}
		h.Where = append(h.Where, w)
	}
	return nil
}
