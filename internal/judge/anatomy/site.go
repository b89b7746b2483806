package anatomy

import (
	"fmt"
	"strings"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// site is where a stack comes from.
type site struct {
	// "file:line function" of the frame that tells most, the innermost of its kind; "" without a stack
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
	name, place string
	kind        frameKind
	done        bool
}

func siteFrameOf(c *snapshot.Columns, f uint32) siteFrame {
	frame := c.Frame(f)
	return siteFrame{name: frame.Name, place: placeOf(frame), kind: kindOf(frame), done: true}
}

func siteOf(c *snapshot.Columns, stack []uint32, frames []siteFrame) (s site) {
	if len(stack) == 0 {
		return s
	}
	var path [maxPath]string
	n := maxPath
	best := internalFrame
	s.place = NoPython
	for _, f := range stack {
		frame := &frames[f]
		if !frame.done {
			*frame = siteFrameOf(c, f)
		}
		if frame.kind > best {
			best, s.place = frame.kind, frame.place
		}
		if frame.kind != userFrame {
			continue
		}
		n--
		if path[n] = frame.name; n == 0 {
			break
		}
	}
	s.path = strings.Join(path[n:], " > ")
	return s
}

// placeOf names a frame. C++ has no line where its library has no debug information.
func placeOf(f snapshot.Frame) string {
	name := f.Name
	if !isPython(f.File) {
		name = qualified(name)
	}
	if isPython(f.File) || f.Line > 0 && f.File != "" && f.File != "??" {
		return fmt.Sprintf("%s:%d %s", f.File, f.Line, name)
	}
	return name
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
