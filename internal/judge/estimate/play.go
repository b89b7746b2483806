package estimate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/alloc/fake"
	"github.com/memgauge/memgauge/internal/base/order"
)

// Program is a recording made ready to be played at any batch size.
type Program struct {
	*Recording
	slope []float64 // bytes of each allocation for one more in the batch; nil: the batch size is not known
	Exact bool      // both runs did the same, so that sizes at other batch sizes are computed one by one
}

// NewProgram takes a recording at the script's own batch size and, if there is one, another at a different size.
func NewProgram(own, other *Recording) *Program {
	p := &Program{Recording: own}
	if other == nil || own.BatchRun == other.BatchRun || !own.mates(other) {
		return p
	}
	p.slope, p.Exact = make([]float64, len(own.Allocations)), true
	for i := range p.slope {
		p.slope[i] = float64(other.Allocations[i].Bytes-own.Allocations[i].Bytes) / float64(other.BatchRun-own.BatchRun)
	}
	return p
}

// Variant is how a program is played.
type Variant struct {
	Batch     int           // 0: that of the recording
	Halved    bool          // 32-bit floats take 16 bits: model and optimizer in bfloat16
	Capacity  int64         // bytes that PyTorch's allocator may reserve; 0: no limit
	Workspace int64         // of cuBLAS, for each thread that multiplies matrices
	Options   alloc.Options // of the allocator
}

// size is how many bytes an allocation has in a variant.
func (p *Program) size(i int, v *Variant) int64 {
	a := &p.Allocations[i]
	bytes := a.Bytes
	if v.Batch > 0 && p.slope != nil {
		bytes = max(1, bytes+int64(math.Round(p.slope[i]*float64(v.Batch-p.BatchRun))))
	}
	if v.Halved && a.Wide {
		bytes = (bytes + 1) / 2
	}
	return bytes
}

// Line is a line of the user's code, and what it holds at the peak.
type Line struct {
	Site  string
	Bytes int64
}

// Result is what a play took. Bytes.
type Result struct {
	PeakRequested int64
	PeakReserved  int64 // what PyTorch's allocator had from the driver
	At            [numCategory]int64
	Lines         []Line // at the peak, the largest first
	Step          int    // the step in which the peak of the requested bytes was, from 1; 0: before the first
	OOM           bool   // the device was full
}

// Holding is what a category holds.
type Holding struct {
	Category Category
	Bytes    int64
}

// Holdings are the categories at the peak that hold something, the largest first.
func (r *Result) Holdings() (out []Holding) {
	for c, bytes := range r.At {
		if bytes > 0 {
			out = append(out, Holding{Category(c), bytes})
		}
	}
	order.By(out, func(a, b Holding) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return out
}

// Fixed is what holds memory whatever the batch size is.
func (r *Result) Fixed() int64 {
	return r.At[Parameter] + r.At[Gradient] + r.At[Optimizer] + r.At[Workspace]
}

// unlimited is the size of a device that is never full. Its addresses must fit.
const unlimited = 1 << 46

// player is a play in progress.
type player struct {
	*Program
	v    *Variant
	a    *alloc.Allocator
	held []alloc.Ptr
	now  [numCategory]int64
	live int64
	step int
	out  *Result
	peak int // the operation of the peak
}

// Play runs the program against PyTorch's allocator.
func (p *Program) Play(ctx context.Context, v Variant) (*Result, error) {
	room := v.Capacity
	if room <= 0 {
		room = unlimited
	}
	a, err := alloc.New(fake.New(fake.Config{Capacity: room}), v.Options)
	if err != nil {
		return nil, fmt.Errorf("play: %w", err)
	}
	m := &player{Program: p, v: &v, a: a, held: make([]alloc.Ptr, len(p.Allocations)), out: &Result{}}
	for i := range p.ops {
		if i&0xfff == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		err := m.do(i, &p.ops[i])
		if errors.Is(err, alloc.ErrOutOfMemory) {
			m.out.OOM = true
			break
		}
		if err != nil {
			return nil, fmt.Errorf("play: %w", err)
		}
	}
	m.out.PeakReserved = a.Stats().ReservedBytes.All.Peak
	m.lines()
	return m.out, nil
}

func (m *player) do(i int, o *op) (err error) {
	switch o.kind {
	case opAlloc:
		bytes := m.size(int(o.alloc), m.v)
		if m.held[o.alloc], err = m.a.Alloc(bytes, 0); err == nil {
			m.count(i, m.Allocations[o.alloc].Category, bytes)
		}
	case opFree:
		err = m.a.Free(m.held[o.alloc])
		m.count(i, m.Allocations[o.alloc].Category, -m.size(int(o.alloc), m.v))
	case opEmpty:
		_, err = m.a.EmptyCache()
	case opMatrix:
		if m.v.Workspace > 0 {
			if _, err = m.a.Alloc(m.v.Workspace, 0); err == nil {
				m.count(i, Workspace, m.v.Workspace)
			}
		}
	case opStep:
		m.step++
	}
	return err
}

func (m *player) count(i int, c Category, bytes int64) {
	m.now[c] += bytes
	m.live += bytes
	if m.live > m.out.PeakRequested {
		m.out.PeakRequested, m.out.At, m.peak, m.out.Step = m.live, m.now, i, m.step+1
	}
}

// lines adds up what was live at the peak, by line.
func (m *player) lines() {
	by := map[int32]int64{}
	for _, o := range m.ops[:min(m.peak+1, len(m.ops))] {
		switch o.kind {
		case opAlloc:
			by[m.Allocations[o.alloc].Site] += m.size(int(o.alloc), m.v)
		case opFree:
			by[m.Allocations[o.alloc].Site] -= m.size(int(o.alloc), m.v)
		}
	}
	for site, bytes := range by {
		if site >= 0 && bytes > 0 {
			m.out.Lines = append(m.out.Lines, Line{m.Sites[site], bytes})
		}
	}
	order.By(m.out.Lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Site, b.Site))
	})
}
