package attach

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/probe/attach/image"
	"github.com/memgauge/memgauge/internal/probe/attach/ptrace"
)

// Target is a process that can be entered.
type Target struct {
	PID       int
	Inner     int    // its PID in its own PID namespace
	Exe       string // its program, as the kernel shows it
	Python    Version
	Library   string   // where the interpreter is: the program itself or libpython
	Force     bool     // enter it despite its seccomp filters
	Elsewhere []string // namespaces and root that are not ours: "mount namespace", …

	status      status
	held        error // why no thread of it can be borrowed; nil if one can
	readFilters bool  // its seccomp filters must be read, since they are unknown
	mem         *os.File
	maps        image.Maps
	python      *image.Image
	symbols     map[string]uint64
	gadgets     ptrace.Gadgets
	libc        string // names of the C library's files
	stackLimit  uint64 // of the main thread, in bytes
}

// Errors about targets, which callers and tests may want to distinguish. All carry a hint.
var (
	ErrNoProcess = errors.New("no such process")
	ErrZombie    = errors.New("it has ended")
	ErrNotPython = errors.New("it is not a CPython process")
	ErrVersion   = errors.New("this version of Python is not supported")
	ErrOwner     = errors.New("it belongs to another user")
	ErrForbidden = errors.New("the system forbids looking into it")
	ErrTraced    = errors.New("it is being traced")
	ErrMachine   = errors.New("it is built for another machine")
	ErrBuild     = errors.New("attaching takes machine code, which is written for x86-64 and aarch64 only")
	ErrStripped  = errors.New("its interpreter doesn't export what is needed")
	ErrSuspended = errors.New("it is stopped by a signal")
	ErrFiltered  = errors.New("it filters its system calls")
	ErrBorrowed  = errors.New("it shares its memory with its parent")
)

// step is one check of a target, in the order of the checks.
type step struct {
	name string
	ask  func(*Target) (string, error)
}

var steps = []step{
	{"process", (*Target).askProcess},
	{"owner", (*Target).askOwner},
	{"permission", (*Target).askPermission},
	{"machine", (*Target).askMachine},
	{"interpreter", (*Target).askInterpreter},
	{"C library", (*Target).askLibrary},
	{"threads", (*Target).askThreads},
	{"namespaces", (*Target).askNamespaces},
	{"seccomp", (*Target).askSeccomp},
}

// Inspect finds out what a process is, without stopping it. The target must be closed.
func Inspect(pid int) (*Target, error) { return inspect(&Target{PID: pid}) }

func inspect(t *Target) (*Target, error) {
	pid := t.PID
	for _, s := range steps {
		if _, err := s.ask(t); err != nil {
			t.Close()
			return nil, fmt.Errorf("process %d: %w", pid, err)
		}
	}
	return t, nil
}

// Close releases what Inspect has opened.
func (t *Target) Close() {
	if t.mem != nil {
		t.mem.Close()
		t.mem = nil
	}
}

func (t *Target) path(name string) string { return fmt.Sprintf("/proc/%d/%s", t.PID, name) }

func (t *Target) askProcess() (string, error) {
	s, err := readStatus(t.path("status"))
	if err != nil {
		return "", remedy.Add(ErrNoProcess, "memgauge list shows observed ones, pgrep -a python all that run Python")
	}
	if thisMachine == elf.EM_NONE {
		return "", remedy.Add(ErrBuild, "memgauge run observes a training from its start, on every machine")
	}
	t.status, t.PID, t.Inner = s, s.tgid, s.inner // of a thread's id, the process
	switch s.state {
	case 'Z', 'X':
		return "", remedy.Add(fmt.Errorf("%w (a zombie that its parent, %d, has not reaped)", ErrZombie, s.ppid),
			"memgauge list -a shows sessions that have ended")
	case 'T':
		return "", remedy.Add(ErrSuspended, fmt.Sprintf("kill -CONT %d lets it go on; then attach", t.PID))
	}
	t.Exe, err = os.Readlink(t.path("exe"))
	if errors.Is(err, unix.ENOENT) {
		return "", remedy.Add(fmt.Errorf("%w: it has no program (%s, a thread of the kernel)", ErrNotPython, s.name),
			"give the PID of a training process")
	}
	if borrowsMemory(t.PID, s.ppid) {
		return "", remedy.Add(fmt.Errorf("%w (between vfork and exec)", ErrBorrowed), "try again in a moment")
	}
	if s.threads == 1 {
		return s.name + ", 1 thread", nil
	}
	return fmt.Sprintf("%s, %d threads", s.name, s.threads), nil
}

