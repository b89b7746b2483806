package detect

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/formats/wire"
)

// Raised is what an agent has told of one part of a training (a phase) in which a memory rose higher than ever before,
// and what the memory did otherwise. Sizes are bytes.
type Raised struct {
	Micros  int64  `json:"t"` // since the epoch
	PID     int    `json:"pid"`
	Rank    int    `json:"rank"`   // -1 unknown
	Device  string `json:"device"` // "" the host's memory, else as PyTorch names it
	Phase   string `json:"phase"`  // a code of wire's
	Text    string `json:"text"`   // what was done, then its line
	Step    int64  `json:"step"`   // the last that had ended
	Peak    int64  `json:"peak"`
	Before  int64  `json:"before"`  // the highest before the phase
	Highest int64  `json:"highest"` // of the whole run
	Level   int64  `json:"level"`   // what the ends of steps held from then on, the median
	Inside  int64  `json:"inside"`  // the most that was seen within later steps
	Looked  int64  `json:"looked"`  // later steps that were looked into
	RanOut  bool   `json:"ran_out"` // memory ran out in the phase, of which no end is known
}

// Peak is the highest that a memory reached, where that belongs to one phase. It is no leak: it is given back.
type Peak struct {
	PID     int    `json:"pid"`
	Rank    *int   `json:"rank"`
	Device  string `json:"device"` // host, or as PyTorch names it
	Phase   string `json:"phase"`  // saving, evaluation, compilation or first step
	What    string `json:"what"`
	Site    string `json:"site"` // the program's line, file:line; "" where none is known
	Step    int64  `json:"step"` // the last that had ended
	Bytes   *int64 `json:"peak_bytes"`
	Without *int64 `json:"without_bytes"` // what the run reached otherwise
	RanOut  bool   `json:"ran_out"`       // memory ran out in it
	Advice  string `json:"advice"`
}

const (
	peakLeast = 16 * float64(units.MiB) // that a phase must add: as much is an import
	peakShare = 0.05                    // of the peak
	peakSame  = 1.02                    // the run's highest is the phase's where it is at most so much higher
	peakLooks = 3                       // steps to look into before a peak of the beginning is set against later ones
)

// Peaks are the peaks that belong to a phase, one for each memory of a process at most.
func Peaks(raised []Raised) []Peak {
	type memory struct {
		pid    int
		device string
	}
	last := map[memory]Raised{}
	for _, r := range raised {
		m := memory{r.PID, r.Device}
		if old, ok := last[m]; !ok || r.RanOut || !old.RanOut && r.Peak > old.Peak {
			last[m] = r
		}
	}
	out := []Peak{}
	for _, r := range last {
		if p, ok := r.judge(); ok {
			out = append(out, p)
		}
	}
	order.By(out, func(a, b Peak) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), strings.Compare(a.Device, b.Device))
	})
	return out
}

// judge says whether the peak belongs to the phase. What a phase keeps is no peak; and what only later steps might have
// needed as well is not its own: none had been made before the beginning's.
func (r Raised) judge() (Peak, bool) {
	what, site := r.Text, ""
	if at := strings.LastIndex(what, ", "); at >= 0 {
		what, site = what[:at], what[at+2:]
		if !strings.Contains(site, ":") {
			site = ""
		}
	}
	p := Peak{PID: r.PID, Device: cmp.Or(r.Device, "host"), Phase: r.Phase, What: what, Site: site, Step: r.Step,
		RanOut: r.RanOut, Advice: peakAdvice(r.Phase, what)}
	if r.Rank >= 0 {
		p.Rank = &r.Rank
	}
	if r.RanOut {
		return p, true
	}
	without := max(r.Before, r.Level)
	if r.Phase == wire.EventFirstStep || r.Phase == wire.EventCompilation {
		if r.Looked < peakLooks {
			return p, false
		}
		without = max(without, r.Inside)
	}
	p.Bytes, p.Without = &r.Peak, &without
	adds := float64(r.Peak - without)
	return p, adds >= max(peakLeast, peakShare*float64(r.Peak)) && float64(r.Highest) <= peakSame*float64(r.Peak)
}

// String is the peak in one line.
func (p Peak) String() string {
	where := "host memory"
	if p.Device != "host" {
		where = p.Device
	}
	of := p.What
	if p.Site != "" {
		of += ", " + p.Site
	}
	phase := map[string]string{wire.EventSaving: "saving", wire.EventEvaluation: "an evaluation",
		wire.EventCompilation: "compilation"}[p.Phase]
	if of != "" && phase != "" {
		of = phase + " (" + strings.TrimPrefix(of, "evaluation, ") + ")"
	}
	if p.RanOut {
		return fmt.Sprintf("%s ran out in %s, after step %s", where, of, units.Count(p.Step))
	}
	return fmt.Sprintf("%s reached %s in %s, after step %s; %s otherwise, so it is no leak", where,
		units.Bytes(*p.Bytes), of, units.Count(p.Step), units.Bytes(*p.Without))
}

// peakAdvice is what it takes to avoid the peak.
func peakAdvice(phase, what string) string {
	switch {
	case phase == wire.EventEvaluation && strings.Contains(what, "gradients on"):
		return "evaluate under torch.inference_mode(): with gradients on, each forward keeps its activations"
	case phase == wire.EventEvaluation:
		return "a smaller evaluation batch; keep each batch's figures and not its outputs (eval_accumulation_steps)"
	case phase == wire.EventCompilation:
		return "compile the block that repeats in place of the whole model, without max-autotune"
	case phase == wire.EventFirstStep:
		return "warm up at the largest batch, before other memory is taken; load data after the first step"
	case strings.Contains(what, "BytesIO"):
		return "torch.save(state, path) to the file itself: io.BytesIO holds the whole checkpoint once more"
	case strings.HasPrefix(what, "safetensors"):
		return "save shard by shard, save_pretrained(max_shard_size=\"500MB\"): of a shard there is a copy"
	case strings.HasSuffix(what, "async_save"):
		return "torch.distributed.checkpoint.save(): async_save() keeps a copy of all weights until they are written"
	case strings.HasPrefix(what, "torch.distributed"):
		return "save sharded state dicts, each rank its own part"
	}
	return "save the state dict itself: torch.save() writes a tensor at a time, a copy of it is all of them at once; " +
		"what must be copied, copy and save one tensor after the other"
}
