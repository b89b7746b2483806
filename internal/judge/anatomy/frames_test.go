package anatomy

import (
	"testing"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// engine is the thread of a backward pass as PyTorch 2.6 records it with C++ stacks, without what recorded it.
var engine = []snapshot.Frame{
	{File: "", Name: "torch::autograd::Node::operator()(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)"},
	{File: "??", Name: "torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)"},
	{File: "thread48.o", Name: "execute_native_thread_routine"},
	{File: "??", Name: "__clone"},
}

// recorder stands on top of every stack of C++ frames.
var recorder = []snapshot.Frame{
	{File: "??", Name: "torch::unwind::unwind()"},
	{File: "??", Name: "torch::CapturedTraceback::gather(bool, bool, bool)"},
	{File: "memory_snapshot.cpp", Name: "torch::cuda::(anonymous namespace)::gather_with_cpp()"},
	{File: "CUDACachingAllocator.cpp",
		Name: "c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(unsigned long, CUstream_st*)"},
	{File: "", Name: "at::TensorBase at::detail::_empty_generic<long>(c10::ArrayRef<long>, c10::Allocator*)"},
	{File: "RegisterCUDA.cpp", Name: "at::(anonymous namespace)::wrapper_CUDA_bmm(at::Tensor const&)"},
}

// A stack is named by the frame that tells most about the program, never by what recorded it.
func TestSites(t *testing.T) {
	library := snapshot.Frame{File: "/x/site-packages/torch/nn/modules/linear.py", Line: 125, Name: "forward"}
	for name, c := range map[string]struct {
		frames []snapshot.Frame
		want   string
	}{
		"the user's line": {[]snapshot.Frame{library, {File: "/srv/train.py", Line: 7, Name: "step"}},
			"/srv/train.py:7 step"},
		"a library's line": {[]snapshot.Frame{{File: "??", Name: "at::native::linear(at::Tensor const&)"}, library},
			"/x/site-packages/torch/nn/modules/linear.py:125 forward"},
		"what runs the profiler is not a library's line": {[]snapshot.Frame{
			{File: "/x/site-packages/torch/profiler/profiler.py", Line: 9, Name: "step"}, library},
			"/x/site-packages/torch/nn/modules/linear.py:125 forward"},
		"the operator of a backward pass": {append([]snapshot.Frame{{File: "??",
			Name: "torch::autograd::generated::BmmBackward0::apply(std::vector<at::Tensor>&&)"}}, engine...),
			"torch::autograd::generated::BmmBackward0::apply"},
		"C++ of the user without a line": {append([]snapshot.Frame{{File: "??",
			Name: "at::Tensor mylib::Layer<float>::forward(at::Tensor const&)"}}, engine...),
			"mylib::Layer<float>::forward"},
		"C++ of the user with a line": {[]snapshot.Frame{{File: "/srv/layer.cpp", Line: 3, Name: "fill(at::Tensor&)"}},
			"/srv/layer.cpp:3 fill"},
		"an operator of a profiler's trace": {[]snapshot.Frame{{Name: "aten::empty"}, {Name: "aten::zeros"}},
			"aten::empty"},
		"nothing but PyTorch": {engine, NoPython},
		"nothing at all":      {nil, ""},
	} {
		frames := c.frames
		if len(frames) > 0 && c.want != "aten::empty" { // PyTorch's profiler has no frames of its own in its traces
			frames = append(recorder[:len(recorder):len(recorder)], frames...)
		}
		alloc := snapshot.Event{Action: snapshot.Alloc, Addr: 512, Size: 1, Frames: frames}
		h := historyOf(t, &snapshot.Snapshot{Traces: [][]snapshot.Event{{alloc}}})
		if got := h.Site(h.Stack[0]); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		for _, f := range Told(frames) {
			if f.Name == recorder[2].Name || f.Name == recorder[3].Name {
				t.Errorf("%s: drawn with %s", name, f.Name)
			}
		}
	}
	if got := Told(recorder[:4]); len(got) != 1 || got[0].Name != NoPython {
		t.Errorf("nothing but the recorder is drawn as %v", got)
	}
}
