//go:build linux

// Package cuda provides an NVIDIA GPU's memory as a device of package alloc. It loads the driver's library,
// libcuda.so.1, when a device is opened, so it builds and starts on machines without one. It uses the device's primary
// context, which PyTorch and the CUDA runtime use too: addresses and streams are the same as theirs. It must not be
// used in a child of a process that opened it before the fork: CUDA itself can't be.
package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/memgauge/memgauge/alloc"
)

// ErrNoDriver says that the machine has no usable NVIDIA driver, or no such GPU.
var ErrNoDriver = errors.New("no CUDA driver")

const defaultLibrary = "libcuda.so.1"

// Error is a failed call of the driver.
type Error struct {
	Call string
	Code int // CUresult
	Text string
}

func (e *Error) Error() string { return e.Call + ": " + e.Text }

// Is makes errors.Is(err, alloc.ErrNoMemory) true when the device is full.
func (e *Error) Is(target error) bool {
	return target == alloc.ErrNoMemory && result(e.Code) == outOfMemory
}

// Device is an alloc.Driver with virtual memory and streams: an alloc.Stream is a CUstream, 0 the default one.
type Device struct {
	lib     *library
	device  int32
	context uintptr
	page    int64

	capturing atomic.Bool // see Capturing

	mu    sync.Mutex
	pages map[alloc.Ptr]uint64 // the handle of the memory behind a page of virtual addresses
}

// Open opens a GPU by its number. The error wraps ErrNoDriver if there is none.
func Open(device int) (*Device, error) { return OpenLibrary(defaultLibrary, device) }

// OpenLibrary is Open with the path of the driver's library.
func OpenLibrary(path string, device int) (*Device, error) {
	lib, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("open CUDA device %d: %w", device, err)
	}
	d := &Device{lib: lib, pages: map[alloc.Ptr]uint64{}}
	if err := d.start(device); err != nil {
		return nil, fmt.Errorf("open CUDA device %d: %w", device, err)
	}
	return d, nil
}

func (d *Device) start(device int) error {
	if r := d.lib.call(d.lib.init, 0); r != success {
		return fmt.Errorf("%w: %w", ErrNoDriver, d.failed("cuInit", r))
	}
	var count int32
	if r := d.lib.call(d.lib.deviceGetCount, uintptr(unsafe.Pointer(&count))); r != success {
		return d.failed("cuDeviceGetCount", r)
	}
	if device < 0 || device >= int(count) {
		return fmt.Errorf("%w: the machine has %d GPUs", ErrNoDriver, count)
	}
	if r := d.lib.call(d.lib.deviceGet, uintptr(unsafe.Pointer(&d.device)), uintptr(device)); r != success {
		return d.failed("cuDeviceGet", r)
	}
	if r := d.lib.call(d.lib.retainContext, uintptr(unsafe.Pointer(&d.context)), uintptr(d.device)); r != success {
		return d.failed("cuDevicePrimaryCtxRetain", r)
	}
	prop := d.property()
	var page uint64
	if err := d.call("cuMemGetAllocationGranularity", d.lib.granularity, uintptr(unsafe.Pointer(&page)),
		uintptr(unsafe.Pointer(&prop)), 0); err != nil {
		return err
	}
	d.page = int64(page)
	return nil
}

func (d *Device) failed(name string, r result) error {
	return &Error{name, int(r), d.lib.text(r)}
}

// call runs a function of the driver with the device's context, which CUDA keeps for each thread. A pointer to a Go
// variable must become a uintptr in the call's own argument list: only then does uintptrescapes put the variable on the
// heap, where it has one address until the call returns. A goroutine's stack may move meanwhile.
//
//go:uintptrescapes
func (d *Device) call(name string, fn uintptr, args ...uintptr) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if r := d.lib.call(d.lib.setContext, d.context); r != success {
		return d.failed("cuCtxSetCurrent", r)
	}
	if d.capturing.Load() && d.lib.captureMode != 0 {
		defer d.relax()()
	}
	if r := d.lib.call(fn, args...); r != success {
		return d.failed(name, r)
	}
	return nil
}

// captureRelaxed is CU_STREAM_CAPTURE_MODE_RELAXED: calls of this thread that a capture of another one forbids are
// allowed, because what they do is no part of it.
const captureRelaxed = 2

// relax allows this thread to allocate while a CUDA graph is being captured, until the returned function is called.
func (d *Device) relax() (restore func()) {
	mode := int32(captureRelaxed)
	if d.lib.call(d.lib.captureMode, uintptr(unsafe.Pointer(&mode))) != success {
		return func() {}
	}
	// it exchanges: now the old mode is set again
	return func() { d.lib.call(d.lib.captureMode, uintptr(unsafe.Pointer(&mode))) }
}

// Capturing implements alloc.Capturer.
func (d *Device) Capturing(on bool) { d.capturing.Store(on) }

// Close releases the device's context. Everything must have been freed.
func (d *Device) Close() error {
	if r := d.lib.call(d.lib.releaseContext, uintptr(d.device)); r != success && r != deinitialized {
		return d.failed("cuDevicePrimaryCtxRelease", r)
	}
	return nil
}

// Alloc implements alloc.Driver.
func (d *Device) Alloc(size int64) (alloc.Ptr, error) {
	var p uint64
	err := d.call("cuMemAlloc", d.lib.memAlloc, uintptr(unsafe.Pointer(&p)), uintptr(size))
	return alloc.Ptr(p), err
}

