package gpu

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/formats/model"
)

// fake is a device that a test controls.
type fake struct {
	uuid  string
	hang  chan struct{} // when set, Read waits for it
	err   error
	extra []Reading
}

func (f *fake) Read() (Reading, error) {
	if f.hang != nil {
		<-f.hang
	}
	r := Reading{Info: model.GPUDevice{UUID: f.uuid, Name: "fake"}, Util: NoUtilization("fake"), Inside: f.extra}
	r.Util.Used, r.Util.Total = 10, 100
	r.Procs = []model.GPUProcess{{PID: 5, Used: 7}, {PID: 6, Used: model.Null}}
	return r, f.err
}

type fakes struct {
	list   []Device
	events []model.GPUEvent
	closed bool
}

func (f *fakes) Devices() []Device { return f.list }
func (f *fakes) Events() []model.GPUEvent {
	e := f.events
	f.events = nil
	return e
}
func (f *fakes) Close() { f.closed = true }

func sampleOf(s *Set) *model.Samples {
	var out model.Samples
	s.Sample(time.Unix(100, 0), func(pid int) bool { return pid == 5 }, &out)
	return &out
}

func TestSet(t *testing.T) {
	b := &fakes{list: []Device{&fake{uuid: "GPU-a"},
		&fake{uuid: "GPU-b", extra: []Reading{{Info: model.GPUDevice{UUID: "MIG-1"}, Util: NoUtilization("mig")}}}},
		events: []model.GPUEvent{{Device: 1, Kind: "xid", Code: 79}}}
	s := New(b)
	out := sampleOf(s)
	if len(out.GPUs) != 3 || out.GPUs[1].Device != 1 || out.GPUs[2].Device != 200 || out.GPUs[0].State != StateOK ||
		out.GPUs[0].Time != 100e6 {
		t.Errorf("%+v", out.GPUs)
	}
	if len(out.GPUProcs) != 4 || !out.GPUProcs[0].InJob || out.GPUProcs[1].InJob || out.GPUProcs[3].Device != 1 ||
		out.GPUProcs[1].Used != model.Null {
		t.Errorf("%+v", out.GPUProcs)
	}
	if len(out.Devices) != 3 || out.Devices[2].Parent != 1 || out.Devices[0].Parent != -1 {
		t.Errorf("%+v", out.Devices)
	}
	if len(out.GPUEvents) != 1 || out.GPUEvents[0].Code != 79 || out.GPUEvents[0].Time != 100e6 {
		t.Errorf("%+v", out.GPUEvents)
	}
	if out = sampleOf(s); len(out.Devices) != 0 || len(out.GPUs) != 3 {
		t.Errorf("what has not changed is told again: %+v", out.Devices)
	}
	s.Close()
	if !b.closed {
		t.Error("the backend is open")
	}
}

// TestDevicesThatFail: a device that hangs and one that fails are marked, the third continues, and both come back.
func TestDevicesThatFail(t *testing.T) {
	hang := make(chan struct{})
	sick := &fake{uuid: "GPU-b"}
	b := &fakes{list: []Device{&fake{uuid: "GPU-a", hang: hang}, sick, &fake{uuid: "GPU-c"}}}
	s := New(b)
	s.patience = 10 * time.Millisecond
	sampleUntil := func(state0, state1 string) *model.Samples {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; {
			out := sampleOf(s)
			if strings.HasPrefix(out.GPUs[0].State, state0) && strings.HasPrefix(out.GPUs[1].State, state1) &&
				out.GPUs[2].State == StateOK {
				return out
			}
			if time.Now().After(end) {
				t.Fatalf("states %q %q %q", out.GPUs[0].State, out.GPUs[1].State, out.GPUs[2].State)
			}
		}
	}
	out := sampleUntil("lost: no answer", "ok")
	if out.GPUs[0].Used != model.Null || out.GPUs[2].Used != 10 {
		t.Errorf("%+v", out.GPUs)
	}
	sick.err = errors.New("the GPU has fallen off the bus")
	out = sampleUntil("lost: no answer", "lost: the GPU has")
	if out.GPUs[1].Used != model.Null || out.GPUs[1].Total != 100 {
		t.Errorf("%+v", out.GPUs[1])
	}
	if n := len(out.GPUEvents); n != 1 || out.GPUEvents[0].Kind != "lost" || out.GPUEvents[0].Device != 1 {
		t.Errorf("events %+v", out.GPUEvents)
	}
	close(hang)
	sick.err = nil
	sampleUntil("ok", "ok")
	s.Close()
}

func TestCloseWhileADeviceHangs(t *testing.T) {
	hang := make(chan struct{})
	b := &fakes{list: []Device{&fake{hang: hang}}}
	s := New(b)
	s.patience = time.Millisecond
	sampleOf(s)
	s.Close()
	if b.closed {
		t.Error("the backend was closed under a call")
	}
	close(hang)
}

func TestVisible(t *testing.T) {
	for _, c := range []struct {
		value string
		set   bool
		want  [3]int32 // devices 0, 1 and a MIG instance of 1
	}{
		{"", false, [3]int32{0, 1, -1}},
		{"", true, [3]int32{-1, -1, -1}},
		{"-1", true, [3]int32{-1, -1, -1}},
		{"1,0", true, [3]int32{1, 0, -1}},
		{"1,-1,0", true, [3]int32{-1, 0, -1}},
		{" 1 ", true, [3]int32{-1, 0, -1}},
		{"GPU-bb", true, [3]int32{-1, 0, -1}},
		{"MIG-cc,GPU-aa", true, [3]int32{1, -1, 0}},
		{"9", true, [3]int32{-1, -1, -1}},
	} {
		v := ParseVisible(c.value, c.set)
		got := [3]int32{v.Number(model.GPUDevice{Device: 0, Parent: -1, UUID: "GPU-aaaa"}),
			v.Number(model.GPUDevice{Device: 1, Parent: -1, UUID: "GPU-bbbb"}),
			v.Number(model.GPUDevice{Device: 200, Parent: 1, UUID: "MIG-cccc"})}
		if got != c.want {
			t.Errorf("%q (%v): %v, want %v", c.value, c.set, got, c.want)
		}
	}
}
