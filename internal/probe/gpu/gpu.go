// Package gpu samples the GPUs of this machine through the drivers that are installed (gpu/nvml, gpu/drm). It owns what
// they have in common: the numbering, the number under which the job sees each device, and isolation. If a driver hangs
// or fails, only its device is marked; the others continue, and when the device answers again, it is back. A machine
// without a driver is normal.
package gpu

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/formats/model"
)

// Backend is one kind of driver.
type Backend interface {
	// Devices lists the devices in the driver's order.
	Devices() []Device
	// Events returns what has happened since the last call, without waiting.
	Events() []model.GPUEvent
	Close()
}

// Device is read by one goroutine at a time. Read may hang.
type Device interface {
	// Read returns the device's present state. What the driver does not report is model.Null. Set fills in times and
	// states.
	Read() (Reading, error)
}

// Reading is a device at one time, and the instances that it is divided into.
type Reading struct {
	Info   model.GPUDevice
	Util   model.GPUUtilization
	Procs  []model.GPUProcess
	Inside []Reading // MIG instances
}

// StateOK is the state of a device that answers.
const StateOK = "ok"

const (
	// Patience is how long a sample waits for a device. A call to NVML takes 10 µs to some ms, and a hundred ms while
	// the driver wakes a sleeping GPU. A longer call hangs in the driver's locks (a GPU that fell off the bus, an Xid
	// 79).
	Patience = time.Second
	// retellEvery is how often gpu.devices is written again without a change.
	retellEvery = 10 * time.Minute
)

// Set samples all devices of some backends. It implements sampler.GPUs.
type Set struct {
	backends []Backend
	workers  []*worker
	pollers  []*worker
	visible  Visible
	patience time.Duration
	told     map[string]told
	cost     time.Duration
}

type told struct {
	at    time.Time
	state string
	as    int32
}

// New makes a Set of the devices that the backends have now.
func New(backends ...Backend) *Set {
	s := &Set{patience: Patience, told: map[string]told{}}
	for _, b := range backends {
		s.backends = append(s.backends, b)
		for _, d := range b.Devices() {
			s.workers = append(s.workers, newWorker(d.Read))
		}
		s.pollers = append(s.pollers, newWorker(func() (Reading, error) { return Reading{}, nil }))
		poll := s.pollers[len(s.pollers)-1]
		poll.events = b.Events
	}
	return s
}

// Len is the number of devices.
func (s *Set) Len() int { return len(s.workers) }

// SetVisible sets the job's CUDA_VISIBLE_DEVICES; set is false without it.
func (s *Set) SetVisible(value string, set bool) { s.visible = ParseVisible(value, set) }

// Sample reads all devices at once and adds their rows. inJob reports which processes are the job's. It returns the CPU
// time that the devices' own threads took.
func (s *Set) Sample(at time.Time, inJob func(pid int) bool, into *model.Samples) time.Duration {
	for _, w := range s.pollers {
		w.begin()
	}
	for _, w := range s.workers {
		w.begin()
	}
	deadline := time.NewTimer(s.patience)
	defer deadline.Stop()
	s.cost = 0
	for i, w := range s.workers {
		s.takeDevice(int32(i), w, deadline.C, at, inJob, into)
	}
	for _, w := range s.pollers {
		if a, ok := w.wait(deadline.C); ok {
			s.cost += a.cost
			into.GPUEvents = append(into.GPUEvents, stamp(a.events, at)...)
		}
	}
	return s.cost
}

func stamp(events []model.GPUEvent, at time.Time) []model.GPUEvent {
	for i := range events {
		events[i].Time = at.UnixMicro()
	}
	return events
}

func (s *Set) takeDevice(number int32, w *worker, deadline <-chan time.Time, at time.Time, inJob func(int) bool,
	into *model.Samples) {
	a, ok := w.wait(deadline)
	state := StateOK
	switch {
	case !ok:
		state = "lost: no answer from the driver"
	case a.err != nil:
		state = "lost: " + a.err.Error()
	}
	s.cost += a.cost
	if state == StateOK {
		w.last = a.reading
	} else {
		a.reading = w.last.blank()
	}
	if w.state != state && !(w.state == "" && state == StateOK) {
		into.GPUEvents = append(into.GPUEvents, change(number, state, at))
	}
	w.state = state
	a.reading.number(number, -1)
	s.add(&a.reading, state, at, inJob, into)
}

