package web

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"path/filepath"
	"time"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/formats/flame"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/internal/judge/anatomy"
)

// shown is a snapshot in the page's words. Events are counted from each device's first, moments are µs since the
// epoch.
type shown struct {
	Key     string       `json:"key"`
	Name    string       `json:"name"`
	Origin  string       `json:"origin"`
	State   string       `json:"state"` // waiting (it is read when it is asked for), reading, ready, failed
	Read    int64        `json:"read"`  // bytes
	Total   int64        `json:"total"` // -1: nobody knows
	Failure *api.Error   `json:"failure,omitempty"`
	Format  string       `json:"format,omitempty"`
	Cut     string       `json:"cut,omitempty"`
	Devices []shotDevice `json:"devices"`
}

type shotDevice struct {
	Device      int    `json:"device"`
	Name        string `json:"name,omitempty"`
	First       int    `json:"first"` // number of its first event in the file, as memgauge snapshot counts them
	Events      int    `json:"events"`
	Allocs      int    `json:"allocs"`
	From        int64  `json:"from"`
	To          int64  `json:"to"`
	Peak        int    `json:"peak"` // event, -1 before the first, or without events
	PeakBytes   int64  `json:"peak_bytes"`
	PeakReserve int64  `json:"peak_reserved"`
	EndBytes    int64  `json:"end_bytes"`
	Before      int64  `json:"before_bytes"`
	BeforeKnown bool   `json:"before_known"`
	Segments    int    `json:"segments"`
	OOMs        []int  `json:"ooms"` // events, the first of them
}

const uploadPath = "/api/f"

// snapshotRoutes are about files and what sessions keep already: none has a training write one.
func (s *Server) snapshotRoutes() []route {
	list := []route{
		{"GET " + uploadPath, api.MayRead, s.listSnapshots},
		{"POST " + uploadPath, api.MayRead, s.upload},
		{"GET " + uploadPath + "/{key}", api.MayRead, s.snapshotState},
		{"GET " + uploadPath + "/{key}/tile", api.MayRead, s.tile},
		{"GET " + uploadPath + "/{key}/diff", api.MayRead, s.compared},
		{"GET " + uploadPath + "/{key}/source", api.MayRead, s.sourceOfFrame},
	}
	for name, answer := range map[string]func(pictured) (any, error){"block": blockOf, "moment": momentOf,
		"flame": s.flameAt, "segments": segmentsOf} {
		list = append(list, route{"GET " + uploadPath + "/{key}/" + name, api.MayRead, s.picture(answer)})
	}
	return list
}

func (s *Server) listSnapshots(w http.ResponseWriter, _ *http.Request) {
	m := &s.snapshots
	m.mu.Lock()
	defer m.mu.Unlock()
	list := []shown{}
	for _, x := range m.list {
		list = append(list, x.shown(false))
	}
	reply(w, list, nil)
}

// snapshotState tells how far a snapshot was read; asking for one has it read.
func (s *Server) snapshotState(w http.ResponseWriter, r *http.Request) {
	if err := s.ofSession(r.Context(), r.PathValue("key")); err != nil {
		reply(w, nil, err)
		return
	}
	m := &s.snapshots
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.find(r.PathValue("key"))
	if x == nil {
		reply(w, nil, errNoShot)
		return
	}
	if x.err == nil || x.path != "" && r.URL.Query().Get("again") != "" {
		m.load(x)
	}
	reply(w, x.shown(true), nil)
}

// shown describes it; snapshots.mu is held. whole: with its devices.
func (x *shot) shown(whole bool) shown {
	v := shown{Key: x.key, Name: x.name, Origin: x.origin, State: "waiting", Read: x.read.Load(),
		Total: x.total.Load(), Devices: []shotDevice{}}
	switch {
	case x.err != nil:
		v.State, v.Failure = "failed", api.Pack(x.err)
	case x.history != nil:
		v.State, v.Format = "ready", string(x.history.Format)
		if x.history.Cut != nil {
			v.Cut = x.history.Cut.Error()
		}
		if whole {
			for _, d := range x.history.Devices {
				v.Devices = append(v.Devices, x.device(d))
			}
		}
	case x.busy:
		v.State = "reading"
	}
	return v
}

