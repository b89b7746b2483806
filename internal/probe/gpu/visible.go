package gpu

import (
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/formats/model"
)

// Visible is the meaning of CUDA_VISIBLE_DEVICES (CUDA C++ Programming Guide, "Environment Variables"): numbers or
// beginnings of UUIDs, up to the first that names no device. The zero value shows all. Numbers follow CUDA's own order,
// which is the driver's (PCI) order if all GPUs are alike, or with CUDA_DEVICE_ORDER=PCI_BUS_ID.
type Visible struct {
	set  bool
	list []string
}

// ParseVisible reads the variable's value; without the variable all devices are visible.
func ParseVisible(value string, set bool) Visible {
	v := Visible{set: set}
	if !set {
		return v
	}
	for e := range strings.SplitSeq(value, ",") {
		e = strings.TrimSpace(e)
		if n, err := strconv.Atoi(e); e == "" || err == nil && n < 0 {
			break // "-1", or nothing: what follows is hidden
		}
		v.list = append(v.list, e)
	}
	return v
}

// Number is a device's number in the job; -1 when it is hidden.
func (v Visible) Number(d model.GPUDevice) int32 {
	if !v.set {
		if d.Parent >= 0 {
			return -1 // without the variable CUDA takes the first instance; only the driver knows which that is
		}
		return d.Device
	}
	for i, e := range v.list {
		if n, err := strconv.Atoi(e); err == nil {
			if d.Parent < 0 && n == int(d.Device) {
				return int32(i)
			}
			continue
		}
		if len(e) >= len("GPU-x") && strings.HasPrefix(d.UUID, e) {
			return int32(i)
		}
	}
	return -1
}
