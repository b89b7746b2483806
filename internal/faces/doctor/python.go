package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// pythonLimit: importing torch takes 2 s from a warm disk, and half a minute over a cold network.
const pythonLimit = 90 * time.Second

// packages whose versions are reported: those that trainings use.
var packages = []string{"torch", "numpy", "torchvision", "lightning", "pytorch_lightning", "transformers", "accelerate",
	"deepspeed"}

// The script finds versions without importing anything but torch.
const pythonScript = `
import sys
if sys.path and sys.path[0] == "":  # of -c: the working directory, where anybody may have put a json.py
    del sys.path[0]
import json
out = {"version": sys.version.split()[0], "implementation": sys.implementation.name,
       "executable": sys.executable, "packages": {}}
try:
    from importlib.metadata import version
    for name in sys.argv[1:]:
        try:
            out["packages"][name] = version(name)
        except Exception:
            pass
except ImportError:
    pass
try:
    import torch
    out["torch"] = torch.__version__
    out["cuda"] = torch.version.cuda or ""
    out["available"] = bool(torch.cuda.is_available())
    out["devices"] = torch.cuda.device_count() if out["available"] else 0
except Exception as e:
    out["error"] = "%s: %s" % (type(e).__name__, e)
print(json.dumps(out))
`

type pythonFacts struct {
	Version, Implementation, Executable, Torch, CUDA, Error string
	Packages                                                map[string]string
	Available                                               bool
	Devices                                                 int
}

// python starts the interpreter that a training here would use.
func (m Machine) python(ctx context.Context) []Check {
	name := m.Python
	if name == "" {
		name = "python3"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return []Check{{"Python", Absent, name + " is not found",
			"activate the environment of the training, or give its interpreter: memgauge doctor --python PATH"}}
	}
	facts, err := askPython(ctx, path)
	if err != nil {
		return []Check{{"Python", Broken, fmt.Sprintf("%s: %v", path, err), "see whether it starts by itself"}}
	}
	return facts.checks(path)
}

func askPython(ctx context.Context, path string) (f pythonFacts, err error) {
	ctx, cancel := context.WithTimeout(ctx, pythonLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, append([]string{"-c", pythonScript}, packages...)...)
	cmd.Env = append(os.Environ(), "MEMGAUGE_DISABLE=1")
	cmd.WaitDelay = time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return f, fmt.Errorf("no answer within %s", pythonLimit)
	}
	if err != nil {
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return f, fmt.Errorf("%w: %s", err, lines[len(lines)-1])
	}
	last := out[bytes.LastIndexByte(bytes.TrimSpace(out), '\n')+1:] // libraries may print while they are imported
	if err := json.Unmarshal(last, &f); err != nil {
		return f, errors.New("its answer makes no sense: " + string(last[:min(len(last), 100)]))
	}
	return f, nil
}

func (f pythonFacts) checks(path string) []Check {
	py := Check{"Python", Works, fmt.Sprintf("%s %s, %s", f.Implementation, f.Version, path), ""}
	var major, minor int
	_, _ = fmt.Sscanf(f.Version, "%d.%d", &major, &minor) // 0.0 if it is no version
	switch {
	case f.Implementation != "cpython":
		py.State, py.Hint = Limited, "the agent is made for CPython: memory is then seen from outside alone"
	case major != 3 || minor < 8:
		py.State, py.Hint = Limited, "the agent needs CPython 3.8 or later: memory is then seen from outside alone"
	}
	torch := Check{"PyTorch", Works, f.Torch, ""}
	switch {
	case f.Torch == "" && strings.HasPrefix(f.Error, "ModuleNotFoundError"):
		torch.State, torch.Found = Absent, "not installed for this Python"
		torch.Hint = "activate the environment of the training, or give its interpreter: memgauge doctor --python PATH"
	case f.Torch == "":
		torch.State, torch.Found, torch.Hint = Limited, f.Error, "it is installed and can't be imported"
	case f.CUDA == "":
		torch.Found += ", built for the CPU"
	case f.Available:
		torch.Found += fmt.Sprintf(", CUDA %s, %d devices", f.CUDA, f.Devices)
	default:
		torch.State = Limited
		torch.Found += ", CUDA " + f.CUDA + ", which finds no device"
		torch.Hint = "see the line on NVIDIA GPUs; a driver older than the CUDA version is the usual cause"
	}
	var list []string
	for _, p := range packages[1:] {
		if v := f.Packages[p]; v != "" {
			list = append(list, p+" "+v)
		}
	}
	others := Check{"packages", Works, strings.Join(list, ", "), ""}
	if len(list) == 0 {
		others.State, others.Found = Absent, "none of "+strings.Join(packages[1:], ", ")
	}
	return []Check{py, torch, others}
}
