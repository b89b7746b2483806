// Package gpukit tests the kit that runs memgauge on a real GPU, as far as it can be run without one, and the binary as
// make builds it against the answers of a real driver.
package gpukit

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// recorded is what NVML answered on an H100 (check nvml of kit.py): by function, its code and the bytes of its answer.
type recorded map[string]struct {
	Code   int
	Count  int
	Answer string
}

// Functions of NVML whose answer is not their second argument, or that kit.py does not record.
const others = `
#include <string.h>
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { *h = (void *)8; return i; }
int nvmlSystemGetDriverVersion(char *b, unsigned n) { strcpy(b, "580.159.04"); return 0; }
int nvmlSystemGetCudaDriverVersion(int *v) { *v = 13000; return 0; }
int nvmlDeviceGetTemperature(void *h, int what, unsigned *t) { *t = 37; return 0; }
int nvmlDeviceGetClockInfo(void *h, int what, unsigned *mhz) { *mhz = 1980; return 0; }
`

// library compiles a libnvidia-ml.so.1 that gives the recorded answers, and returns its directory.
func library(t *testing.T) string {
	text, err := os.ReadFile("testdata/nvml-h100.json")
	if err != nil {
		t.Fatal(err)
	}
	var answers recorded
	if err := json.Unmarshal(text, &answers); err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	code.WriteString(others)
	for name, a := range answers {
		raw, err := hex.DecodeString(a.Answer)
		if err != nil {
			t.Fatal(err)
		}
		bytes := strings.Trim(strings.ReplaceAll(fmt.Sprint(raw), " ", ","), "[]")
		switch {
		case strings.Contains(name, "RunningProcesses"):
			fmt.Fprintf(&code, "int %s(void *h, unsigned *n, void *list) { *n = %d; return %d; }\n", name, a.Count,
				a.Code)
		case name == "nvmlDeviceGetMigMode":
			fmt.Fprintf(&code, "int %s(void *h, unsigned *now, unsigned *next) { *now = *next = %d; return %d; }\n",
				name, raw[0], a.Code)
		default:
			fmt.Fprintf(&code, "int %s(void *h, void *to) { static const unsigned char from[] = {%s}; "+
				"memcpy(to, from, sizeof from); return %d; }\n", name, bytes, a.Code)
		}
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "nvml.c")
	if err := os.WriteFile(source, []byte(code.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, nil, "cc", "-shared", "-fPIC", "-w", "-o", filepath.Join(dir, "libnvidia-ml.so.1"), source)
	return dir
}

func command(t *testing.T, extra []string, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	c.Env = append(os.Environ(), extra...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// built is the command as make builds it: what matters here is how it is linked.
func built(t *testing.T) string {
	t.Helper()
	command(t, nil, "make", "-s", "-C", env.Checkout(), "build")
	return filepath.Join(env.Checkout(), "bin", "memgauge")
}

// TestRealAnswers: the command that make builds loads a driver's library and shows the GPU. Linked without NVML's names
// in its table of symbols, its first call into a real library went to address 0.
func TestRealAnswers(t *testing.T) {
	home := "MEMGAUGE_HOME=" + t.TempDir()
	path, memgauge := "LD_LIBRARY_PATH="+library(t), built(t)
	frame := command(t, []string{path, home}, memgauge, "top", "--once", "--width", "100", "--height", "24")
	for _, line := range strings.Split(frame, "\n") {
		if strings.Contains(line, "of 79.6 GiB") {
			frame = ""
			if !strings.Contains(line, "%") || !strings.Contains(line, "37 °C") {
				t.Errorf("top's line of the GPU: %s", line)
			}
		}
	}
	if frame != "" {
		t.Errorf("top has no bar for the GPU:\n%s", frame)
	}
	out := command(t, []string{path, home}, memgauge, "doctor")
	for _, want := range []string{"driver 580.159.04, CUDA up to 13.0", "0 NVIDIA H100 80GB HBM3", "79.6 GiB"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestDry runs the kit's checks that need no GPU.
func TestDry(t *testing.T) {
	env.Long(t, "the whole kit as it runs on a machine with a GPU, its trainings included")
	python, dir := env.Torch(t).Path, t.TempDir()
	memgauge := built(t)
	library := filepath.Join(filepath.Dir(memgauge), "libmemgauge_alloc.so")
	kit := filepath.Join(dir, "memgauge-gpu-kit")
	command(t, []string{"MEMGAUGE_KIT_PACK=0"}, "./build.sh", memgauge, library, dir)
	out := command(t, nil, python, filepath.Join(kit, "kit.py"), "--dry", "--out", filepath.Join(dir, "out"), "--only",
		"machine,nvml,leak_on_device,attached,oom,fragments,driver")
	if !strings.Contains(out, "7 checks, 0 failed, 2 skipped") {
		t.Error(out)
	}
}
