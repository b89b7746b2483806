package advise

import (
	"context"
	"errors"
	"fmt"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/judge/estimate"
)

// Part is what a training's memory is for. Bytes.
type Part struct {
	What  string `json:"what"`
	Bytes int64  `json:"bytes"`
}

// Taken is what a session's training takes of a GPU, as far as the session has recorded it.
type Taken struct {
	On        string          `json:"trained_on"` // cuda:N; cpu
	Steps     int64           `json:"steps"`
	Allocator *estimate.Range `json:"allocator"` // what PyTorch reserves; nil: only the parts are known
	Device    *estimate.Range `json:"device"`    // … with CUDA's context
	Least     int64           `json:"least_bytes"`
	Parts     []Part          `json:"filled_by"`
	Fits      estimate.Fit    `json:"fits"`
	Factor    *float64        `json:"batch_factor"` // largest batch that fits for certain, over this one
	Notes     []string        `json:"not_known"`
}

// roleRow is the most that a census found of a role on a device, in the process that holds most of it. Not every census
// sees all: one may end early.
type roleRow struct {
	Device string `json:"device"`
	Role   string `json:"role"`
	Bytes  int64  `json:"bytes"`
}

const roleSQL = `WITH sums AS (SELECT device, role, sum(coalesce(bytes, 0)) AS bytes FROM python.tensors
 WHERE role IN ('parameter', 'buffer', 'optimizer') GROUP BY pid, census_id, device, role)
SELECT device, role, max(bytes)::BIGINT AS bytes FROM sums GROUP BY device, role`

// Take says what a session's training takes, and whether that fits into a device; Total 0: into none.
func Take(ctx context.Context, s api.Session, into estimate.Device) (*Taken, error) {
	devices, err := api.Rows[deviceRow](ctx, s, deviceSQL)
	if err != nil {
		return nil, err
	}
	roles, err := api.Rows[roleRow](ctx, s, roleSQL)
	if err != nil {
		return nil, err
	}
	steps, err := api.Rows[stepsRow](ctx, s, stepsSQL)
	if err != nil {
		return nil, err
	}
	return takes(devices, roles, steps, into)
}

// settled is how many steps make a session's peak one that repeats.
const settled = 3

func takes(devices []deviceRow, roles []roleRow, steps []stepsRow, into estimate.Device) (*Taken, error) {
	t := &Taken{On: "cpu", Parts: []Part{}, Notes: []string{}}
	for _, s := range steps {
		t.Steps = max(t.Steps, s.Steps)
	}
	if t.Steps < settled {
		return nil, remedy.Add(fmt.Errorf("the session has %d training steps; an estimate needs %d", t.Steps, settled),
			"let it train for longer, or name the script instead: memgauge estimate train.py")
	}
	var gpu *deviceRow // the fullest
	if len(devices) > 0 {
		gpu, t.On = &devices[0], devices[0].Device
	}
	held := map[string]int64{}
	for _, r := range roles {
		if r.Device == t.On {
			held[r.Role] += r.Bytes
		}
	}
	if gpu == nil && held["parameter"] == 0 {
		return nil, remedy.Add(errors.New("the session recorded no GPU, and no census of it saw parameters of "+
			"PyTorch's"),
			"while it lives, memgauge tensors takes a census; or name the script instead: memgauge estimate train.py")
	}
	if gpu == nil {
		t.ofHost(held, into)
	} else {
		t.ofGPU(gpu, held, into)
	}
	return t, nil
}

func (t *Taken) part(what string, bytes int64) {
	if bytes > 0 {
		t.Parts = append(t.Parts, Part{what, bytes})
	}
}

// static are the parts that a census has counted.
func (t *Taken) static(held map[string]int64) (sum int64) {
	t.part("parameters", held["parameter"])
	t.part("buffers", held["buffer"])
	t.part("optimizer state", held["optimizer"])
	return held["parameter"] + held["buffer"] + held["optimizer"]
}

// ofGPU goes by the allocator's own counters: it reserved at most so much, of which so much was in use.
func (t *Taken) ofGPU(d *deviceRow, held map[string]int64, into estimate.Device) {
	static := t.static(held)
	if held["parameter"] > 0 {
		t.part("gradients, and what else stays between steps", d.Floor-static)
		t.Notes = append(t.Notes, fmt.Sprintf("gradients by themselves: no moment is safe to read them. They take at "+
			"most as much as the parameters, %s", units.Bytes(held["parameter"])))
	} else {
		t.part("what stays between steps", d.Floor)
		t.Notes = append(t.Notes, "parameters and optimizer state by themselves: no census saw them")
	}
	t.part("what a step adds: activations, temporaries", d.Peak-d.Floor)
	t.Allocator = &estimate.Range{Bytes: d.Reserved, Low: d.Peak, High: d.Reserved}
	t.Device = &estimate.Range{Bytes: d.Reserved + (estimate.ContextLow+estimate.ContextHigh)/2,
		Low: d.Peak + estimate.ContextLow, High: d.Reserved + estimate.ContextHigh}
	t.Least = t.Device.Low
	t.Notes = append(t.Notes, "other precisions: what each storage is for was not recorded; memgauge estimate SCRIPT "+
		"does")
	if into.Total == 0 {
		return
	}
	t.Fits = estimate.Perhaps // in between it depends on the cache, which PyTorch gives back before it fails
	switch {
	case t.Device.High <= into.Total:
		t.Fits = estimate.Fits
	case t.Device.Low > into.Total:
		t.Fits = estimate.FitsNot
	}
	t.Factor = factor(d, into)
}

// factor assumes that what a step adds goes with the batch, and that the share of the reserved bytes that is in use at
// the peak stays.
func factor(d *deviceRow, into estimate.Device) *float64 {
	if d.Peak <= d.Floor || d.Reserved <= 0 {
		return nil
	}
	room := float64(into.Total-estimate.ContextHigh) * float64(d.Peak) / float64(d.Reserved)
	f := max(0, (room-float64(d.Floor))/float64(d.Peak-d.Floor))
	return &f
}

// ofHost knows what lies there whatever the device is. What a step adds is known to malloc alone.
func (t *Taken) ofHost(held map[string]int64, into estimate.Device) {
	static := t.static(held)
	t.part("gradients, at most", held["parameter"])
	t.Least = static + estimate.ContextLow
	t.Notes = append(t.Notes, "activations and temporaries: the training ran on the host, where they are malloc's; "+
		"memgauge estimate SCRIPT runs it with a GPU pretended",
		"the batch size, and so the largest that fits")
	if into.Total > 0 && t.Least > into.Total {
		t.Fits = estimate.FitsNot
	}
}
