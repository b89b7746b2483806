package anatomy

import (
	"cmp"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// Report is what a snapshot says at first sight. Sizes are in bytes, moments in µs since the epoch (0: the file has no
// times).
type Report struct {
	Format  snapshot.Format `json:"format"`
	Verdict string          `json:"verdict"` // leak, undecided or healthy: of the devices, the worst
	Events  int             `json:"events"`
	Devices []DeviceReport  `json:"devices"`
	Unknown map[string]int  `json:"unknown_actions"` // kinds of events that PyTorch 2.15 does not have, and how many
	Cut     string          `json:"cut,omitempty"`   // why the file ended before its time
}

// DeviceReport is about one device.
type DeviceReport struct {
	Device      int           `json:"device"`
	Name        string        `json:"name,omitempty"` // where the number says nothing: CPU
	Events      int           `json:"events"`
	FromTime    int64         `json:"from_time_us"`
	ToTime      int64         `json:"to_time_us"`
	Peak        Peak          `json:"peak"`
	Before      int64         `json:"before_bytes"` // live when the history began
	BeforeKnown bool          `json:"before_known"`
	End         EndState      `json:"end"`
	Growth      Growth        `json:"growth"`
	OOMs        []OutOfMemory `json:"oom"`
	OOMsLeft    int           `json:"oom_not_listed"`
}

// Peak is the moment when most was live, and what it was made of.
type Peak struct {
	Row          int     `json:"row"` // of the columns; -1: before the first event, or without events
	Time         int64   `json:"time_us"`
	Requested    int64   `json:"requested_bytes"` // what the program asked for and held
	Allocated    int64   `json:"allocated_bytes"` // the same in blocks of 512 bytes, the allocator's unit
	Reserved     int64   `json:"reserved_bytes"`  // from the driver at that moment
	ReservedPeak int64   `json:"reserved_peak_bytes"`
	Holders      []Share `json:"holders"` // by site
	HoldersLeft  int     `json:"holders_not_listed"`
	Paths        []Share `json:"paths"` // by the user's functions, outermost first
	Categories   []Share `json:"categories"`
	// live since before the history; by site only where the file has its stack
	FromBefore    int64 `json:"from_before_bytes"`
	FromBeforeNum int   `json:"from_before_blocks"`
}

// Share is a part of a sum.
type Share struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	Blocks int    `json:"blocks"`
}

// EndState is the allocator at the end, from the file's segments.
type EndState struct {
	Reserved    int64 `json:"reserved_bytes"`
	Allocated   int64 `json:"allocated_bytes"`
	Pending     int64 `json:"pending_bytes"` // freed, still in use by a stream
	Free        int64 `json:"free_bytes"`    // in segments
	LargestFree int64 `json:"largest_free_bytes"`
	Splits      int64 `json:"inactive_split_bytes"` // free beside blocks in use: can't go back to the driver
	Segments    int   `json:"segments"`
	Blocks      int   `json:"blocks"`
	// What blocks have beyond what was asked for: up to 512 bytes by rounding, and rests of free blocks that were too
	// small to be split off.
	Rounding int64 `json:"rounding_bytes"`
	Rests    int64 `json:"unsplit_bytes"`
}

// Growth is what training steps leave behind.
type Growth struct {
	By         string  `json:"iterations_by"` // what tells iterations apart; "" where nothing does
	Iterations int     `json:"iterations"`
	Verdict    string  `json:"verdict"`
	Reason     string  `json:"reason"`
	Rate       float64 `json:"bytes_per_iteration"`
	RateLow    float64 `json:"bytes_per_iteration_low"`
	RateHigh   float64 `json:"bytes_per_iteration_high"`
	Start      float64 `json:"start_iteration"`
	Needs      float64 `json:"needs_iterations"`
	// Sites are what is alive at the end and was made in iterations, the last left out, by site.
	Sites     []SiteGrowth `json:"sites"`
	SitesLeft int          `json:"sites_not_listed"`
}

// SiteGrowth is what one site has left.
type SiteGrowth struct {
	Share
	Iterations int `json:"iterations"` // that left something
}

