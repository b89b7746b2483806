package main

// #include <stdint.h>
// #include <stdlib.h>
// int memgauge_exhausted(void);
import "C"

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/alloc"
)

// Functions that shim.c calls. The caller frees an error's text; nil is no error.

func text(err error) *C.char {
	if err == nil {
		return nil
	}
	if errors.Is(err, alloc.ErrOutOfMemory) || errors.Is(err, alloc.ErrNoMemory) {
		C.memgauge_exhausted()
	}
	return C.CString(err.Error())
}

//export mgOpen
func mgOpen(driver *C.char, number C.int, conf, source *C.char, why **C.char) C.int {
	name := ""
	if driver != nil {
		name = C.GoString(driver)
	}
	h, err := openDevice(name, int(number), C.GoString(conf), C.GoString(source))
	*why = text(err)
	return C.int(h)
}

//export mgCheck
func mgCheck(conf *C.char) *C.char {
	var o alloc.Options
	return text(o.Set(C.GoString(conf)))
}

//export mgAlloc
func mgAlloc(handle C.int, size C.uint64_t, stream C.uintptr_t, thread, stack, pool C.uint32_t,
	why **C.char) C.uintptr_t {
	d, err := deviceOf(int(handle))
	if err != nil {
		*why = text(err)
		return 0
	}
	if size > math.MaxInt64 {
		*why = text(fmt.Errorf("allocate %d bytes: %w", uint64(size), alloc.ErrBadSize))
		return 0
	}
	p, err := d.AllocRequest(alloc.Request{Size: int64(size), Stream: alloc.Stream(stream), Thread: uint32(thread),
		Stack: alloc.StackID(stack), Pool: alloc.PoolID(pool)})
	if err != nil {
		*why = text(err)
		return 0
	}
	return C.uintptr_t(p)
}

//export mgFree
func mgFree(handle C.int, p C.uintptr_t, thread, stack C.uint32_t) *C.char {
	d, err := deviceOf(int(handle))
	if err != nil {
		return text(err)
	}
	return text(d.FreeRequest(alloc.Ptr(p), alloc.Request{Thread: uint32(thread), Stack: alloc.StackID(stack)}))
}

//export mgDriver
func mgDriver(handle C.int, number *C.int) C.int {
	d, err := deviceOf(int(handle))
	if err != nil {
		return 0
	}
	*number = C.int(d.number)
	return C.int(d.driver[0]) // c, h or f
}

// on runs f on a device.
func on(handle C.int, f func(*device) error) *C.char {
	d, err := deviceOf(int(handle))
	if err == nil {
		err = f(d)
	}
	return text(err)
}

//export mgRetain
func mgRetain(handle C.int, p C.uintptr_t) *C.char {
	return on(handle, func(d *device) error { return d.Retain(alloc.Ptr(p)) })
}

//export mgRecordStream
func mgRecordStream(handle C.int, p, stream C.uintptr_t) *C.char {
	return on(handle, func(d *device) error { return d.RecordStream(alloc.Ptr(p), alloc.Stream(stream)) })
}

//export mgEmptyCache
func mgEmptyCache(handle C.int, released *C.int64_t) *C.char {
	return on(handle, func(d *device) error {
		n, err := d.EmptyCache()
		*released = C.int64_t(n)
		return err
	})
}

//export mgPool
func mgPool(handle C.int, high, low C.uint64_t, what C.int, pool *C.uint32_t) *C.char {
	return on(handle, func(d *device) error {
		id, err := d.pool(uint64(high), uint64(low))
		if err != nil {
			return err
		}
		*pool = C.uint32_t(id)
		switch what {
		case C.int('b'):
			d.BeginPool(id)
		case C.int('e'):
			return d.EndPool(id)
		case C.int('r'):
			d.ReleasePool(id)
		}
		return nil
	})
}

//export mgBase
func mgBase(handle C.int, p C.uintptr_t, size *C.uint64_t) C.uintptr_t {
	d, err := deviceOf(int(handle))
	if err != nil {
		return 0
	}
	base, n, err := d.BaseOf(alloc.Ptr(p))
	if err != nil {
		return 0
	}
	*size = C.uint64_t(n)
	return C.uintptr_t(base)
}

//export mgReset
func mgReset(handle C.int, peaks, sums C.int) *C.char {
	return on(handle, func(d *device) error {
		switch {
		case peaks != 0 && sums != 0:
			d.ResetStats()
		case peaks != 0:
			d.ResetPeak()
		case sums != 0:
			d.ResetAccumulated()
		}
		return nil
	})
}

//export mgSetFraction
func mgSetFraction(handle C.int, fraction C.double) *C.char {
	return on(handle, func(d *device) error { return d.SetMemoryFraction(float64(fraction)) })
}

//export mgSetDebug
func mgSetDebug(handle, enabled C.int) *C.char {
	return on(handle, func(d *device) error { d.SetDebug(enabled != 0); return nil })
}

//export mgWindow
func mgWindow(handle C.int, why **C.char) (number C.int) {
	*why = on(handle, func(d *device) error { number = C.int(d.window()); return nil })
	return number
}

//export mgWindowClose
func mgWindowClose(handle, window C.int) *C.char {
	return on(handle, func(d *device) error { return d.closeWindow(int(window)) })
}

//export mgStats
func mgStats(handle, window C.int, what *C.char, why **C.char) (out *C.char) {
	*why = on(handle, func(d *device) error {
		s, err := d.describe(int(window), C.GoString(what))
		if err == nil {
			out = C.CString(s)
		}
		return err
	})
	return out
}

//export mgEvents
func mgEvents(handle, n C.int, why **C.char) (out *C.char) {
	*why = on(handle, func(d *device) error {
		s, err := d.events(int(n))
		if err == nil {
			out = C.CString(s)
		}
		return err
	})
	return out
}

//export mgSnapshot
func mgSnapshot(handle C.int, path, format *C.char) *C.char {
	return on(handle, func(d *device) error {
		if path == nil || format == nil {
			return fmt.Errorf("memgauge: snapshot: no path, or no format")
		}
		return d.save(C.GoString(path), C.GoString(format))
	})
}

// maxStackLines bounds a stack that a caller describes; deeper ones are cut.
const maxStackLines = 64

//export mgStack
func mgStack(handle C.int, lines *C.char) C.uint32_t {
	d, err := deviceOf(int(handle))
	if err != nil || lines == nil {
		return 0
	}
	var frames []alloc.Frame
	for line := range strings.Lines(C.GoString(lines)) {
		if len(frames) == maxStackLines {
			break
		}
		frames = append(frames, parseFrame(strings.TrimSuffix(line, "\n")))
	}
	return C.uint32_t(d.InternStack(frames))
}

// parseFrame reads file:line:function; a file's name may contain colons.
func parseFrame(s string) alloc.Frame {
	rest, function, ok := cutLast(s)
	if file, line, found := cutLast(rest); ok && found {
		if n, err := strconv.Atoi(line); err == nil {
			return alloc.Frame{File: file, Line: n, Func: function}
		}
	}
	return alloc.Frame{File: s}
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}
