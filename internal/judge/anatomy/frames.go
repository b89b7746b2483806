package anatomy

import (
	"strings"

	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/formats/flame"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// frameKind says how much a frame tells about who allocated; of two kinds the higher one tells more.
type frameKind uint8

const (
	recorderFrame frameKind = iota // it recorded the stack, or gave the memory out: on top of every stack
	internalFrame                  // PyTorch's C++, the interpreter, the C and C++ libraries
	nativeFrame                    // a node of the backward graph, C++ of others, an operator in a profiler's trace
	libraryFrame                   // Python of libraries
	userFrame                      // Python of the user
)

// kindOf tells a frame's kind.
func kindOf(f snapshot.Frame) frameKind {
	switch {
	case isRecorder(f):
		return recorderFrame
	case isUserFile(f.File):
		return userFrame
	case isPython(f.File):
		return libraryFrame
	case isInternal(f):
		return internalFrame
	}
	return nativeFrame
}

// recorders are the beginnings of C++ names that record, unwind, profile or allocate.
var recorders = []string{
	"torch::unwind::", "torch::CapturedTraceback::", "torch::cuda::(anonymous namespace)::gather",
	"torch::profiler::", "torch::autograd::profiler::", "c10::reportMemoryUsage",
	"c10::cuda::CUDACachingAllocator::", "c10::cuda::CUDAMallocAsync", "c10::hip::HIPCachingAllocator::",
	"c10::xpu::XPUCachingAllocator::", "c10::CachingDeviceAllocator::", "at::CachingHostAllocator",
	"at::cuda::CachingHostAllocator", "at::cuda::(anonymous namespace)::CUDACachingHostAllocator",
}

// recorderFiles are the files of the same, C++ by its name alone, Python by the end or a part of its path.
var recorderFiles = []string{
	"memory_snapshot.cpp", "combined_traceback.cpp", "CUDACachingAllocator.cpp", "torch/cuda/memory.py",
	"torch/profiler/", "torch/autograd/profiler.py",
}

// isRecorder tells frames of what recorded the stack from those of the program.
func isRecorder(f snapshot.Frame) bool {
	for _, file := range recorderFiles {
		if strings.HasSuffix(f.File, file) || strings.HasSuffix(file, "/") && strings.Contains(f.File, file) {
			return true
		}
	}
	return !isPython(f.File) && startsWithAny(qualified(f.Name), recorders)
}

// internals are the namespaces of PyTorch's C++ and of what it is built with.
var internals = []string{"at::", "c10::", "torch::", "caffe2::", "std::", "pybind11::", "__gnu_cxx::"}

// backwardNode is what runs a node of the graph: "torch::autograd::generated::MmBackward0::apply". It names the
// operator whose gradient is computed, where the thread of the backward pass has no Python.
var backwardNode = pattern.Of(`^torch::autograd::(generated::)?\w+::apply$`)

// isInternal tells C++ that says nothing about the program. A name without a file and without arguments is an operator
// or a mark of torch.profiler; one with a file and without arguments is a C function of the interpreter or of libc.
func isInternal(f snapshot.Frame) bool {
	name := qualified(f.Name)
	switch {
	case name == "" || name == "??":
		return true
	case backwardNode().MatchString(name):
		return false
	case name == f.Name && f.File != "" && !strings.Contains(name, "::"):
		return true
	}
	return startsWithAny(name, internals)
}

// qualified is a C++ function's name without its result and its arguments. A name without arguments stays as it is.
func qualified(name string) string {
	const anonymous = "(anonymous namespace)"
	if !strings.Contains(name, "(") {
		return name
	}
	depth, from := 0, 0 // of <>; where the name begins
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '<':
			depth++
		case c == '>':
			depth--
		case c == ' ' && depth == 0:
			from = i + 1
		case c == '(' && depth == 0 && strings.HasPrefix(name[i:], anonymous):
			i += len(anonymous) - 1
		case c == '(' && depth == 0:
			return name[from:i]
		}
	}
	return name[from:]
}

func startsWithAny(text string, starts []string) bool {
	for _, start := range starts {
		if strings.HasPrefix(text, start) {
			return true
		}
	}
	return false
}

// isPython tells files of Python, notebooks' cells among them.
func isPython(path string) bool {
	return strings.HasSuffix(path, ".py") || strings.HasPrefix(path, "<ipython") ||
		strings.HasPrefix(path, "<frozen ") || strings.Contains(path, "/ipykernel_")
}

// libraries are parts of paths that no user's own code has. memgauge's agent calls the modules that it traces.
var libraries = []string{"/site-packages/", "/dist-packages/", "/lib/python", "<frozen ", "<string>", "/torch/",
	"/memgauge/_agent/"}

// isUserFile tells Python that the user wrote from libraries, the standard library and C++.
func isUserFile(path string) bool {
	if !isPython(path) {
		return false
	}
	for _, part := range libraries {
		if strings.Contains(path, part) {
			return false
		}
	}
	return !startsWithAny(path, shortLibraries)
}

// shortLibraries are how torch.profiler names files of libraries, which leaves out the directory: those that stand on
// the stack below every user's code.
var shortLibraries = []string{
	"torch/", "numpy/", "contextlib.py", "functools.py", "threading.py", "runpy.py", "importlib/", "multiprocessing/",
	"concurrent/", "asyncio/",
}

// NoStack names what the file has no stack of, NoPython what has a stack that says nothing about the program.
const (
	NoStack  = "(no stack recorded)"
	NoPython = "(no Python frame recorded)"
)

// Told are the frames of a stack that are drawn and listed: all but those of what recorded it. A stack of which nothing
// is left has one frame that says so.
func Told(stack []snapshot.Frame) (told []flame.Frame) {
	for _, f := range stack {
		if !isRecorder(f) {
			told = append(told, flame.Frame(f))
		}
	}
	switch {
	case len(stack) == 0:
		return []flame.Frame{{Name: NoStack}}
	case len(told) == 0:
		return []flame.Frame{{Name: NoPython}}
	}
	return told
}
