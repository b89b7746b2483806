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
	frames := make([]siteFrame, c.Frames())
	out := make([]site, c.Stacks())
	for i := range out {
		out[i] = siteOf(c, c.StackFrames(uint32(i)), frames)
	}
	return out
}

// siteFrame is what a site says of a frame, worked out when a stack first has it: there may be far more stacks.
type siteFrame struct {
	name, place string // place is "" where the frame has no file
	users, done bool
}

func siteFrameOf(c *snapshot.Columns, f uint32) siteFrame {
	frame := c.Frame(f)
	s := siteFrame{name: frame.Name, users: isUserFile(frame.File), done: true}
	if frame.File != "" && frame.File != "??" {
		s.place = placeOf(frame)
	}
	return s
}

func siteOf(c *snapshot.Columns, stack []uint32, frames []siteFrame) (s site) {
	var path [maxPath]string
	n := maxPath
	for _, f := range stack {
		frame := &frames[f]
		if !frame.done {
			*frame = siteFrameOf(c, f)
		}
		if !frame.users {
			continue
		}
		if s.place == "" {
			s.place = frame.place
		}
		n--
		if path[n] = frame.name; n == 0 {
			break
		}
	}
	s.path = strings.Join(path[n:], " > ")
	for i := 0; s.place == "" && i < len(stack); i++ {
		s.place = frames[stack[i]].place
	}
	if s.place == "" && len(stack) > 0 {
		s.place = frames[stack[0]].name
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
