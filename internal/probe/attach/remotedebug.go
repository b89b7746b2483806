package attach

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/remedy"
)

// debugSupport has the addresses in the target through which a debugger makes CPython 3.14 and newer run a script (PEP
// 768; _PyRemoteDebuggerSupport in Include/cpython/pystate.h).
type debugSupport struct {
	breaker uint64 // of the main thread: bits that it checks between bytecodes
	pending uint64 // int32: a script is waiting
	path    uint64 // its name, debugPath bytes
}

const (
	debugCookie = "xdebugpy"
	debugPath   = 512  // _Py_MAX_SCRIPT_PATH_SIZE, Include/cpython/pystate.h
	pleaseStop  = 0x20 // _PY_EVAL_PLEASE_STOP_BIT, Include/internal/pycore_ceval.h
	debugWords  = 256  // of _Py_DebugOffsets, which has 107 in 3.15
)

// The table of offsets at the beginning of _PyRuntime (Include/internal/pycore_debug_offsets.h): places that 3.14 and
// 3.15 share, counted in words. The last six describe debugSupport. The table's length differs, so they are found by
// the values that they must have.
const (
	wordFree        = 2
	wordInterpreter = 5
	wordMainThread  = 10
)

// findDebugSupport returns nil if the target has none, if it is disabled (-X disable-remote-debug), or if its form is
// unknown.
func (t *Target) findDebugSupport() *debugSupport {
	s, ok := t.python.Symbol("_PyRuntime")
	if !ok || t.Python.Minor < 14 {
		return nil
	}
	var raw [debugWords * 8]byte
	if _, err := t.mem.ReadAt(raw[:], int64(s.Addr)); err != nil || string(raw[:8]) != debugCookie {
		return nil
	}
	w := make([]uint64, debugWords)
	for i := range w {
		w[i] = binary.LittleEndian.Uint64(raw[8*i:])
	}
	end := debugSupportEnd(w)
	if end == 0 || w[wordFree] != 0 {
		return nil
	}
	breaker, support, enabled := w[end-5], w[end-4], w[end-3]
	interpreter := t.pointer(s.Addr + w[wordInterpreter])
	thread := t.pointer(interpreter + w[wordMainThread])
	if interpreter == 0 || thread == 0 || !t.isMain(thread, support) || uint32(t.pointer(interpreter+enabled)) != 1 {
		return nil
	}
	return &debugSupport{thread + breaker, thread + support + w[end-2], thread + support + w[end-1]}
}

// debugSupportEnd finds the word that contains the maximum length of a script's name. Before it come the offset of the
// name, 4 bytes after the flag, and that of the flag.
func debugSupportEnd(w []uint64) int {
	for i := 2*wordMainThread + 5; i < len(w); i++ {
		if w[i] == debugPath && w[i-1] == 4 && w[i-2] == 0 && w[i-5] < 1<<10 && w[i-4] < 1<<12 && w[i-3] < 1<<20 {
			return i
		}
	}
	return 0
}

// isMain checks the main thread's number at its place in a thread state, before the debugger's part.
func (t *Target) isMain(thread, support uint64) bool {
	b := make([]byte, min(support, 1<<12)&^7)
	if _, err := t.mem.ReadAt(b, int64(thread)); err != nil {
		return false
	}
	for ; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b) == uint64(t.Inner) {
			return true
		}
	}
	return false
}

func (t *Target) pointer(at uint64) uint64 {
	var b [8]byte
	if at >= 1<<48 {
		return 0
	}
	if _, err := t.mem.ReadAt(b[:], int64(at)); err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b[:])
}

// script is what the interpreter finds in the file. It first claims its turn, so that it can be cancelled, and leaves
// the work to a thread. It never raises.
const script = `
def begin(folder, pid):
    import time, posix, _thread
    began = time.monotonic_ns()
    if posix.getpid() != pid:
        return
    try:
        posix.close(posix.open(folder + '/claim', posix.O_CREAT | posix.O_EXCL | posix.O_WRONLY, 0o600))
    except OSError:
        return
    took = 0
    def work():
        try:
            import _signal
            _signal.pthread_sigmask(2, _signal.valid_signals())
            space = {}
            exec(%s, space)
            text = space['out']
        except BaseException as e:
            text = b'e' + repr(e).encode('ascii', 'replace')
        try:
            fd = posix.open(folder + '/part', posix.O_CREAT | posix.O_EXCL | posix.O_WRONLY, 0o600)
            text = b'%%d ' %% took + text
            while text:
                text = text[posix.write(fd, text):]
            posix.close(fd)
            posix.rename(folder + '/part', folder + '/out')
            for _ in range(400):
                posix.stat(folder)
                time.sleep(0.005)
            for name in ('out', 'claim', 'run.py'):
                posix.unlink(folder + '/' + name)
            posix.rmdir(folder)
        except OSError:
            pass
    try:
        _thread.start_new_thread(work, ())
        took = time.monotonic_ns() - began
    except RuntimeError:
        pass
try:
    begin(%s, %d)
except KeyboardInterrupt: # for the program, which shall see it
    import _thread
    _thread.interrupt_main()
except Exception:
    pass
`

