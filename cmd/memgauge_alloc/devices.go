package main

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/alloc/cuda"
	"github.com/memgauge/memgauge/alloc/fake"
	"github.com/memgauge/memgauge/alloc/host"
)

// maxHandles bounds the allocators of a process: drivers times devices.
const maxHandles = 256

// device is an open allocator. Its windows are identified by their numbers.
type device struct {
	*alloc.Allocator
	driver string
	number int
	pools  struct {
		sync.Mutex
		numbers map[[2]uint64]alloc.PoolID
	}
	windows struct {
		sync.Mutex
		open map[int]*alloc.Window
		last int
	}
}

// handles are the open allocators; a handle is an index. Every allocation reads it, without a lock.
var handles [maxHandles]atomic.Pointer[device]

// opening guards the creation of new ones.
var opening struct {
	sync.Mutex
	last int
}

var errHandle = errors.New("memgauge: no such allocator: open it first")

func deviceOf(handle int) (*device, error) {
	if handle > 0 && handle < maxHandles {
		if d := handles[handle].Load(); d != nil {
			return d, nil
		}
	}
	return nil, errHandle
}

// defaultEvents is how many events are kept by default: 5 MiB, the last seconds of a busy trainer.
const defaultEvents = 100_000

// openDevice opens a device with settings from source, a variable's name or "settings".
func openDevice(name string, number int, conf, source string) (int, error) {
	driver := cmp.Or(name, "cuda")
	if number < 0 {
		return 0, fmt.Errorf("memgauge: open %s device %d: devices are numbered from 0", driver, number)
	}
	opening.Lock()
	defer opening.Unlock()
	for h := 1; h <= opening.last; h++ {
		if d := handles[h].Load(); d.driver == driver && d.number == number {
			return h, nil
		}
	}
	if opening.last+1 == maxHandles {
		return 0, fmt.Errorf("memgauge: open %s device %d: %d allocators are open", driver, number, maxHandles-1)
	}
	o := alloc.Options{Device: number, EventCapacity: defaultEvents, LargeFromMiB: true, Foreign: true}
	if err := o.Set(conf); err != nil {
		return 0, fmt.Errorf("memgauge: open %s device %d: %s: %w", driver, number, source, err)
	}
	drv, err := driverOf(driver, number)
	if err != nil {
		return 0, fmt.Errorf("memgauge: open %s device %d: %w", driver, number, err)
	}
	a, err := alloc.New(drv, o)
	if err != nil {
		return 0, fmt.Errorf("memgauge: open %s device %d: %w", driver, number, err)
	}
	d := &device{Allocator: a, driver: driver, number: number}
	d.windows.open = map[int]*alloc.Window{}
	opening.last++
	handles[opening.last].Store(d)
	return opening.last, nil
}

func driverOf(name string, number int) (alloc.Driver, error) {
	switch name {
	case "host":
		return host.New(0)
	case "cuda":
		return cuda.Open(number)
	case "fake":
		return fake.New(fake.Config{}), nil
	}
	return nil, fmt.Errorf("driver %q: not one of cuda, host, fake", name)
}

// maxPools bounds the private pools that a process names: a CUDA graph has one, and its number stays known after it.
const maxPools = 1 << 20

// pool returns the number of a private pool of PyTorch's.
func (d *device) pool(high, low uint64) (alloc.PoolID, error) {
	d.pools.Lock()
	defer d.pools.Unlock()
	if id, ok := d.pools.numbers[[2]uint64{high, low}]; ok {
		return id, nil
	}
	if len(d.pools.numbers) == maxPools {
		return 0, fmt.Errorf("memgauge: more than %d private pools", maxPools)
	}
	if d.pools.numbers == nil {
		d.pools.numbers = map[[2]uint64]alloc.PoolID{}
	}
	id := alloc.PoolID(len(d.pools.numbers) + 1)
	d.pools.numbers[[2]uint64{high, low}] = id
	return id, nil
}

// window opens a measurement.
func (d *device) window() int {
	d.windows.Lock()
	defer d.windows.Unlock()
	d.windows.last++
	d.windows.open[d.windows.last] = d.Window()
	return d.windows.last
}

func (d *device) closeWindow(n int) error {
	d.windows.Lock()
	defer d.windows.Unlock()
	w, ok := d.windows.open[n]
	if !ok {
		return fmt.Errorf("memgauge: no window %d is open", n)
	}
	w.Close()
	delete(d.windows.open, n)
	return nil
}

// stats returns those since the last reset (window 0) or since a window's opening.
func (d *device) stats(window int) (alloc.Stats, error) {
	if window == 0 {
		return d.Stats(), nil
	}
	d.windows.Lock()
	defer d.windows.Unlock()
	w, ok := d.windows.open[window]
	if !ok {
		return alloc.Stats{}, fmt.Errorf("memgauge: no window %d is open", window)
	}
	return w.Stats(), nil
}