// OutOfMemory is an allocation that did not fit.
type OutOfMemory struct {
	Row        int     `json:"row"`
	Time       int64   `json:"time_us"`
	Asked      int64   `json:"asked_bytes"`
	DeviceFree int64   `json:"device_free_bytes"` // that the driver still had
	Live       int64   `json:"requested_bytes"`
	Reserved   int64   `json:"reserved_bytes"`
	Unused     int64   `json:"unused_bytes"`  // reserved and not live
	Missing    int64   `json:"missing_bytes"` // what would have had to go, had all that is unused been in one piece
	Site       string  `json:"site"`
	Holders    []Share `json:"holders"` // what held most at that moment
}

// Bounds of lists; the rest is counted.
const (
	maxHolders    = 10
	maxPaths      = 5
	maxOOMs       = 5
	maxOOMHolders = 3
)

// blockUnit is what PyTorch's allocator rounds requests up to, in bytes.
// https://github.com/pytorch/pytorch/blob/v2.9.0/c10/core/CachingDeviceAllocator.h (kMinBlockSize)
const blockUnit = 512

// Report works out what a page shows.
func (h *History) Report() Report {
	r := Report{Format: h.Format, Verdict: string(detect.Healthy), Events: h.Len(), Devices: []DeviceReport{},
		Unknown: map[string]int{}}
	if h.Cut != nil {
		r.Cut = h.Cut.Error()
	}
	for i := range h.Len() {
		if a := h.Action[i]; a > snapshot.IsAnnotate {
			r.Unknown[h.Actions[a]]++
		}
	}
	rank := map[string]int{string(detect.Healthy): 0, string(detect.Undecided): 1, string(detect.Leak): 2}
	for _, d := range h.Devices {
		one := h.deviceReport(d)
		r.Devices = append(r.Devices, one)
		if rank[one.Growth.Verdict] > rank[r.Verdict] {
			r.Verdict = one.Growth.Verdict
		}
	}
	return r
}

func (h *History) deviceReport(d *Device) DeviceReport {
	r := DeviceReport{
		Device: d.Number, Name: h.DeviceNames[d.Number], Events: d.To - d.From, Before: d.Before,
		BeforeKnown: d.BeforeKnown, End: h.endState(d), Growth: h.growth(d),
	}
	if d.From < d.To {
		r.FromTime, r.ToTime = h.Time[d.From], h.Time[d.To-1]
	}
	r.Peak = h.peak(d)
	for i := d.From; i < d.To; i++ {
		if h.Action[i] != snapshot.IsOOM {
			continue
		}
		if len(r.OOMs) < maxOOMs {
			r.OOMs = append(r.OOMs, h.outOfMemory(d, i))
		} else {
			r.OOMsLeft++
		}
	}
	return r
}

// tally sums bytes by name.
type tally map[string]Share

func (t tally) add(name string, bytes int64) {
	s := t[name]
	t[name] = Share{name, s.Bytes + bytes, s.Blocks + 1}
}

// top gives the n largest, and how many are left.
func (t tally) top(n int) ([]Share, int) {
	all := make([]Share, 0, len(t))
	for _, s := range t {
		all = append(all, s)
	}
	order.By(all, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes),
			cmp.Compare(a.Name, b.Name))
	})
	if len(all) <= n {
		return all, 0
	}
	return all[:n], len(all) - n
}

func (h *History) siteName(stack uint32) string {
	if p := h.sites[stack].place; p != "" {
		return p
	}
	return NoStack
}

func (h *History) pathName(stack uint32) string {
	if p := h.sites[stack].path; p != "" {
		return p
	}
	return h.siteName(stack)
}

// alive calls f for every block that is live after a row: with the alloc's row, or None and the block's index in
// Blocks, or None twice for one that was made before the history and freed in it.
func (h *History) alive(d *Device, row int, f func(alloc, block int, bytes int64, stack uint32)) {
	for i := d.From; i <= row; i++ {
		if h.Action[i] == snapshot.IsAlloc && h.aliveAt(i, row) {
			f(i, None, h.Size[i], h.Stack[i])
		}
	}
	for _, b := range d.Old {
		f(None, b, h.Blocks[b].Requested, h.Blocks[b].Stack)
	}
	for _, i := range d.OldFrees {
		if i > row {
			f(None, None, h.Size[i], 0)
		}
	}
}

