package estimate

import (
	"context"
	"fmt"
	"math"

	"github.com/memgauge/memgauge/alloc"
)

// What no run on the host can see, in bytes. The context of CUDA with PyTorch's kernels took 751 MiB on an H100
// (docs/gpu.md); on small GPUs, and with kernels loaded when they are first used, reports begin at about 300 MiB.
// cuDNN takes workspaces for convolutions as its heuristics choose them: from nothing to hundreds of MiB.
const (
	ContextLow  = 300 * mib
	ContextHigh = 800 * mib
	CuDNNHigh   = 512 * mib
)

// spread is by how much the kernels of a GPU may take more or less than those of the host for what is no parameter,
// gradient or optimizer state: the largest error of docs/estimate.md's table, rounded up.
const spread = 0.12

// Range is an estimate with its interval, in bytes.
type Range struct {
	Bytes int64 `json:"bytes"`
	Low   int64 `json:"low_bytes"`
	High  int64 `json:"high_bytes"`
}

// Fit is the answer to whether it fits.
type Fit string

const (
	Fits    Fit = "yes"
	Perhaps Fit = "perhaps"
	FitsNot Fit = "no"
	Unasked Fit = "" // no device was named
)

// Case is a precision and a batch size.
type Case struct {
	Precision string
	Batch     int // 0: the script's own, which is not known
	Play      *Result
	Allocator Range // what PyTorch reserves
	Device    Range // … with the context and workspaces: what nvidia-smi will show
	Fits      Fit
	Largest   int  // the largest batch size that fits for certain; 0: not even 1
	Scales    bool // other batch sizes are known
}

// Question is what Estimate is asked.
type Question struct {
	Device  Device        // Total 0: none
	Options alloc.Options // of PyTorch's allocator
	Batches []int         // none: the script's own
}

// Programs are the recordings by precision, in the order in which they are shown.
type Programs []struct {
	Precision string
	*Program
	Halved bool
}

// Estimate answers for each precision and batch size.
func Estimate(ctx context.Context, programs Programs, q Question) ([]Case, error) {
	var out []Case
	for _, p := range programs {
		batches := q.Batches
		if len(batches) == 0 || p.slope == nil {
			batches = []int{p.Batch}
		}
		largest := 0
		if q.Device.Total > 0 && p.slope != nil {
			var err error
			if largest, err = p.largest(ctx, q, p.Halved); err != nil {
				return nil, err
			}
		}
		for _, b := range batches {
			c, err := p.one(ctx, q, p.Halved, b)
			if err != nil {
				return nil, err
			}
			c.Precision, c.Largest, c.Scales = p.Precision, largest, p.slope != nil
			out = append(out, c)
		}
	}
	return out, nil
}

func (p *Program) one(ctx context.Context, q Question, halved bool, batch int) (Case, error) {
	v := Variant{Batch: batch, Halved: halved, Workspace: q.Device.Workspace(), Options: q.Options}
	r, err := p.Play(ctx, v)
	if err != nil {
		return Case{}, err
	}
	c := Case{Batch: batch, Play: r, Allocator: p.interval(r)}
	c.Device = Range{c.Allocator.Bytes + (ContextLow+ContextHigh)/2, c.Allocator.Low + ContextLow,
		c.Allocator.High + ContextHigh}
	if q.Device.Total > 0 {
		c.Fits, err = p.fit(ctx, q, v)
	}
	return c, err
}

// interval is what PyTorch will reserve. It can't be less than what the program holds at once.
func (p *Program) interval(r *Result) Range {
	varies := float64(r.PeakReserved-r.Fixed()) * spread
	out := Range{r.PeakReserved, r.PeakReserved - int64(varies), r.PeakReserved + int64(varies)}
	if least := r.PeakRequested - int64(varies); out.Low > least { // where memory is short, the cache is given back
		out.Low = least
	}
	if p.Convolves {
		out.High += CuDNNHigh
	}
	return out
}

// fit plays on devices of the least and of the most room that there may be. PyTorch gives its cache back before it
// fails, so that a program fits where its peak of reserved bytes would not.
func (p *Program) fit(ctx context.Context, q Question, v Variant) (Fit, error) {
	ok, err := p.runs(ctx, v, q.Device.Total-ContextHigh, 1+spread/2)
	if err != nil || ok {
		return Fits, err
	}
	ok, err = p.runs(ctx, v, q.Device.Total-ContextLow, 1-spread/2)
	if err != nil || ok {
		return Perhaps, err
	}
	return FitsNot, nil
}

