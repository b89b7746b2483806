package estimate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/units"
)

// Device is a GPU to fit into.
type Device struct {
	Name       string
	Total      int64 // bytes, as the driver tells them
	Capability [2]int
}

const mib = 1 << 20

// devices are common GPUs: MiB as nvidia-smi shows them, and the compute capability
// (https://developer.nvidia.com/cuda-gpus).
var devices = []Device{
	{"GTX 1060", 6144, [2]int{6, 1}}, {"GTX 1080", 8192, [2]int{6, 1}}, {"GTX 1080 Ti", 11264, [2]int{6, 1}},
	{"GTX 1650", 4096, [2]int{7, 5}}, {"GTX 1660", 6144, [2]int{7, 5}}, {"GTX 1660 Ti", 6144, [2]int{7, 5}},
	{"RTX 2060", 6144, [2]int{7, 5}}, {"RTX 2070", 8192, [2]int{7, 5}}, {"RTX 2080", 8192, [2]int{7, 5}},
	{"RTX 2080 Ti", 11264, [2]int{7, 5}}, {"RTX 3050", 8192, [2]int{8, 6}}, {"RTX 3060", 12288, [2]int{8, 6}},
	{"RTX 3070", 8192, [2]int{8, 6}}, {"RTX 3080", 10240, [2]int{8, 6}}, {"RTX 3080 Ti", 12288, [2]int{8, 6}},
	{"RTX 3090", 24576, [2]int{8, 6}}, {"RTX 4060", 8188, [2]int{8, 9}}, {"RTX 4060 Ti", 8188, [2]int{8, 9}},
	{"RTX 4070", 12282, [2]int{8, 9}}, {"RTX 4080", 16376, [2]int{8, 9}}, {"RTX 4090", 24564, [2]int{8, 9}},
	{"RTX 5070", 12227, [2]int{12, 0}}, {"RTX 5080", 16303, [2]int{12, 0}}, {"RTX 5090", 32607, [2]int{12, 0}},
	{"RTX A4000", 16376, [2]int{8, 6}}, {"RTX A5000", 24564, [2]int{8, 6}}, {"RTX A6000", 49140, [2]int{8, 6}},
	{"RTX 6000 Ada", 49140, [2]int{8, 9}}, {"P100", 16384, [2]int{6, 0}}, {"T4", 15360, [2]int{7, 5}},
	{"V100", 16384, [2]int{7, 0}}, {"V100 32GB", 32768, [2]int{7, 0}}, {"A10", 23028, [2]int{8, 6}},
	{"A10G", 23028, [2]int{8, 6}}, {"A30", 24576, [2]int{8, 0}}, {"A40", 46068, [2]int{8, 6}},
	{"A100", 40960, [2]int{8, 0}}, {"A100 40GB", 40960, [2]int{8, 0}}, {"A100 80GB", 81920, [2]int{8, 0}},
	{"L4", 23034, [2]int{8, 9}}, {"L40", 46068, [2]int{8, 9}}, {"L40S", 46068, [2]int{8, 9}},
	{"H100", 81559, [2]int{9, 0}}, {"H200", 143771, [2]int{9, 0}}, {"B200", 183359, [2]int{10, 0}},
}

// noise are words of a GPU's full name that say nothing about its memory.
var noise = strings.NewReplacer("nvidia", "", "geforce", "", "tesla", "", "-", " ", "pcie", "", "sxm4", "", "sxm5", "",
	"hbm3", "", "gddr6", "")

func plainName(s string) string {
	return strings.Join(strings.Fields(noise.Replace(strings.ToLower(s))), "")
}

// ParseDevice understands a size, "4GiB", or a GPU's name, "GTX 1650".
func ParseDevice(text string) (Device, error) {
	for _, d := range devices {
		if plainName(d.Name) == plainName(text) {
			d.Total *= mib
			return d, nil
		}
	}
	b, err := units.ParseBytes(text)
	if err == nil && b > 0 {
		return Device{"a GPU", int64(b), [2]int{8, 0}}, nil
	}
	return Device{}, remedy.Add(fmt.Errorf("%q is neither a size nor a GPU that is known", text),
		"sizes are like 4GiB; known are "+nearest(text))
}

// nearest lists the names that share most with a text, for a hint.
func nearest(text string) string {
	list := slices.Clone(devices)
	want := plainName(text)
	common := func(d Device) (n int) {
		name := plainName(d.Name)
		for n < min(len(name), len(want)) && name[n] == want[n] {
			n++
		}
		return n
	}
	order.Stable(list, func(a, b Device) int { return cmp.Compare(common(b), common(a)) })
	var names []string
	for _, d := range list[:6] {
		names = append(names, d.Name)
	}
	return strings.Join(names, ", ") + " …"
}

// Workspace is what cuBLAS takes for each thread that multiplies matrices, in bytes
// (aten/src/ATen/cuda/CublasHandlePool.cpp; two of 32 MiB are in the history recorded on an H100).
func (d Device) Workspace() int64 {
	if d.Capability[0] == 9 || d.Capability[0] == 10 {
		return 4096 * 8 << 10
	}
	return (4096*2 + 16*8) << 10
}