func (h *History) peak(d *Device) Peak {
	p := Peak{Row: d.Peak, Requested: d.PeakLive, ReservedPeak: d.PeakReserved().Bytes, Reserved: d.ReservedAt(d.Peak)}
	if d.Peak >= d.From {
		p.Time = h.Time[d.Peak]
	} else {
		p.Row = None
	}
	sites, paths, uses := tally{}, tally{}, tally{}
	h.alive(d, d.Peak, func(alloc, block int, bytes int64, stack uint32) {
		p.Allocated += (bytes + blockUnit - 1) / blockUnit * blockUnit
		if alloc == None {
			p.FromBefore += bytes
			p.FromBeforeNum++
		}
		uses.add(h.use(alloc, block).String(), bytes)
		sites.add(h.siteName(stack), bytes)
		paths.add(h.pathName(stack), bytes)
	})
	p.Holders, p.HoldersLeft = sites.top(maxHolders)
	p.Paths, _ = paths.top(maxPaths)
	p.Categories, _ = uses.top(int(categories))
	return p
}

func (h *History) endState(d *Device) (e EndState) {
	for _, s := range d.Segments {
		g := &h.Columns.Segments[s]
		e.Segments++
		e.Reserved += g.Size
		used, whole, at := int64(0), int64(0), g.Address
		free := func(to uint64) { // free blocks beside each other, or none where the file leaves them out
			if to > at {
				e.LargestFree = max(e.LargestFree, int64(to-at))
				whole += h.wholePages(g, at, to)
			}
		}
		for i := g.From; i < g.To; i++ {
			b := &h.Blocks[i]
			if b.State == snapshot.Inactive {
				continue
			}
			free(b.Address)
			at = b.Address + uint64(b.Size)
			if b.State == snapshot.PendingFree {
				e.Pending += b.Size
			} else {
				e.Allocated += b.Size
			}
			e.Blocks++
			used += b.Size
			rounding, rest := Lost(b)
			e.Rounding += rounding
			e.Rests += rest
		}
		free(g.Address + uint64(g.Size))
		e.Free += g.Size - used
		if used > 0 {
			e.Splits += g.Size - used - whole
		}
	}
	return e
}

// Lost is what a block has beyond what was asked for.
func Lost(b *snapshot.BlockRow) (rounding, rest int64) {
	rounded := min(b.Size, (b.Requested+blockUnit-1)/blockUnit*blockUnit)
	return max(0, rounded-b.Requested), b.Size - rounded
}

// Pages of expandable segments, in bytes: what PyTorch maps at once, and takes back when nothing lies in it.
// https://github.com/pytorch/pytorch/blob/v2.9.0/c10/cuda/CUDACachingAllocator.cpp (ExpandableSegment, unmap)
const (
	smallPage = 2 << 20
	largePage = 20 << 20
)

// wholePages is what of a free range of a segment can go back to the driver although other parts are in use: whole
// pages of an expandable segment. A segment begins with a page.
func (h *History) wholePages(g *snapshot.SegmentRow, from, to uint64) int64 {
	if !g.Expandable {
		return 0
	}
	page := uint64(largePage)
	if h.Text(g.Kind) == "small" {
		page = smallPage
	}
	first, last := (from-g.Address+page-1)/page, (to-g.Address)/page
	if last <= first {
		return 0
	}
	return int64((last - first) * page)
}

func (h *History) outOfMemory(d *Device, i int) OutOfMemory {
	o := OutOfMemory{
		Row: i, Time: h.Time[i], Asked: h.Size[i], DeviceFree: int64(h.Addr[i]), Live: h.Live[i],
		Reserved: d.ReservedAt(i), Site: h.siteName(h.Stack[i]),
	}
	o.Unused = max(0, o.Reserved-o.Live)
	o.Missing = max(0, o.Asked-o.DeviceFree-o.Unused)
	sites := tally{}
	h.alive(d, i, func(_, _ int, bytes int64, stack uint32) { sites.add(h.siteName(stack), bytes) })
	o.Holders, _ = sites.top(maxOOMHolders)
	return o
}