// errNoRemoteDebug means that this way isn't available; nothing has been done.
var errNoRemoteDebug = errors.New("CPython's remote debugging can't be used")

// viaRemoteDebug gives the interpreter a script in a file that only the target's user can read. Like CPython's own
// implementation (Python/remote_debugging.c, send_exec_to_proc_handle), it does not stop the target. It is used only
// for targets whose threads can't be borrowed: a Ctrl-C that arrives while the interpreter reads the script is reported
// as the script's error, and the program never sees it.
func (i *injection) viaRemoteDebug(ctx context.Context) (Result, error) {
	i.result.Way, i.result.Doing = RemoteDebug, i.doing
	d := i.findDebugSupport()
	if d == nil {
		return i.result, remedy.Add(fmt.Errorf("process %d: CPython %v: %w", i.PID, i.Python, errNoRemoteDebug),
			"it needs 3.14, and is shut by -X disable-remote-debug and PYTHON_DISABLE_REMOTE_DEBUG")
	}
	f, err := newFolder(i.PID)
	if err != nil {
		return i.result, fmt.Errorf("process %d: %w: %w", i.PID, errNoRemoteDebug, err)
	}
	defer f.remove()
	if err := i.requestScript(d, f); err != nil {
		return i.result, fmt.Errorf("process %d: %w: %w", i.PID, errNoRemoteDebug, err)
	}
	out, err := i.awaitScript(ctx, d, f)
	if err == nil {
		i.result.Value, err = unwrap(out)
	}
	return i.result, err
}

// requestScript writes the script, and then the words that make the interpreter read it.
func (i *injection) requestScript(d *debugSupport, f *folder) error {
	program, err := pythonString(i.source)
	if err != nil {
		return err
	}
	name, err := pythonString(f.path)
	if err != nil {
		return err
	}
	if err := f.fill("run.py", fmt.Sprintf(script, program, name, i.Inner)); err != nil {
		return err
	}
	if uint32(i.pointer(d.pending)) != 0 {
		return errors.New("another debugger's script waits")
	}
	for _, w := range []struct {
		at   uint64
		data []byte
	}{
		{d.path, append([]byte(f.path+"/run.py"), 0)},
		{d.pending, []byte{1, 0, 0, 0}},
		{d.breaker, []byte{byte(i.pointer(d.breaker)) | pleaseStop}},
	} {
		if _, err := i.mem.WriteAt(w.data, int64(w.at)); err != nil {
			return err
		}
	}
	return nil
}

// awaitScript waits for the script's end, and cancels it if it has not begun in time.
func (i *injection) awaitScript(ctx context.Context, d *debugSupport, f *folder) ([]byte, error) {
	for look := minLook; ; look = min(look*5/4, maxLook) {
		if text, err := f.read("out"); err == nil {
			ns, out, _ := strings.Cut(text, " ")
			took, _ := strconv.ParseInt(ns, 10, 64)
			i.result.Stopped += time.Duration(took)
			return []byte(out), nil
		}
		if s, err := readStatus(i.path("status")); err != nil || s.state == 'Z' {
			return nil, i.lost(unix.ESRCH)
		}
		select {
		case <-ctx.Done():
			if f.fill("claim", "") != nil {
				f.keep = true // the script has begun: its own thread removes the folder
				return nil, remedy.Add(fmt.Errorf("%w: process %d", ErrRunning, i.PID),
					"give it more time with --timeout")
			}
			_, _ = i.mem.WriteAt([]byte{0, 0, 0, 0}, int64(d.pending))
			// the interpreter may be about to open the file: it must still find it, and then finds the claim
			time.Sleep(maxLook)
			return nil, i.tooLate(ctx)
		case <-time.After(look):
		}
	}
}
