// Package discover opens all GPUs of this machine, whatever their drivers, and says why one kind is not there.
package discover

import (
	"errors"
	"time"

	"github.com/memgauge/memgauge/internal/probe/gpu"
	"github.com/memgauge/memgauge/internal/probe/gpu/drm"
	"github.com/memgauge/memgauge/internal/probe/gpu/nvml"
)

// openLimit: initialising NVML takes 20 ms, seconds where the driver has to wake its GPUs, and hangs where one is
// broken.
const openLimit = 10 * time.Second

var errHangs = errors.New("NVML does not answer")

// Found is what Open has found.
type Found struct {
	Set    *gpu.Set // nil without any GPU
	NVIDIA error    // why there is none of NVIDIA's; nil where there are
	Driver string   // NVIDIA's driver
	CUDA   int      // the newest that it runs: 12040 is 12.4
	DRM    int      // devices of AMD and Intel
}

// Open finds the GPUs; root is the file system ("/"), pids lists the processes whose use of AMD's and Intel's GPUs is
// wanted. Who gets a Set closes it.
func Open(root string, pids func() []int) Found {
	var f Found
	var backends []gpu.Backend
	type opened struct {
		b   *nvml.Backend
		err error
	}
	answer := make(chan opened, 1)
	go func() { // ends with NVML's answer; a hanging driver keeps it, and nothing else of us
		b, err := nvml.Open()
		answer <- opened{b, err}
	}()
	select {
	case a := <-answer:
		if f.NVIDIA = a.err; a.err == nil {
			backends = append(backends, a.b)
			f.Driver, f.CUDA = a.b.Driver()
		}
	case <-time.After(openLimit):
		f.NVIDIA = errHangs
	}
	if d := drm.Open(root, pids); len(d.Devices()) > 0 {
		backends = append(backends, d)
		f.DRM = len(d.Devices())
	}
	if len(backends) > 0 {
		f.Set = gpu.New(backends...)
	}
	return f
}
