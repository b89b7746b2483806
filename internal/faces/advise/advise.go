// Package advise says which settings a training should have: each with what it saves, taken from the session's own data
// or simulated with them, how sure that is, what it costs, and how it is set. What data don't support is not said. It
// asks a session through api only, and changes nothing.
package advise

import "github.com/memgauge/memgauge/internal/faces/doctor"

// How a saving is known.
const (
	Measured  = "measured"  // it was seen in this session
	Simulated = "simulated" // this session's allocations were replayed with the setting
	Bounded   = "bounded"   // it can't be more than this, by what was measured
	Unknown   = "unknown"   // what would be saved follows from no figure
)

// Set is how a setting is made, by framework.
type Set struct {
	Plain       string `json:"pytorch"`
	Lightning   string `json:"lightning"`
	HuggingFace string `json:"hugging_face"`
}

// Advice is one change.
type Advice struct {
	Setting  string  `json:"setting"` // batch_size, num_workers, allocator …
	Change   string  `json:"change"`
	Memory   string  `json:"memory"`      // which it saves: cuda:0, host, host heap
	Saves    *int64  `json:"saves_bytes"` // null: not known
	Known    string  `json:"known"`       // measured, simulated, bounded, unknown
	Evidence string  `json:"evidence"`    // the figures that it follows from
	Sure     string  `json:"sure"`        // high, medium, low
	Costs    string  `json:"costs"`       // in time
	Set      Set     `json:"set"`
	rank     float64 // how urgent; higher first
}

// Values are what safe_training.yaml says, under the keys of the guide that it is named after.
type Values struct {
	BatchSize   int `json:"batch_size"`
	Workers     int `json:"num_workers"`
	Precision   int `json:"precision"`
	Accumulate  int `json:"accumulate_grad_batches"`
	EveryNEpoch int `json:"check_val_every_n_epoch"`
	Width       int `json:"d_model"`
	Heads       int `json:"num_heads"`
	Layers      int `json:"num_layers"`
}

// effective is the batch size that the guide's values amount to: 4, accumulated 4 times.
const effective = 16

// ForMachine are values for this machine: the guide's for a GPU of 4 GiB, scaled by what is free here.
func ForMachine(f doctor.Figures, s doctor.Suggestions) Values {
	v := Values{BatchSize: s.BatchSize, Workers: s.Workers, Precision: 32, EveryNEpoch: 2, Width: 512,
		Heads: 8, Layers: 4}
	if f.GPUs > 0 {
		v.Precision = 16
	}
	if f.GPUs > 0 && f.GPUFreeBytes < roomy {
		v.Workers = min(v.Workers, 2)
	}
	if f.GPUs > 0 && f.GPUFreeBytes >= roomy {
		v.Width, v.Heads, v.Layers = 768, 12, 6 // what the guide's model had before it was cut for 4 GiB
	}
	v.Accumulate = max(1, effective/max(v.BatchSize, 1))
	return v
}

// roomy is the free memory of a GPU from which the guide's model need not be cut down: twice its 4 GiB.
const roomy = 8 << 30