func change(number int32, state string, at time.Time) model.GPUEvent {
	e := model.GPUEvent{Time: at.UnixMicro(), Device: number, Kind: "found", Code: model.Null,
		Text: "the device answers again"}
	if state != StateOK {
		e.Kind, e.Text = "lost", state
	}
	return e
}

// number numbers a device and its instances: instance i of device n is 100·(n+1)+i.
func (r *Reading) number(n, parent int32) {
	r.Info.Device, r.Util.Device, r.Info.Parent = n, n, parent
	for i := range r.Procs {
		r.Procs[i].Device = n
	}
	for i := range r.Inside {
		r.Inside[i].number(100*(n+1)+int32(i), n)
	}
}

// blank is a device of which only its identity is known.
func (r *Reading) blank() Reading {
	b := Reading{Info: r.Info, Util: NoUtilization(r.Util.Name)}
	b.Util.Total = r.Util.Total
	return b
}

// NoUtilization is a row without any reading.
func NoUtilization(name string) model.GPUUtilization {
	null := model.Null
	return model.GPUUtilization{Name: name, Used: null, Free: null, Total: null, Reserved: null, GPUPct: null,
		MemPct: null, Temperature: null, PowerMW: null, PowerLimitMW: null, SMClockMHz: null, MemClockMHz: null,
		ECCCorrected: null, ECCUncorrected: null, PCIeRxBytes: null, PCIeTxBytes: null, PCIeGeneration: null,
		PCIeWidth: null}
}

// add puts a device's rows, and those of its instances, into the samples.
func (s *Set) add(r *Reading, state string, at time.Time, inJob func(int) bool, into *model.Samples) {
	if r.Info.UUID == "" {
		r.Info.UUID = fmt.Sprintf("unknown-%d", r.Info.Device) // it has never answered
	}
	now := at.UnixMicro()
	r.Util.Time, r.Util.State = now, state
	into.GPUs = append(into.GPUs, r.Util)
	for _, p := range r.Procs {
		p.Time, p.InJob = now, inJob(int(p.PID))
		into.GPUProcs = append(into.GPUProcs, p)
	}
	as := s.visible.Number(r.Info)
	if t := s.told[r.Info.UUID]; t.state != state || t.as != as || at.Sub(t.at) >= retellEvery {
		s.told[r.Info.UUID] = told{at, state, as}
		r.Info.Time, r.Info.State, r.Info.CUDAVisible = now, state, as
		into.Devices = append(into.Devices, r.Info)
	}
	for i := range r.Inside {
		s.add(&r.Inside[i], state, at, inJob, into)
	}
}

// Close ends the idle workers and the backends. A call that hangs in the driver can't be ended: its goroutine stays,
// and the backend stays open for it.
func (s *Set) Close() {
	hangs := false
	for _, w := range append(s.workers, s.pollers...) {
		hangs = !w.close() || hangs
	}
	if hangs {
		return
	}
	for _, b := range s.backends {
		b.Close()
	}
}

// worker reads one device on a thread of its own, so that a hanging call delays no other device.
type worker struct {
	ask    chan struct{}
	answer chan answer
	done   chan struct{}
	busy   bool
	events func() []model.GPUEvent
	last   Reading
	state  string
}

type answer struct {
	reading Reading
	events  []model.GPUEvent
	err     error
	cost    time.Duration
}

func newWorker(read func() (Reading, error)) *worker {
	w := &worker{ask: make(chan struct{}), answer: make(chan answer, 1), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		runtime.LockOSThread() // for the thread's CPU time
		for range w.ask {
			before := threadTime()
			var a answer
			a.reading, a.err = read()
			if w.events != nil {
				a.events = w.events()
			}
			a.cost = threadTime() - before
			w.answer <- a // has room: there is one request at a time
		}
	}()
	return w
}

// begin sends a request, unless the last one is still open.
func (w *worker) begin() {
	if !w.busy {
		w.busy = true
		w.ask <- struct{}{} // the worker waits for it
	}
}

func (w *worker) wait(deadline <-chan time.Time) (answer, bool) {
	select {
	case a := <-w.answer:
		w.busy = false
		return a, true
	default:
	}
	select {
	case a := <-w.answer:
		w.busy = false
		return a, true
	case <-deadline:
		return answer{}, false
	}
}

// close ends the goroutine, or reports that it hangs.
func (w *worker) close() bool {
	close(w.ask)
	if !w.busy {
		<-w.done
		return true
	}
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

func threadTime() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
