package attach

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/probe/attach/ptrace"
)

// made is a system call that attaching has the target make. Pointers and descriptors among its arguments are 0 here: a
// filter can't read what they refer to, and no known filter depends on their values.
type made struct {
	nr     int64
	name   string
	args   [6]uint64
	needed bool // an error from it ends the attach; the agent tolerates errors of all others
}

// askSeccomp finds out whether a seccomp(2) filter may kill the process for our system calls. Filters are inherited and
// can't be removed. If a process has as many as we have, they are its container's, and we run under them ourselves.
// Other filters are read before a thread is borrowed, if we may (root without filters of its own); see admits.
func (t *Target) askSeccomp() (string, error) {
	mine, err := readStatus("/proc/self/status")
	switch {
	case err != nil:
		return "", fmt.Errorf("read our own status: %w", err)
	case t.status.filters == 0:
		return "no filter", nil
	case t.Force:
		return "filters that are not known, and --force", nil
	case t.status.filters > 0 && t.status.filters <= mine.filters:
		return fmt.Sprintf("%d filters, as we have", t.status.filters), nil
	case t.status.filters > 0 && t.held == nil && os.Geteuid() == 0 && mine.filters == 0:
		t.readFilters = true
		return "filters, which are read before anything is done", nil
	}
	return "", filtered("one may kill it for what attaching needs: mmap of code, a thread, sockets")
}

// Unfiltered refuses a process that has seccomp filters of its own: one may kill it for what the agent is asked to do
// beyond attaching. The filters that it shares with us are its container's.
func Unfiltered(pid int) error {
	mine, err := readStatus("/proc/self/status")
	if err != nil {
		return fmt.Errorf("read our own status: %w", err)
	}
	s, err := readStatus(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return ErrNoProcess
	}
	if s.filters < 0 || s.filters > mine.filters {
		return filtered("one may kill it for process_vm_readv, by which it would read its own memory")
	}
	return nil
}

func filtered(why string) error {
	return remedy.Add(fmt.Errorf("%w (seccomp): %s", ErrFiltered, why),
		"start it with memgauge run, or, in a container whose filters refuse and don't kill, attach from inside of it "+
			"or with --force")
}

// admits evaluates the filters of a stopped thread for each system call that it, and the threads started from it, will
// make for us.
func (t *Target) admits(h *ptrace.Held) error {
	if !t.readFilters {
		return nil
	}
	filters, err := h.Filters()
	if err != nil {
		return filtered(fmt.Sprintf("what they do can't be read (%v)", err))
	}
	for _, c := range systemCallsMade {
		verdict, err := filterVerdict(filters, c)
		if err != nil {
			return filtered(err.Error())
		}
		if why := objection(verdict, c.needed); why != "" {
			return filtered(fmt.Sprintf("%s, which attaching needs, %s", c.name, why))
		}
	}
	return nil
}

// objection says why a verdict of the filters prevents an attach, or "" if it doesn't. If a supervisor decides about a
// call, the result is unknown. Without a tracer SECCOMP_RET_TRACE is ENOSYS.
func objection(verdict uint32, needed bool) string {
	switch verdict & unix.SECCOMP_RET_ACTION_FULL {
	case unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_LOG:
		return ""
	case unix.SECCOMP_RET_ERRNO, unix.SECCOMP_RET_TRACE:
		if needed {
			return "is refused to it"
		}
		return ""
	case unix.SECCOMP_RET_TRAP:
		return "is a signal (SIGSYS) to it"
	case unix.SECCOMP_RET_USER_NOTIF:
		return "is decided by another process"
	}
	return "kills it"
}

// filterVerdict returns the verdict of all filters together: the most severe counts (kernel/seccomp.c,
// seccomp_run_filters).
func filterVerdict(filters [][]unix.SockFilter, c made) (uint32, error) {
	data := callData(c)
	worst := uint32(unix.SECCOMP_RET_ALLOW)
	for _, f := range filters {
		verdict, err := runFilter(f, data)
		if err != nil {
			return 0, err
		}
		if severity(verdict) < severity(worst) {
			worst = verdict
		}
	}
	return worst, nil
}

// severity is lower for a worse verdict: read as a signed number, SECCOMP_RET_KILL_PROCESS is the lowest.
func severity(verdict uint32) int32 { return int32(verdict & unix.SECCOMP_RET_ACTION_FULL) }