// maxMarks bounds the out-of-memory errors that are marked in a timeline.
const maxMarks = 100

func (x *shot) device(d *anatomy.Device) shotDevice {
	h, b := x.history, x.boxes[d.Number]
	v := shotDevice{Device: d.Number, Name: h.DeviceNames[d.Number], First: d.From, Events: b.Len(), Allocs: b.Allocs(),
		Peak: -1, PeakBytes: d.PeakLive, PeakReserve: d.PeakReserved().Bytes, Before: d.Before, EndBytes: d.Before,
		BeforeKnown: d.BeforeKnown, Segments: len(d.Segments), OOMs: []int{}}
	if v.Events == 0 {
		return v
	}
	v.From, v.To, v.Peak, v.EndBytes = h.Time[d.From], h.Time[d.To-1], d.Peak-d.From, h.Live[d.To-1]
	for i := d.From; i < d.To && len(v.OOMs) < maxMarks; i++ {
		if h.Action[i] == snapshot.IsOOM {
			v.OOMs = append(v.OOMs, i-d.From)
		}
	}
	return v
}

// pictured is a question about a device of a snapshot that was read.
type pictured struct {
	*shot
	d     *anatomy.Device
	boxes *anatomy.Boxes
	q     params
}

// event is the moment that was asked for.
func (p pictured) event() (int, error) {
	n := int(p.q.number("event"))
	if n < -1 || n >= max(1, p.boxes.Len()) {
		return 0, fmt.Errorf("event %d: the device has %d", n, p.boxes.Len())
	}
	return n, nil
}

// of opens the snapshot of a question.
func (s *Server) of(key string, q params) (pictured, func(), error) {
	x, release, err := s.snapshots.use(key)
	if err != nil {
		return pictured{}, nil, err
	}
	for _, d := range x.history.Devices {
		if q.text("device") == fmt.Sprint(d.Number) {
			return pictured{x, d, x.boxes[d.Number], q}, release, nil
		}
	}
	release()
	return pictured{}, nil, fmt.Errorf("the snapshot has no device %q", q.text("device"))
}

func (s *Server) picture(answer func(p pictured) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, release, err := s.of(r.PathValue("key"), params(r.URL.Query()))
		if err != nil {
			reply(w, nil, err)
			return
		}
		defer release()
		v, err := answer(p)
		reply(w, v, err)
	}
}

// tileMagic begins a tile, so that a page of another version does not take it for something else.
const tileMagic = 0x31544d47 // "GMT1"

// tile sends boxes as bytes that a browser draws as they are. Little endian: six numbers of 4 bytes (magic, level,
// index, columns, boxes, the size below which blocks are in the rest as a power of two), five numbers of 4 bytes a
// column (levels, and the µs from the first event on to the column's), then 20 bytes a box.
func (s *Server) tile(w http.ResponseWriter, r *http.Request) {
	q := params(r.URL.Query())
	p, release, err := s.of(r.PathValue("key"), q)
	if err != nil {
		reply(w, nil, err)
		return
	}
	defer release()
	t, ok := p.boxes.Tile(int(q.number("level")), int(q.number("index")), q.number("least"))
	if !ok {
		reply(w, nil, errors.New("there is no such tile"))
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = bytes.NewReader(p.drawn(t)).WriteTo(w)
}

// drawn is a tile as bytes.
func (p pictured) drawn(t anatomy.BoxTile) []byte {
	out := make([]byte, 0, 24+20*len(t.Columns)+20*len(t.Boxes))
	for _, n := range []int{tileMagic, t.Level, t.Index, len(t.Columns), len(t.Boxes),
		int(math.Log2(float64(t.Least)))} {
		out = binary.LittleEndian.AppendUint32(out, uint32(n))
	}
	for i, c := range t.Columns {
		began := p.history.Time[p.d.From+(t.Index*anatomy.TileColumns+i)<<t.Level] - p.history.Time[p.d.From]
		for _, n := range []int64{c.Min, c.Max, c.ReservedMin, c.ReservedMax, began} {
			out = appendFloat(out, n)
		}
	}
	hues := map[uint32]uint16{}
	for _, b := range t.Boxes {
		hue, known := hues[b.Stack]
		if !known {
			hue = hueOf(p.history.Site(b.Stack))
			hues[b.Stack] = hue
		}
		use := uint8(b.Use)
		if b.ID == anatomy.Rest {
			use = 255
		}
		out = binary.LittleEndian.AppendUint16(out, uint16(b.From))
		out = binary.LittleEndian.AppendUint16(out, uint16(b.To))
		out = appendFloat(appendFloat(out, b.Bottom), b.Bytes)
		out = binary.LittleEndian.AppendUint32(out, b.ID)
		out = binary.LittleEndian.AppendUint16(append(out, use, 0), hue)
	}
	return out
}

func appendFloat(out []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(n)))
}

