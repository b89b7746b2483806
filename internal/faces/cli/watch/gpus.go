package watch

import (
	"github.com/memgauge/memgauge/internal/probe/gpu/discover"
	"github.com/memgauge/memgauge/internal/probe/sampler"
)

// localGPUs opens this machine's GPUs; nil if there are none.
func localGPUs() sampler.GPUs {
	if found := discover.Open("/", nil); found.Set != nil {
		return found.Set
	}
	return nil
}
