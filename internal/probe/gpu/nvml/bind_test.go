package nvml

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	lib "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/memgauge/memgauge/test/env"
)

// driver is a library of a driver that has few functions.
const driver = `
#include <string.h>
typedef struct { unsigned long long total, free, used; } memory;
static int inits;
int nvmlInit_v2(void) { inits++; return 0; }
int nvmlShutdown(void) { inits--; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return inits == 1 ? 0 : 1; }
int nvmlSystemGetDriverVersion(char *text, unsigned length) { strncpy(text, "580.95", length); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device)
{ *device = (void *)(long)(i + 1); return 0; }
int nvmlDeviceGetMemoryInfo(void *device, memory *m) { m->total = 1000 * (long)device; m->used = 7; return 0; }
int nvmlEventSetWait_v2(void *a, void *b, unsigned c) { return 0; }
`

// TestBind: functions that the driver's library has are called with their arguments; one that it lacks returns an
// error, where the loader would have ended the process.
func TestBind(t *testing.T) {
	cc := env.Program(t, "cc")
	dir := t.TempDir()
	source, path := filepath.Join(dir, "driver.c"), filepath.Join(dir, "libfake.so")
	if err := os.WriteFile(source, []byte(driver), 0o600); err != nil {
		t.Fatal(err)
	}
	compile := exec.CommandContext(t.Context(), cc, "-shared", "-fPIC", "-o", path, source)
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	bind(filepath.Join(dir, "none.so")) // changes nothing
	bind(path)
	api := lib.New(lib.WithLibraryPath(path))
	if ret := api.Init(); ret != lib.SUCCESS {
		t.Fatal(ret)
	}
	defer api.Shutdown()
	if n, ret := api.DeviceGetCount(); ret != lib.SUCCESS || n != 2 {
		t.Errorf("%d devices, %v", n, int(ret))
	}
	if v, ret := api.SystemGetDriverVersion(); ret != lib.SUCCESS || v != "580.95" {
		t.Errorf("driver %q, %v", v, int(ret))
	}
	d, ret := api.DeviceGetHandleByIndex(1)
	if ret != lib.SUCCESS {
		t.Fatal(int(ret))
	}
	if m, ret := d.GetMemoryInfo(); ret != lib.SUCCESS || m.Total != 2000 || m.Used != 7 {
		t.Errorf("memory %+v, %v", m, int(ret))
	}
	if _, ret := d.GetUUID(); ret != lib.ERROR_FUNCTION_NOT_FOUND {
		t.Errorf("a function that the library lacks returned %v", int(ret))
	}
}
