// Package drm reads the GPUs of AMD and Intel from sysfs, and what each process has on them from DRM's fdinfo
// (Documentation/gpu/drm-usage-stats.rst). It reads files below a root directory and needs no library.
package drm

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/probe/gpu"
)

// Backend is the DRM devices of a machine that NVML does not know.
type Backend struct {
	root    string
	devices []gpu.Device
}

var vendors = map[string]string{"0x1002": "amd", "0x8086": "intel"}

var card = pattern.Of(`^card[0-9]+$`)

// Open finds the devices below root ("/" for the machine itself). pids lists the processes whose use of a device is
// reported; nil is none.
func Open(root string, pids func() []int) *Backend {
	if pids == nil {
		pids = func() []int { return nil }
	}
	b := &Backend{root: root}
	dir := filepath.Join(root, "sys", "class", "drm")
	entries, _ := os.ReadDir(dir) // no such directory: no devices
	var names []string
	for _, e := range entries {
		if card().MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cardNumber(a) - cardNumber(b) })
	for _, name := range names {
		path := filepath.Join(dir, name, "device")
		if vendor := vendors[line(filepath.Join(path, "vendor"))]; vendor != "" {
			b.devices = append(b.devices, &device{path: path, vendor: vendor, root: root, pids: pids,
				clients: map[int][]string{}})
		}
	}
	return b
}

func cardNumber(name string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(name, "card"))
	return n
}

// Devices lists the devices by card number.
func (b *Backend) Devices() []gpu.Device { return b.devices }

// Events: the kernel reports resets only in its log.
func (b *Backend) Events() []model.GPUEvent { return nil }

// Close has nothing to close.
func (b *Backend) Close() {}

type device struct {
	path, vendor, root string
	pids               func() []int
	info               model.GPUDevice
	clients            map[int][]string // pid → its fdinfo files of DRM devices
	reads              int
}

// readings after which a process's descriptors are listed again: a trainer opens its device once
const rescan = 15

// line is a file's text without its end; "" if it can't be read.
func line(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func value(path string) int64 {
	n, err := strconv.ParseInt(line(path), 10, 64)
	if err != nil || n < 0 {
		return model.Null
	}
	return n
}

// Read reads the device's files: amdgpu's are documented in Documentation/gpu/amdgpu/driver-misc.rst.
func (d *device) Read() (gpu.Reading, error) {
	if _, err := os.Stat(filepath.Join(d.path, "vendor")); err != nil {
		return gpu.Reading{}, errors.New("it is gone from sysfs")
	}
	if d.info.UUID == "" {
		d.identify()
	}
	r := gpu.Reading{Info: d.info, Util: gpu.NoUtilization(d.info.Name)}
	u := &r.Util
	u.Total, u.Used = value(filepath.Join(d.path, "mem_info_vram_total")),
		value(filepath.Join(d.path, "mem_info_vram_used"))
	if u.Total == model.Null { // Intel xe and i915 report it by tile
		u.Total = d.sum("tile*/physical_vram_size_bytes", "tile*/gt*/lmem_total_bytes", "lmem_total_bytes")
	}
	if u.Total != model.Null && u.Used != model.Null {
		u.Free = max(u.Total-u.Used, 0)
	}
	r.Info.Total = u.Total
	r.Info.Unified = u.Total == model.Null
	u.GPUPct, u.MemPct = value(filepath.Join(d.path, "gpu_busy_percent")),
		value(filepath.Join(d.path, "mem_busy_percent"))
	d.sensors(u)
	u.PCIeWidth = value(filepath.Join(d.path, "current_link_width"))
	u.ECCCorrected, u.ECCUncorrected = d.ras()
	r.Procs = d.processes()
	return r, nil
}

func (d *device) identify() {
	d.info = model.GPUDevice{Vendor: d.vendor, Parent: -1, CUDAVisible: -1,
		Name: line(filepath.Join(d.path, "product_name"))}
	if target, err := filepath.EvalSymlinks(d.path); err == nil {
		d.info.BusID = filepath.Base(target)
	}
	if driver, err := os.Readlink(filepath.Join(d.path, "driver")); err == nil {
		d.info.Driver = filepath.Base(driver)
	}
	if d.info.Name == "" {
		d.info.Name = d.vendor + " " + line(filepath.Join(d.path, "device"))
	}
	d.info.UUID = d.info.BusID
	if id := line(filepath.Join(d.path, "unique_id")); id != "" {
		d.info.UUID = "GPU-" + id
	}
}

// sum adds the files of the first pattern that finds any.
func (d *device) sum(patterns ...string) int64 {
	for _, p := range patterns {
		files, _ := filepath.Glob(filepath.Join(d.path, p))
		total, found := int64(0), false
		for _, f := range files {
			if n := value(f); n != model.Null {
				total, found = total+n, true
			}
		}
		if found {
			return total
		}
	}
	return model.Null
}

// sensors reads hwmon (Documentation/hwmon/sysfs-interface.rst): millidegrees, microwatts, hertz.
func (d *device) sensors(u *model.GPUUtilization) {
	dirs, _ := filepath.Glob(filepath.Join(d.path, "hwmon", "hwmon*"))
	for _, dir := range dirs {
		scaled := func(into *int64, by int64, names ...string) {
			for _, n := range names {
				if v := value(filepath.Join(dir, n)); v != model.Null && *into == model.Null {
					*into = v / by
				}
			}
		}
		scaled(&u.Temperature, 1000, "temp1_input")
		scaled(&u.PowerMW, 1000, "power1_average", "power1_input")
		scaled(&u.PowerLimitMW, 1000, "power1_cap", "power1_max")
		scaled(&u.SMClockMHz, 1e6, "freq1_input")
		scaled(&u.MemClockMHz, 1e6, "freq2_input")
	}
}

var rasCount = pattern.Of(`(?m)^(ue|ce): *([0-9]+)`)

// ras reads amdgpu's error counts of the memory controller.
func (d *device) ras() (corrected, uncorrected int64) {
	corrected, uncorrected = model.Null, model.Null
	for _, m := range rasCount().FindAllStringSubmatch(line(filepath.Join(d.path, "ras", "umc_err_count")), -1) {
		n, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil {
			continue
		}
		if m[1] == "ce" {
			corrected = n
		} else {
			uncorrected = n
		}
	}
	return corrected, uncorrected
}

// processes adds up what each process has on this device. A file that was inherited or passed on is one client: its
// memory counts once, for the process with the lowest PID.
func (d *device) processes() (list []model.GPUProcess) {
	d.reads++
	seen := map[string]bool{}
	pids := d.pids()
	slices.Sort(pids)
	for pid := range d.clients {
		if !slices.Contains(pids, pid) {
			delete(d.clients, pid)
		}
	}
	for _, pid := range pids {
		files, known := d.clients[pid]
		if !known || d.reads%rescan == 0 {
			files = d.find(pid)
			d.clients[pid] = files
		}
		used := model.Null
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				continue
			}
			c := parseFDInfo(text)
			if c.device != d.info.BusID || seen[c.id] {
				continue
			}
			seen[c.id] = true
			used = max(used, 0) + c.bytes
		}
		if used != model.Null {
			list = append(list, model.GPUProcess{PID: int32(pid), Kind: "drm", Used: used})
		}
	}
	return list
}

