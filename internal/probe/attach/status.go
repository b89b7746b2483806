package attach

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// maxStatus bounds a status file; with all fields at their longest it has 3 KiB, and supplementary groups may add 640
// KiB.
const maxStatus = 1 << 20

// status is what matters here of /proc/PID/status.
type status struct {
	name     string
	state    byte // R, S, D, T (stopped), t (traced), Z, X
	tgid     int
	ppid     int
	tracer   int
	uid      int // effective
	fsuid    int // for files, as the kernel shows it in our user namespace; -1 if unknown
	fsgid    int
	groups   []int // supplementary
	inner    int   // the PID in the process's own PID namespace
	threads  int
	caught   uint64 // signals with a handler
	features string // such as "shstk wrss"
	filters  int    // seccomp filters; -1 in strict mode
	nested   bool   // it has a PID namespace of its own
}

func readStatus(path string) (status, error) {
	f, err := os.Open(path)
	if err != nil {
		return status{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxStatus))
	if err != nil {
		return status{}, fmt.Errorf("read %s: %w", path, err)
	}
	return parseStatus(string(text)), nil
}

// parseStatus parses the fields that exist; which do depends on the kernel.
func parseStatus(text string) status {
	s := status{fsuid: -1, fsgid: -1}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		f := strings.Fields(value)
		if len(f) == 0 {
			continue
		}
		switch key {
		case "Name":
			s.name = strings.TrimSpace(value)
		case "State":
			s.state = f[0][0]
		case "Tgid":
			s.tgid, _ = strconv.Atoi(f[0])
		case "PPid":
			s.ppid, _ = strconv.Atoi(f[0])
		case "TracerPid":
			s.tracer, _ = strconv.Atoi(f[0])
		case "Threads":
			s.threads, _ = strconv.Atoi(f[0])
		case "Uid":
			if len(f) > 1 {
				s.uid, _ = strconv.Atoi(f[1])
				s.fsuid = number(f[len(f)-1])
			}
		case "Gid":
			s.fsgid = number(f[len(f)-1])
		case "Groups":
			for _, id := range f {
				s.groups = append(s.groups, number(id))
			}
		case "NStgid":
			s.inner, _ = strconv.Atoi(f[len(f)-1])
			s.nested = len(f) > 1
		case "Seccomp": // 0 none, 1 strict, 2 filters (proc(5)); their number follows, from Linux 5.9 on
			s.filters = map[string]int{"1": -1, "2": 1}[f[0]]
		case "Seccomp_filters":
			if n, err := strconv.Atoi(f[0]); err == nil && s.filters >= 0 {
				s.filters = n
			}
		case "SigCgt":
			s.caught, _ = strconv.ParseUint(f[0], 16, 64)
		case "x86_Thread_features":
			s.features = strings.Join(f, " ")
		}
	}
	if s.inner == 0 {
		s.inner = s.tgid // kernels before 4.1
	}
	return s
}

// number is -1 for what is none.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}
