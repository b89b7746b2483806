//go:build linux

package cuda

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
)

// result is a CUresult (cuda.h).
type result uintptr

const (
	success       result = 0
	outOfMemory   result = 2
	notReady      result = 600
	deinitialized result = 4 // the process is ending: the driver has released everything already
)

// library is libcuda's functions, by their names in cuda.h.
type library struct {
	init, deviceGet, deviceGetCount, retainContext, releaseContext, setContext, synchronize uintptr
	memAlloc, memFree, memInfo                                                              uintptr
	granularity, reserve, unreserve, create, release, mapMemory, unmap, setAccess           uintptr
	eventCreate, eventRecord, eventQuery, eventSynchronize, eventDestroy                    uintptr
	errorName, errorString                                                                  uintptr
	// 0: before CUDA 10.1
	captureMode uintptr
}

// open loads the driver's library: nothing of CUDA is needed to build or to start.
func open(path string) (*library, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoDriver, err)
	}
	l := &library{}
	for name, to := range map[string]*uintptr{
		"cuInit": &l.init, "cuDeviceGet": &l.deviceGet, "cuDeviceGetCount": &l.deviceGetCount,
		"cuDevicePrimaryCtxRetain": &l.retainContext, "cuDevicePrimaryCtxRelease_v2": &l.releaseContext,
		"cuCtxSetCurrent": &l.setContext, "cuCtxSynchronize": &l.synchronize,
		"cuMemAlloc_v2": &l.memAlloc, "cuMemFree_v2": &l.memFree, "cuMemGetInfo_v2": &l.memInfo,
		"cuMemGetAllocationGranularity": &l.granularity, "cuMemAddressReserve": &l.reserve,
		"cuMemAddressFree": &l.unreserve,
		"cuMemCreate":      &l.create, "cuMemRelease": &l.release, "cuMemMap": &l.mapMemory, "cuMemUnmap": &l.unmap,
		"cuMemSetAccess": &l.setAccess, "cuEventCreate": &l.eventCreate, "cuEventRecord": &l.eventRecord,
		"cuEventQuery": &l.eventQuery, "cuEventSynchronize": &l.eventSynchronize, "cuEventDestroy_v2": &l.eventDestroy,
		"cuGetErrorName": &l.errorName, "cuGetErrorString": &l.errorString,
	} {
		if *to, err = purego.Dlsym(handle, name); err != nil {
			return nil, fmt.Errorf("%w: %s lacks %s: CUDA 10.2 or newer is needed: %w", ErrNoDriver, path, name, err)
		}
	}
	if mode, err := purego.Dlsym(handle, "cuThreadExchangeStreamCaptureMode"); err == nil {
		l.captureMode = mode
	}
	return l, nil
}

//go:uintptrescapes
func (l *library) call(fn uintptr, args ...uintptr) result {
	r, _, _ := purego.SyscallN(fn, args...)
	return result(uint32(r))
}

// text returns the name and the description of a result.
func (l *library) text(r result) string {
	part := func(fn uintptr) string {
		var p unsafe.Pointer // to a constant of libcuda's
		if l.call(fn, uintptr(r), uintptr(unsafe.Pointer(&p))) != success || p == nil {
			return ""
		}
		n := 0
		for n < 256 && *(*byte)(unsafe.Add(p, n)) != 0 {
			n++
		}
		return string(unsafe.Slice((*byte)(p), n))
	}
	if name := part(l.errorName); name != "" {
		return fmt.Sprintf("%s (%s)", name, part(l.errorString))
	}
	return fmt.Sprintf("error %d", uintptr(r))
}
