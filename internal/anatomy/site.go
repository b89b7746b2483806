package anatomy

import (
	"fmt"
	"strings"

	"github.com/memgauge/memgauge/internal/snapshot"
)

// site is where a stack comes from.
type site struct {
	// "file:line function" of the user's innermost frame, else of the innermost with a file; "" without a stack
	place string
	path  string // functions of the user's frames, outermost first
}

// maxPath bounds the functions of a path: the innermost ones say most.
const maxPath = 6

// sitesOf finds the site of every stack.
func sitesOf(c *snapshot.Columns) []site {
	users := make([]bool, c.Frames())
	for i := range users {
		_, file, _ := c.FrameTexts(uint32(i))
		users[i] = isUserFile(c.Text(file))
	}
	out := make([]site, c.Stacks())
	for i := range out {
		out[i] = siteOf(c, c.StackFrames(uint32(i)), users)
	}
	return out
}

func siteOf(c *snapshot.Columns, frames []uint32, users []bool) (s site) {
	var path []string
	for _, f := range frames {
		if !users[f] {
			continue
		}
		frame := c.Frame(f)
		if s.place == "" {
			s.place = placeOf(frame)
		}
		if len(path) < maxPath {
			path = append(path, frame.Name)
		}
	}
	for i := len(path) - 1; i >= 0; i-- {
		s.path += path[i]
		if i > 0 {
			s.path += " > "
		}
	}
	for i := 0; s.place == "" && i < len(frames); i++ {
		if frame := c.Frame(frames[i]); frame.File != "" && frame.File != "??" {
			s.place = placeOf(frame)
		}
	}
	if s.place == "" && len(frames) > 0 {
		s.place = c.Frame(frames[0]).Name
	}
	return s
}

func placeOf(f snapshot.Frame) string { return fmt.Sprintf("%s:%d %s", f.File, f.Line, f.Name) }

// libraries are parts of paths that no user's own code has. memgauge's agent calls the modules that it traces.
var libraries = []string{"/site-packages/", "/dist-packages/", "/lib/python", "<frozen ", "<string>", "/torch/",
	"/memgauge/_agent/"}

// isUserFile tells Python that the user wrote from libraries, the standard library and C++.
func isUserFile(path string) bool {
	if !strings.HasSuffix(path, ".py") && !strings.HasPrefix(path, "<ipython") &&
		!strings.Contains(path, "/ipykernel_") {
		return false
	}
	for _, part := range libraries {
		if strings.Contains(path, part) {
			return false
		}
	}
	for _, start := range shortLibraries {
		if strings.HasPrefix(path, start) {
			return false
		}
	}
	return true
}

// shortLibraries are how torch.profiler names files of libraries, which leaves out the directory: those that stand on
// the stack below every user's code.
var shortLibraries = []string{
	"torch/", "numpy/", "contextlib.py", "functools.py", "threading.py", "runpy.py", "importlib/", "multiprocessing/",
	"concurrent/", "asyncio/",
}

// phase is what a program was doing, as its stack shows.
type phase uint8

const (
	otherPhase phase = iota
	setupPhase       // modules are made, moved or loaded
	forwardPhase
	backwardPhase
	optimizerPhase
)

// phasesOf finds the phase of every stack.
func phasesOf(c *snapshot.Columns) []phase {
	frames := make([]phase, c.Frames())
	for i := range frames {
		frames[i] = phaseOf(c.Frame(uint32(i)))
	}
	out := make([]phase, c.Stacks())
	for i := range out {
		for _, f := range c.StackFrames(uint32(i)) {
			// Activation checkpointing runs forward inside of backward, Lightning both inside of the optimizer's
			// closure: the innermost sign says what runs. A module that is made has no forward below it.
			if p := frames[f]; p != otherPhase {
				out[i] = p
				break
			}
		}
	}
	return out
}

// setupNames are methods of torch.nn.Module that make or move parameters and buffers.
var setupNames = map[string]bool{
	"_apply": true, "to": true, "cuda": true, "load_state_dict": true, "_load_from_state_dict": true,
	"reset_parameters": true,
	"__init__":         true, "to_empty": true, "convert": true,
}

// phaseOf is what one frame is a sign of.
func phaseOf(f snapshot.Frame) phase {
	switch {
	// torch.profiler's names: here, and "Optimizer.step#", "nn.Module: "
	case strings.HasPrefix(f.Name, "autograd::engine::evaluate_function"),
		strings.Contains(f.Name, "torch::autograd::Engine"),
		strings.Contains(f.Name, "torch::autograd::AccumulateGrad"),
		strings.HasSuffix(f.File, "torch/autograd/__init__.py") && f.Name == "backward",
		strings.HasSuffix(f.File, "torch/autograd/graph.py") && f.Name == "_engine_run_backward",
		strings.HasSuffix(f.File, "torch/_tensor.py") && f.Name == "backward":
		return backwardPhase
	case strings.HasPrefix(f.Name, "Optimizer.step#"), strings.Contains(f.File, "torch/optim/") &&
		!strings.HasSuffix(f.File, "torch/optim/lr_scheduler.py"):
		return optimizerPhase
	case strings.Contains(f.File, "torch/nn/modules/") && setupNames[f.Name]:
		return setupPhase
	case strings.HasPrefix(f.Name, "nn.Module: "), strings.HasSuffix(f.File, "torch/nn/modules/module.py") &&
		strings.HasSuffix(f.Name, "_call_impl"),
		strings.Contains(f.File, "torch/nn/modules/") && f.Name == "forward",
		f.Name == "forward" && strings.HasSuffix(f.File, ".py"):
		return forwardPhase
	}
	return otherPhase
}
