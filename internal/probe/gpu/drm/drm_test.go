package drm

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/probe/gpu"
)

// machine is a tree after an MI250X under amdgpu and an Arc under xe, as their documents describe the files, with three
// processes: one on both GPUs, its fork with the same open file, and one that may not be looked into.
func machine(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	amd, intel := "sys/devices/pci0000:00/0000:03:00.0/", "sys/devices/pci0000:00/0000:04:00.0/"
	const amdInfo = "pos:\t0\nflags:\t02100002\ndrm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t41\n" +
		"drm-memory-vram:\t1048576 KiB\ndrm-memory-gtt:\t2048 KiB\n"
	const xeInfo = "drm-driver:\txe\ndrm-pdev:\t0000:04:00.0\ndrm-client-id:\t7\ndrm-total-vram0:\t3 GiB\n" +
		"drm-resident-vram0:\t2 GiB\ndrm-resident-gtt:\t5 MiB\n"
	for name, text := range map[string]string{
		amd + "vendor": "0x1002\n", amd + "mem_info_vram_total": "68702699520\n",
		amd + "mem_info_vram_used": "1703936000\n", amd + "gpu_busy_percent": "88\n",
		amd + "product_name": "AMD Instinct MI250X\n", amd + "unique_id": "abcdef\n",
		amd + "hwmon/hwmon3/temp1_input":    "45000\n",
		amd + "hwmon/hwmon3/power1_average": "230000000\n", amd + "hwmon/hwmon3/freq1_input": "1700000000\n",
		amd + "current_link_width": "16\n",
		amd + "ras/umc_err_count":  "ue: 1\nce: 22\n",
		intel + "vendor":           "0x8086\n", intel + "device": "0xe20b\n",
		intel + "tile0/physical_vram_size_bytes": "12884901888\n",
		"sys/class/drm/version":                  "x\n", "proc/10/fdinfo/5": amdInfo, "proc/10/fdinfo/6": xeInfo,
		"proc/10/fdinfo/7": "pos: 0\n", "proc/11/fdinfo/5": amdInfo,
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"sys/class/drm/card1/device": filepath.Join(root, amd), "sys/class/drm/card2/device": filepath.Join(root,
			intel),
		"proc/10/fd/5": "/dev/dri/renderD128", "proc/10/fd/6": "/dev/dri/renderD129", "proc/10/fd/7": "/dev/null",
		"proc/11/fd/5": "/dev/dri/renderD128",
	} {
		path := filepath.Join(root, link)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestAMDAndIntel(t *testing.T) {
	b := Open(machine(t), func() []int { return []int{12, 11, 10} })
	set := gpu.New(b)
	defer set.Close()
	var out model.Samples
	set.Sample(time.Unix(1, 0), func(pid int) bool { return pid == 10 }, &out)
	if len(out.GPUs) != 2 || len(out.Devices) != 2 {
		t.Fatalf("%+v", out)
	}
	a, i := out.GPUs[0], out.GPUs[1]
	if a.Name != "AMD Instinct MI250X" || a.Total != 68702699520 || a.Used != 1703936000 || a.Free != a.Total-a.Used ||
		a.GPUPct != 88 || a.Temperature != 45 ||
		a.PowerMW != 230_000 || a.SMClockMHz != 1700 || a.PCIeWidth != 16 || a.ECCCorrected != 22 ||
		a.ECCUncorrected != 1 || a.PowerLimitMW != model.Null {
		t.Errorf("%+v", a)
	}
	if i.Name != "intel 0xe20b" || i.Total != 12<<30 || i.Used != model.Null || i.GPUPct != model.Null {
		t.Errorf("%+v", i)
	}
	if d := out.Devices[0]; d.BusID != "0000:03:00.0" || d.UUID != "GPU-abcdef" || d.Vendor != "amd" || d.Unified {
		t.Errorf("%+v", d)
	}
	want := []model.GPUProcess{{Time: 1e6, Device: 0, PID: 10, Kind: "drm", Used: 1 << 30, InJob: true},
		{Time: 1e6, Device: 1, PID: 10, Kind: "drm", Used: 2 << 30, InJob: true}}
	if len(out.GPUProcs) != 2 || out.GPUProcs[0] != want[0] || out.GPUProcs[1] != want[1] {
		t.Errorf("%+v, want %+v", out.GPUProcs, want)
	}
}

func TestNoDevices(t *testing.T) {
	if b := Open(t.TempDir(), nil); len(b.Devices()) != 0 {
		t.Errorf("%d devices", len(b.Devices()))
	}
}

func FuzzFDInfo(f *testing.F) {
	f.Add([]byte("drm-pdev:\t0000:03:00.0\ndrm-client-id:\t41\ndrm-memory-vram:\t1048576 KiB\n"))
	f.Add([]byte("drm-resident-vram0: 9223372036854775807 GiB\ndrm-resident-local0: 9223372036854775807\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c := parseFDInfo(b); c.bytes < 0 {
			t.Fatalf("%+v", c)
		}
	})
}