// hueOf gives a line of code its colour, the same in every snapshot.
func hueOf(site string) uint16 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(site))
	return uint16(h.Sum32())
}

// shotFrame is a line of a stack. Frame is its number, by which its source is asked for.
type shotFrame struct {
	Name  string `json:"name"`
	File  string `json:"file"`
	Line  int    `json:"line"`
	Own   bool   `json:"own"` // the user's own Python
	Frame uint32 `json:"frame"`
}

type shotBlock struct {
	ID     uint32      `json:"id"`
	Bytes  int64       `json:"bytes"`
	From   int         `json:"from"`
	To     int         `json:"to"`
	Made   bool        `json:"made"`
	Freed  bool        `json:"freed"`
	Began  int64       `json:"began"` // µs, 0: before the history
	Ended  int64       `json:"ended"`
	Addr   string      `json:"addr,omitempty"`
	Use    string      `json:"use"`
	Site   string      `json:"site"`
	Frames []shotFrame `json:"frames,omitempty"`
	// Attached are the texts that the program has attached to it: metadata and annotations.
	Attached []string `json:"attached,omitempty"`
}

// maxShotFrames bounds a stack in the page.
const maxShotFrames = 256

func (p pictured) block(id uint32, whole bool) (shotBlock, bool) {
	b, ok := p.boxes.Block(id)
	h := p.history
	v := shotBlock{ID: id, Bytes: b.Bytes, From: b.From, To: b.To, Made: b.Made, Freed: b.Freed, Use: b.Use.String()}
	if !ok {
		return v, false
	}
	v.Site = cmp.Or(h.Site(b.Stack), anatomy.NoStack)
	if b.Made {
		v.Began, v.Addr = h.Time[p.d.From+b.From], fmt.Sprintf("%#x", h.Addr[p.d.From+b.From])
	}
	if b.Freed {
		v.Ended = h.Time[p.d.From+b.To]
	}
	if whole {
		v.Frames, v.Attached = p.frames(b.Stack), p.boxes.Attached(id)
	}
	return v, true
}

// frames are those of a stack that the page lists.
func (p pictured) frames(stack uint32) (list []shotFrame) {
	for _, n := range p.history.StackFrames(stack) {
		f := p.history.Frame(n)
		if anatomy.Recorder(f) {
			continue
		}
		if len(list) == maxShotFrames {
			break
		}
		list = append(list, shotFrame{f.Name, f.File, f.Line, anatomy.Own(f.File), n})
	}
	return list
}

func blockOf(p pictured) (any, error) {
	v, ok := p.block(uint32(p.q.number("id")), true)
	if !ok {
		return nil, errors.New("there is no such block")
	}
	return v, nil
}

// moment is what was live behind an event: the largest blocks, and all by use.
type moment struct {
	Event    int             `json:"event"`
	Time     int64           `json:"t"`
	Action   string          `json:"action"`
	Live     int64           `json:"live"`
	Reserved int64           `json:"reserved"`
	Count    int             `json:"count"`
	Blocks   []shotBlock     `json:"blocks"`
	Uses     []anatomy.Share `json:"uses"`
}

// maxLargest is how many blocks of a moment are listed.
const maxLargest = 100