const maxFiles = 4096 // descriptors of a process that are read

// find lists the fdinfo files of a process's DRM descriptors.
func (d *device) find(pid int) (files []string) {
	dir := filepath.Join(d.root, "proc", strconv.Itoa(pid))
	entries, _ := os.ReadDir(filepath.Join(dir, "fd")) // we may not read it: nothing is known
	for i, e := range entries {
		if i >= maxFiles {
			break
		}
		target, err := os.Readlink(filepath.Join(dir, "fd", e.Name()))
		if err == nil && strings.HasPrefix(target, "/dev/dri/") {
			files = append(files, filepath.Join(dir, "fdinfo", e.Name()))
		}
	}
	return files
}

type client struct {
	device, id string
	bytes      int64 // of the device's own memory
}

// parseFDInfo reads the drm- lines. For the device's memory newer kernels report resident and total by region, older
// amdgpu one line.
func parseFDInfo(text []byte) (c client) {
	best := map[string]int64{} // region → bytes; resident before total
	for raw := range bytes.Lines(text) {
		key, rest, ok := strings.Cut(strings.TrimSpace(string(raw)), ":")
		if !ok {
			continue
		}
		rest = strings.TrimSpace(rest)
		switch {
		case key == "drm-pdev":
			c.device = rest
		case key == "drm-client-id":
			c.id = rest
		case strings.HasPrefix(key, "drm-resident-"):
			best[key[len("drm-resident-"):]] = size(rest)
		case strings.HasPrefix(key, "drm-memory-"), strings.HasPrefix(key, "drm-total-"):
			region := key[strings.LastIndexByte(key, '-')+1:]
			if _, known := best[region]; !known {
				best[region] = size(rest)
			}
		}
	}
	for region, n := range best {
		if (strings.HasPrefix(region, "vram") || strings.HasPrefix(region, "local")) && n > 0 && c.bytes <= 1<<62-n {
			c.bytes += n
		}
	}
	return c
}

// size reads "123 KiB"; without a unit it is bytes.
func size(text string) int64 {
	number, unit, _ := strings.Cut(text, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	shift := map[string]uint{"": 0, "KiB": 10, "MiB": 20, "GiB": 30}[strings.TrimSpace(unit)]
	if n > 1<<62>>shift {
		return 0
	}
	return n << shift
}