// callData is what a filter reads: struct seccomp_data (linux/seccomp.h), with an instruction pointer of 0.
func callData(c made) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(c.nr))
	b = binary.LittleEndian.AppendUint32(b, auditArch)
	b = binary.LittleEndian.AppendUint64(b, 0)
	for _, a := range c.args {
		b = binary.LittleEndian.AppendUint64(b, a)
	}
	return b
}

// errProgram marks an instruction that the kernel accepts in no filter (kernel/seccomp.c, seccomp_check_filter).
var errProgram = errors.New("one of them is not a program that we know")

// machine is the state of a filter: two registers and 16 words (linux/filter.h, BPF_MEMWORDS).
type machine struct {
	a, x  uint32
	words [16]uint32
	data  []byte
}

// runFilter runs a classic BPF program over a call. Jumps lead forward only, so it ends.
func runFilter(program []unix.SockFilter, data []byte) (uint32, error) {
	m := machine{data: data}
	for pc := 0; pc < len(program); pc++ {
		i := program[pc]
		ok := true
		switch class := i.Code & 7; class {
		case unix.BPF_RET:
			if i.Code&unix.BPF_A != 0 {
				return m.a, nil
			}
			return i.K, nil
		case unix.BPF_JMP:
			pc += m.jump(i)
		case unix.BPF_ALU:
			ok = m.compute(i)
		default:
			ok = m.move(class, i)
		}
		if !ok {
			return 0, fmt.Errorf("%w (instruction %d: %#x)", errProgram, pc, i.Code)
		}
	}
	return 0, fmt.Errorf("%w (it does not return)", errProgram)
}

// operand returns the register x or the instruction's own number.
func (m *machine) operand(i unix.SockFilter) uint32 {
	if i.Code&unix.BPF_X != 0 {
		return m.x
	}
	return i.K
}

// jump returns how many instructions to skip.
func (m *machine) jump(i unix.SockFilter) int {
	v := m.operand(i)
	var yes bool
	switch i.Code & 0xf0 {
	case unix.BPF_JA:
		return int(i.K)
	case unix.BPF_JEQ:
		yes = m.a == v
	case unix.BPF_JGT:
		yes = m.a > v
	case unix.BPF_JGE:
		yes = m.a >= v
	case unix.BPF_JSET:
		yes = m.a&v != 0
	}
	if yes {
		return int(i.Jt)
	}
	return int(i.Jf)
}

func (m *machine) compute(i unix.SockFilter) bool {
	v := m.operand(i)
	switch i.Code & 0xf0 {
	case unix.BPF_ADD:
		m.a += v
	case unix.BPF_SUB:
		m.a -= v
	case unix.BPF_MUL:
		m.a *= v
	case unix.BPF_DIV:
		if v == 0 {
			return false
		}
		m.a /= v
	case unix.BPF_AND:
		m.a &= v
	case unix.BPF_OR:
		m.a |= v
	case unix.BPF_XOR:
		m.a ^= v
	case unix.BPF_LSH:
		m.a <<= v & 31
	case unix.BPF_RSH:
		m.a >>= v & 31
	case unix.BPF_NEG:
		m.a = -m.a
	default:
		return false
	}
	return true
}

// move does loads, stores and copies between the registers.
func (m *machine) move(class uint16, i unix.SockFilter) bool {
	switch class {
	case unix.BPF_MISC:
		if i.Code&unix.BPF_TXA != 0 {
			m.a = m.x
		} else {
			m.x = m.a
		}
		return true
	case unix.BPF_ST, unix.BPF_STX:
		if i.K >= uint32(len(m.words)) {
			return false
		}
		m.words[i.K] = m.a
		if class == unix.BPF_STX {
			m.words[i.K] = m.x
		}
		return true
	}
	v, ok := m.load(i)
	if class == unix.BPF_LDX {
		m.x = v
	} else {
		m.a = v
	}
	return ok
}

func (m *machine) load(i unix.SockFilter) (uint32, bool) {
	switch i.Code & 0xe0 {
	case unix.BPF_IMM:
		return i.K, true
	case unix.BPF_ABS:
		if i.K%4 != 0 || uint64(i.K)+4 > uint64(len(m.data)) {
			return 0, false
		}
		return binary.LittleEndian.Uint32(m.data[i.K:]), true
	case unix.BPF_MEM:
		if i.K >= uint32(len(m.words)) {
			return 0, false
		}
		return m.words[i.K], true
	case unix.BPF_LEN:
		return uint32(len(m.data)), true
	}
	return 0, false
}
