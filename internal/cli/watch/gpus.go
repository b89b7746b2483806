package watch

import (
	"github.com/memgauge/memgauge/internal/gpu/machine"
	"github.com/memgauge/memgauge/internal/sampler"
)

// localGPUs are this machine's; nil where there are none.
func localGPUs() sampler.GPUs {
	if found := machine.Open("/", nil); found.Set != nil {
		return found.Set
	}
	return nil
}