// borrowsMemory reports whether a child runs in its parent's memory, as it does between vfork(2) and exec. Whatever is
// done to it would be done to the parent.
func borrowsMemory(pid, parent int) bool {
	const kcmpVM = 1
	same, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(pid), uintptr(parent), kcmpVM, 0, 0, 0)
	return errno == 0 && same == 0
}

func (t *Target) askOwner() (string, error) {
	me := os.Geteuid()
	if me != 0 && me != t.status.uid {
		return "", remedy.Add(fmt.Errorf("%w (uid %d, you are %d)", ErrOwner, t.status.uid, me),
			fmt.Sprintf("run memgauge as that user: sudo -u '#%d' memgauge …", t.status.uid))
	}
	return fmt.Sprintf("uid %d", t.status.uid), nil
}

// askThreads finds out whether a thread can be borrowed. If not, the interpreter's remote debugging may be available.
func (t *Target) askThreads() (string, error) {
	switch {
	case t.status.tracer != 0:
		who := "a process of another namespace"
		if s, err := readStatus(fmt.Sprintf("/proc/%d/status", t.status.tracer)); err == nil {
			who = fmt.Sprintf("%s, PID %d", s.name, s.tgid)
		}
		t.held = remedy.Add(fmt.Errorf("%w by %s", ErrTraced, who),
			"end that debugger, strace or profiler, or wait for it: a process has one tracer at a time")
	case strings.Contains(t.status.features, "shstk"): // rt_sigreturn then needs a token on the shadow stack
		t.held = remedy.Add(fmt.Errorf("%w: its threads have shadow stacks", ErrForbidden),
			"start it with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off, or with memgauge run")
	default:
		return "a thread can be borrowed", nil
	}
	if t.findDebugSupport() == nil {
		return "", t.held
	}
	return fmt.Sprintf("%v; CPython's remote debugging is open", t.held), nil
}

func (t *Target) askPermission() (string, error) {
	f, err := os.OpenFile(t.path("mem"), os.O_RDWR, 0)
	if err != nil {
		scope, _ := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
		return "", forbidden(strings.TrimSpace(string(scope)), os.Geteuid(), errors.Unwrap(err))
	}
	t.mem = f
	t.stackLimit = 8 << 20 // what is usual
	var limit unix.Rlimit
	if err := unix.Prlimit(t.PID, unix.RLIMIT_STACK, nil, &limit); err == nil {
		t.stackLimit = limit.Cur // all ones: no limit
	}
	return "its memory can be read and written", nil
}

// forbidden finds out why the kernel denied access (ptrace(2), "Ptrace access mode checking").
func forbidden(scope string, uid int, err error) error {
	err = fmt.Errorf("%w: %w", ErrForbidden, err)
	const start = "or start the training with memgauge run, which needs no permission"
	switch {
	case scope == "1":
		return remedy.Add(fmt.Errorf("%w (ptrace_scope is 1: only parents may look into their children)", err),
			"run memgauge as root, or sysctl kernel.yama.ptrace_scope=0, "+start)
	case scope == "2":
		return remedy.Add(fmt.Errorf("%w (ptrace_scope is 2: only root may)", err), "run memgauge as root, "+start)
	case scope == "3":
		return remedy.Add(fmt.Errorf("%w (ptrace_scope is 3: nobody may until the next boot)", err),
			"start the training with memgauge run, which needs no permission")
	case uid == 0:
		return remedy.Add(err, "give this container the capability SYS_PTRACE (docker run --cap-add SYS_PTRACE), "+
			start)
	}
	return remedy.Add(fmt.Errorf("%w (it has more privileges than you, or has made itself undumpable)", err),
		"run memgauge as root, "+start)
}

func (t *Target) askMachine() (string, error) {
	maps, err := t.readMaps()
	if err != nil {
		return "", err
	}
	t.maps = maps
	if len(maps) == 0 {
		return "", fmt.Errorf("%w: it has no memory", ErrNotPython)
	}
	for _, m := range maps {
		if m.Offset != 0 || m.Inode == 0 {
			continue
		}
		class, machine, err := image.Class(t.mem, m.Lo)
		if err != nil {
			continue
		}
		if class != elf.ELFCLASS64 || machine != thisMachine {
			return "", remedy.Add(fmt.Errorf("%w: %v, %v", ErrMachine, class, machine),
				"attaching is for 64-bit processes on "+machineName+"; memgauge run observes others")
		}
		return machineName, nil
	}
	return "", remedy.Add(ErrNotPython, "give the PID of a training process")
}

