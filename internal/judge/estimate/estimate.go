// Package estimate says how much memory of a GPU a training will take. It runs the script for a few steps without a GPU
// (py/recorder.py), reads which storages would lie there, and plays their allocations by the rules of PyTorch's
// allocator, at other batch sizes and precisions too. It knows no command and prints nothing.
package estimate

// Categories are what memory is for.
type Category uint8

const (
	Rest        Category = iota // made outside of a step: inputs, what the program keeps
	Parameter                   // and buffers
	Gradient                    //
	Optimizer                   // its state
	Activation                  // made by forward, and kept for backward
	Temporary                   // made and freed in the same phase
	Workspace                   // of cuBLAS: a fixed size for each thread that multiplies
	numCategory                 //
)

// String is the category's name in tables and JSON.
func (c Category) String() string {
	return [numCategory]string{"inputs and others", "parameters", "gradients", "optimizer state", "activations",
		"temporaries", "cuBLAS workspaces"}[c]
}

// Allocation is one storage that would lie on the GPU.
type Allocation struct {
	Bytes    int64
	Wide     bool // 32-bit or 64-bit floats, which a lower precision halves
	Category Category
	Site     int32 // index in Recording.Sites; -1: no line of the user's code
}

type opKind uint8

const (
	opAlloc opKind = iota
	opFree
	opEmpty  // torch.cuda.empty_cache()
	opMatrix // the first matrix product of a thread: cuBLAS takes its workspace
	opStep   // the end of a training step
)

type op struct {
	kind  opKind
	alloc int32 // index in Recording.Allocations
}

// Recording is what a script did with the GPU's memory in a few steps.
type Recording struct {
	Torch       string
	Batch       int    // the script's own batch size; 0: it was not found
	BatchRun    int    // the batch size of this run
	BatchWhere  string // where the script says it
	Sites       []string
	Allocations []Allocation
	Steps       int
	Convolves   bool // cuDNN will take workspaces, of sizes that are chosen at run time
	ops         []op
}

// mates reports whether two recordings are of the same operations, so that their allocations correspond one by one.
func (r *Recording) mates(other *Recording) bool {
	if len(r.ops) != len(other.ops) || len(r.Allocations) != len(other.Allocations) {
		return false
	}
	for i := range r.ops {
		if r.ops[i] != other.ops[i] {
			return false
		}
	}
	return true
}