// runs reports whether the program comes to its end in so much room, if it takes times as much as was seen.
func (p *Program) runs(ctx context.Context, v Variant, room int64, times float64) (bool, error) {
	if p.Convolves && times > 1 {
		room -= CuDNNHigh / 4
	}
	v.Capacity = int64(float64(room) / times)
	if v.Capacity < mib {
		return false, nil
	}
	r, err := p.Play(ctx, v)
	if err != nil {
		return false, err
	}
	return !r.OOM, nil
}

// maxLargest bounds the search: a batch size beyond is limited by something else.
const maxLargest = 1 << 20

// largest binary-searches the largest batch size that fits for certain; 0: not even 1 does.
func (p *Program) largest(ctx context.Context, q Question, halved bool) (int, error) {
	fits := func(batch int) (bool, error) {
		v := Variant{Batch: batch, Halved: halved, Workspace: q.Device.Workspace(), Options: q.Options}
		return p.runs(ctx, v, q.Device.Total-ContextHigh, 1+spread/2)
	}
	low, high := 0, 1 // low fits
	for high <= maxLargest {
		ok, err := fits(high)
		if err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		low, high = high, 2*high
	}
	for high-low > 1 && high <= maxLargest {
		mid := low + (high-low)/2
		ok, err := fits(mid)
		if err != nil {
			return 0, err
		}
		if ok {
			low = mid
		} else {
			high = mid
		}
	}
	return min(low, maxLargest), nil
}

// otherFactor is the factor of the batch size for the second run: half, or the double where half is too small for what
// normalises over a batch.
func otherFactor(batch int) float64 {
	if batch >= 4 {
		return math.Floor(float64(batch)/2) / float64(batch)
	}
	return 2
}

// Precisions are what can be asked.
const (
	AsIs  = "as it is"
	Mixed = "bf16 mixed"
	Half  = "bf16"
)

// Observe runs the script as often as the precisions need: at its own batch size and at another one. It is run in full
// once. Where a run for shapes alone then does the same operations, all others are for shapes alone too.
func Observe(ctx context.Context, r Run, precisions []string, said func(string)) (Programs, error) {
	var out Programs
	add := func(name string, p *Program, halved bool) {
		out = append(out, struct {
			Precision string
			*Program
			Halved bool
		}{name, p, halved})
	}
	var own *Program
	for i, name := range precisions {
		if name == Half && own != nil {
			add(name, own, true)
			continue
		}
		r.Mixed = name == Mixed
		said(fmt.Sprintf("running the script: precision %s", name))
		p, shapes, err := pair(ctx, r, i == 0, said)
		if err != nil {
			return nil, err
		}
		if own == nil && !r.Mixed {
			own = p
		}
		r.Shapes = shapes
		add(name, p, name == Half)
	}
	return out, nil
}

// Runs is how often Observe runs the script at most.
func Runs(r Run, precisions []string) int {
	n, own := 0, false
	for _, name := range precisions {
		if name == Half && own {
			continue
		}
		own = own || name != Mixed
		switch n += 2; {
		case r.Once:
			n--
		case n == 2 && !r.Shapes: // shapes alone may not suffice
			n++
		}
	}
	return n
}

// pair runs the script at two batch sizes, the second time for shapes alone where that is to be tried; shapes says
// whether they tell what it allocates.
func pair(ctx context.Context, r Run, try bool, said func(string)) (p *Program, shapes bool, err error) {
	r.Factor = 1
	first, err := Record(ctx, r)
	if err != nil {
		return nil, false, err
	}
	if first.Batch == 0 || r.Once {
		return NewProgram(first, nil), r.Shapes, nil
	}
	r.Factor = otherFactor(first.Batch)
	batch := int(math.Round(r.Factor * float64(first.Batch)))
	for _, shapes := range []bool{true, false} {
		if r.Shapes != shapes && (r.Shapes || !try) {
			continue
		}
		quick := r
		quick.Shapes = shapes
		how := map[bool]string{true: ", for shapes alone"}[shapes]
		said(fmt.Sprintf("running the script: batch size %d%s", batch, how))
		second, err := Record(ctx, quick)
		if ctx.Err() != nil {
			return nil, false, err
		}
		if err != nil { // it can't run at another size: then only its own is estimated
			continue
		}
		if p := NewProgram(first, second); p.Exact {
			return p, shapes, nil
		}
	}
	return NewProgram(first, nil), r.Shapes, nil
}