// Free implements alloc.Driver.
func (d *Device) Free(p alloc.Ptr, _ int64) error {
	return d.call("cuMemFree", d.lib.memFree, uintptr(p))
}

// MemInfo implements alloc.Driver.
func (d *Device) MemInfo() (free, total int64, err error) {
	var f, t uint64
	err = d.call("cuMemGetInfo", d.lib.memInfo, uintptr(unsafe.Pointer(&f)), uintptr(unsafe.Pointer(&t)))
	return int64(f), int64(t), err
}

// property is a CUmemAllocationProp: pinned memory on a device.
type property struct {
	kind, handleTypes        int32
	locationKind, locationID int32
	win32                    uintptr
	compression, rdma        uint8
	usage                    uint16
	reserved                 [4]uint8
}

// access is a CUmemAccessDesc.
type access struct{ locationKind, locationID, flags int32 }

const (
	pinned    = 1 // CU_MEM_ALLOCATION_TYPE_PINNED
	onDevice  = 1 // CU_MEM_LOCATION_TYPE_DEVICE
	readWrite = 3 // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
)

func (d *Device) property() property {
	return property{kind: pinned, locationKind: onDevice, locationID: d.device}
}

// Granularity implements alloc.VirtualMemory.
func (d *Device) Granularity() int64 { return d.page }

// Reserve implements alloc.VirtualMemory.
func (d *Device) Reserve(size int64) (alloc.Ptr, error) {
	var p uint64
	err := d.call("cuMemAddressReserve", d.lib.reserve, uintptr(unsafe.Pointer(&p)), uintptr(size), 0, 0, 0)
	return alloc.Ptr(p), err
}

// Release implements alloc.VirtualMemory.
func (d *Device) Release(p alloc.Ptr, size int64) error {
	return d.call("cuMemAddressFree", d.lib.unreserve, uintptr(p), uintptr(size))
}

// Map implements alloc.VirtualMemory. Each page has memory of its own, so that any of them can be given back alone.
func (d *Device) Map(p alloc.Ptr, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var done int64
	err := func() error {
		for ; done < size; done += d.page {
			if err := d.mapPage(p + alloc.Ptr(done)); err != nil {
				return err
			}
		}
		a := access{onDevice, d.device, readWrite}
		return d.call("cuMemSetAccess", d.lib.setAccess, uintptr(p), uintptr(size), uintptr(unsafe.Pointer(&a)), 1)
	}()
	if err != nil && done > 0 {
		err = errors.Join(err, d.unmapPages(p, done))
	}
	return err
}

func (d *Device) mapPage(p alloc.Ptr) error {
	prop := d.property()
	var handle uint64
	if err := d.call("cuMemCreate", d.lib.create, uintptr(unsafe.Pointer(&handle)), uintptr(d.page),
		uintptr(unsafe.Pointer(&prop)), 0); err != nil {
		return err
	}
	if err := d.call("cuMemMap", d.lib.mapMemory, uintptr(p), uintptr(d.page), 0, uintptr(handle), 0); err != nil {
		return errors.Join(err, d.call("cuMemRelease", d.lib.release, uintptr(handle)))
	}
	d.pages[p] = handle
	return nil
}

// Unmap implements alloc.VirtualMemory.
func (d *Device) Unmap(p alloc.Ptr, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unmapPages(p, size)
}

func (d *Device) unmapPages(p alloc.Ptr, size int64) error {
	if err := d.call("cuMemUnmap", d.lib.unmap, uintptr(p), uintptr(size)); err != nil {
		return err
	}
	var errs []error
	for end := p + alloc.Ptr(size); p < end; p += alloc.Ptr(d.page) {
		errs = append(errs, d.call("cuMemRelease", d.lib.release, uintptr(d.pages[p])))
		delete(d.pages, p)
	}
	return errors.Join(errs...)
}

const disableTiming = 2 // CU_EVENT_DISABLE_TIMING: events that time cost more

// Record implements alloc.Streams.
func (d *Device) Record(s alloc.Stream) (alloc.Mark, error) {
	var e uintptr
	if err := d.call("cuEventCreate", d.lib.eventCreate, uintptr(unsafe.Pointer(&e)), disableTiming); err != nil {
		return 0, err
	}
	if err := d.call("cuEventRecord", d.lib.eventRecord, e, uintptr(s)); err != nil {
		return 0, errors.Join(err, d.call("cuEventDestroy", d.lib.eventDestroy, e))
	}
	return alloc.Mark(e), nil
}

// Query implements alloc.Streams.
func (d *Device) Query(m alloc.Mark) (bool, error) {
	err := d.call("cuEventQuery", d.lib.eventQuery, uintptr(m))
	var e *Error
	if errors.As(err, &e) && result(e.Code) == notReady {
		return false, nil
	}
	return err == nil, err
}

// Wait implements alloc.Streams.
func (d *Device) Wait(m alloc.Mark) error {
	return d.call("cuEventSynchronize", d.lib.eventSynchronize, uintptr(m))
}

// Forget implements alloc.Streams.
func (d *Device) Forget(m alloc.Mark) error {
	return d.call("cuEventDestroy", d.lib.eventDestroy, uintptr(m))
}

// WaitAll implements alloc.Streams.
func (d *Device) WaitAll() error { return d.call("cuCtxSynchronize", d.lib.synchronize) }
