package monitor

import (
	"fmt"
	"strings"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/judge/fragment"
)

// AllocatorVariables are the environment variables that advice on fragmentation is about: settings that are made
// already are not advised.
var AllocatorVariables = []string{"MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "LD_PRELOAD", "PYTORCH_CUDA_ALLOC_CONF",
	"PYTORCH_ALLOC_CONF"}

// given says which part of the holes no longer costs anything.
func given(s *fragment.State) string {
	if s.Absent < 1<<20 {
		return ""
	}
	return fmt.Sprintf("; %s of that are lost now, the rest was given back to the kernel", units.Bytes(s.Lost()))
}

// fragmentAdvice says what remains to be done about a device that loses memory in holes.
func fragmentAdvice(d Device, l *Look) []string {
	s := l.Sum()
	if d.ID == Host {
		return l.hostAdvice(&s)
	}
	var out []string
	if l.all(func(env map[string]string) bool {
		return strings.Contains(env["PYTORCH_CUDA_ALLOC_CONF"]+","+env["PYTORCH_ALLOC_CONF"],
			"expandable_segments:True")
	}) {
		out = append(out,
			fmt.Sprintf("torch.cuda.empty_cache() between phases gives back what lies in whole free segments, now %s",
				units.Bytes(s.Spare)))
	} else {
		out = append(out, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True removes most holes")
	}
	if s.Unfit() {
		out = append(out,
			fmt.Sprintf("the largest request, %s, fits into no hole: expect an OutOfMemoryError while %s are free",
				units.Bytes(s.LargestRequest), units.Bytes(s.Holes.Bytes)))
	}
	return out
}

func (l *Look) hostAdvice(s *fragment.State) []string {
	var out []string
	if s.Reclaimable > s.Lost()/10 {
		out = append(out, fmt.Sprintf("malloc_trim(0) in the trainer gives back up to %s", units.Bytes(s.Reclaimable)))
	}
	const arenas, other = "MALLOC_ARENA_MAX=2", "LD_PRELOAD=libjemalloc.so.2"
	fewArenas := l.all(func(env map[string]string) bool {
		return env["MALLOC_ARENA_MAX"] != "" || strings.Contains(env["GLIBC_TUNABLES"], "glibc.malloc.arena_max")
	})
	replaced := l.all(func(env map[string]string) bool {
		for _, name := range []string{"jemalloc", "tcmalloc", "mimalloc"} {
			if strings.Contains(env["LD_PRELOAD"], name) {
				return true
			}
		}
		return false
	})
	switch {
	case !fewArenas && !replaced:
		out = append(out, arenas+", or "+other+", keeps a heap from scattering")
	case !replaced:
		out = append(out, "the number of arenas is bounded already; "+other+" keeps a heap from scattering")
	case len(out) == 0:
		out = append(out,
			"what lasts lies between what comes and goes: allocate what lasts first, or in a process of its own")
	}
	return out
}

// all reports whether something holds for every process's environment, as far as it is known.
func (l *Look) all(holds func(env map[string]string) bool) bool {
	for _, a := range l.Of {
		if !holds(a.Env) {
			return false
		}
	}
	return len(l.Of) > 0
}