// mapReadings is how often a process's mappings are read. The kernel returns them page by page, so if the process maps
// memory meanwhile, the two halves don't fit together.
const mapReadings = 10

func (t *Target) readMaps() (image.Maps, error) {
	for n := 1; ; n++ {
		maps, err := t.readMapsOnce()
		if !errors.Is(err, image.ErrMalformed) || n == mapReadings {
			return maps, err
		}
	}
}

func (t *Target) readMapsOnce() (image.Maps, error) {
	f, err := os.Open(t.path("maps"))
	if err != nil {
		return nil, fmt.Errorf("read mappings: %w", err)
	}
	defer f.Close()
	maps, err := image.ReadMaps(f)
	if err != nil {
		return nil, fmt.Errorf("read mappings of process %d: %w", t.PID, err)
	}
	return maps, nil
}

func (t *Target) askLibrary() (string, error) {
	var found []string
	for _, im := range t.images(isLibc) {
		for _, f := range functions {
			if s, ok := im.Symbol(f.name); ok && f.libc {
				t.symbols[f.name] = s.Addr
			}
		}
	}
	for _, m := range t.maps {
		if !m.Executable() || !isLibc(m.Path) {
			continue
		}
		found = append(found, filepath.Base(m.Path))
		if t.gadgets.Sigreturn == 0 {
			t.findGadgets(m)
		}
	}
	if t.gadgets.Sigreturn == 0 {
		return "", remedy.Add(fmt.Errorf("%w: no C library that we know", ErrStripped),
			"start the training with memgauge run instead")
	}
	for _, f := range functions {
		if t.symbols[f.name] == 0 {
			return "", remedy.Add(fmt.Errorf("%w: %s", ErrStripped, f.name),
				"start the training with memgauge run instead, or use a Python that isn't stripped of its dynamic "+
					"symbols")
		}
	}
	t.libc = strings.Join(found, ", ")
	return t.libc, nil
}

// maxCode bounds the code that is searched for gadgets; glibc's is 1.4 MiB.
const maxCode = 8 << 20

func (t *Target) findGadgets(m image.Mapping) {
	code := make([]byte, min(m.Hi-m.Lo, maxCode))
	n, _ := t.mem.ReadAt(code, int64(m.Lo))
	g := ptrace.FindGadgets(m.Lo, code[:n])
	if at := t.handlersReturn(m); at != 0 {
		g.Sigreturn = at
	}
	if g.Sigreturn != 0 && g.Syscall != 0 {
		t.gadgets = g
	}
}

// isLibc recognises glibc (before 2.34 with threads in a library of their own), its loader, musl, and replacements of
// malloc.
func isLibc(path string) bool {
	name := filepath.Base(strings.TrimSuffix(path, " (deleted)"))
	for _, prefix := range []string{"libc.so", "libc-2.", "libpthread.so", "libpthread-2.", "ld-linux", "ld-2.",
		"ld-musl", "libc.musl"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return strings.Contains(name, "malloc.so") || strings.Contains(name, "asan.so") || strings.Contains(name, "tsan.so")
}

// images loads those whose path is wanted, and leaves out what can't be read.
func (t *Target) images(wanted func(string) bool) map[string]*image.Image {
	found := map[string]*image.Image{}
	for _, m := range t.maps {
		if m.Offset != 0 || m.Inode == 0 || found[m.Path] != nil || !wanted(m.Path) {
			continue
		}
		if im, err := image.Load(t.mem, m.Lo); err == nil {
			found[m.Path] = im
		}
	}
	return found
}

func (t *Target) askNamespaces() (string, error) {
	t.Elsewhere = nil
	for _, ns := range []struct{ file, name string }{{"mnt", "mount"}, {"pid", "PID"}, {"user", "user"},
		{"net", "network"}} {
		ours, err1 := os.Readlink("/proc/self/ns/" + ns.file)
		theirs, err2 := os.Readlink(t.path("ns/" + ns.file))
		if err1 == nil && err2 == nil && ours != theirs {
			t.Elsewhere = append(t.Elsewhere, ns.name+" namespace")
		}
	}
	ours, err1 := os.Stat("/")
	theirs, err2 := os.Stat(t.path("root") + "/.")
	if err1 == nil && err2 == nil && !os.SameFile(ours, theirs) {
		t.Elsewhere = append(t.Elsewhere, "root directory")
	}
	if len(t.Elsewhere) == 0 {
		return "as ours", nil
	}
	return "its own " + strings.Join(t.Elsewhere, ", "), nil
}