func momentOf(p pictured) (any, error) {
	event, err := p.event()
	if err != nil {
		return nil, err
	}
	m := moment{Event: event, Blocks: []shotBlock{}, Uses: []anatomy.Share{}, Live: p.d.Before}
	row := p.d.From + event
	m.Reserved = p.d.ReservedAt(row)
	if event >= 0 && event < p.boxes.Len() {
		m.Time, m.Live, m.Action = p.history.Time[row], p.history.Live[row], p.history.Actions[p.history.Action[row]]
	}
	uses := map[string]anatomy.Share{}
	type sized struct {
		id    uint32
		bytes int64
	}
	var all []sized
	p.boxes.Live(event, func(id uint32, bytes int64) {
		all = append(all, sized{id, bytes})
		b, _ := p.boxes.Block(id)
		u := uses[b.Use.String()]
		uses[b.Use.String()] = anatomy.Share{Name: b.Use.String(), Bytes: u.Bytes + bytes, Blocks: u.Blocks + 1}
	})
	m.Count = len(all)
	order.Stable(all, func(a, b sized) int { return cmp.Compare(b.bytes, a.bytes) })
	for _, x := range all[:min(len(all), maxLargest)] {
		b, _ := p.block(x.id, false)
		m.Blocks = append(m.Blocks, b)
	}
	for _, u := range uses {
		m.Uses = append(m.Uses, u)
	}
	order.By(m.Uses, func(a, b anatomy.Share) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name))
	})
	return m, nil
}

// flame is what was live behind an event by the stacks that allocated it.
func (p pictured) flame(event, most int) *burned {
	g := flame.New("")
	p.history.Flame(g, p.d, p.d.From+event, false)
	return burnedOf(g, most)
}

// flameAt is what was live behind an event by the stacks that allocated it; beside another snapshot's peak or end if
// one is named.
func (s *Server) flameAt(p pictured) (any, error) {
	event, err := p.event()
	if err != nil {
		return nil, err
	}
	g := flame.New("")
	p.history.Flame(g, p.d, p.d.From+event, false)
	if key := p.q.text("against"); key != "" {
		x, release, err := s.snapshots.use(key)
		if err != nil {
			return nil, err
		}
		defer release()
		d, err := x.history.Device(p.d.Number)
		if err != nil {
			return nil, err
		}
		row := d.Peak
		if p.q.text("at") == "end" {
			row = d.EndRow()
		}
		x.history.Flame(g, d, row, true)
	}
	return burnedOf(g, mostServed), nil
}

// compared are two snapshots beside each other.
func (s *Server) compared(w http.ResponseWriter, r *http.Request) {
	b, release, err := s.snapshots.use(r.PathValue("key"))
	if err != nil {
		reply(w, nil, err)
		return
	}
	defer release()
	a, releaseA, err := s.snapshots.use(params(r.URL.Query()).text("against"))
	if err != nil {
		reply(w, nil, err)
		return
	}
	defer releaseA()
	list := anatomy.Compare(a.history, b.history, nil, nil)
	if len(list) == 0 {
		err = fmt.Errorf("%s and %s have no device in common", a.name, b.name)
	}
	reply(w, list, err)
}

// shotSource are the lines around a frame, or why they can't be shown: mostly the file was recorded elsewhere.
type shotSource struct {
	excerpt
	Why string `json:"why,omitempty"`
}

// sourceOfFrame reads the lines around a frame: only of Python files that the snapshot names.
func (s *Server) sourceOfFrame(w http.ResponseWriter, r *http.Request) {
	x, release, err := s.snapshots.use(r.PathValue("key"))
	if err != nil {
		reply(w, nil, err)
		return
	}
	defer release()
	n := params(r.URL.Query()).number("frame")
	if n < 0 || n >= int64(x.history.Frames()) {
		reply(w, nil, errors.New("source: the snapshot has no such frame"))
		return
	}
	if !x.here {
		reply(w, shotSource{Why: "source is shown of snapshots that were recorded here: that of a session in its " +
			"place, or with memgauge web --source --snapshot FILE"}, nil)
		return
	}
	f := x.history.Frame(uint32(n))
	if filepath.Ext(f.File) != ".py" || !filepath.IsAbs(f.File) || f.Line < 1 {
		reply(w, shotSource{Why: "it is not a Python file with its path"}, nil)
		return
	}
	v, err := excerptOf(f.File, f.Line, api.About{Started: time.UnixMicro(x.history.LastMoment())})
	if err != nil {
		reply(w, shotSource{Why: err.Error()}, nil)
		return
	}
	reply(w, shotSource{excerpt: *v}, nil)
}
