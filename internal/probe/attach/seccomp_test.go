package attach

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/test/env"
)

// TestSeccomp attaches to a program whose filters allow what attaching needs. A program whose filters kill for it, or
// refuse what is indispensable, is refused with the reason, and continues.
func TestSeccomp(t *testing.T) {
	env.Root(t)
	for _, c := range []struct{ filter, refused string }{
		{"allow", ""},
		{"kill", "mmap of code, which attaching needs, kills it"},
		{"trap", "mmap of code, which attaching needs, is a signal (SIGSYS) to it"},
		{"errno", "mmap of code, which attaching needs, is refused to it"},
		{fmt.Sprint("kill ", unix.SYS_REBOOT), ""},
		{fmt.Sprint("absent ", unix.SYS_CLONE3), ""}, // as in containers: the C library then takes clone
		{fmt.Sprint("kill ", unix.SYS_LISTEN), "listen, which attaching needs, kills it"},
		{fmt.Sprint("errno ", unix.SYS_LISTEN), ""},
	} {
		t.Run(c.filter, func(t *testing.T) {
			python := env.Python{Path: env.Program(t, "python3")}
			p := start(t, python, append([]string{"testdata/seccomp.py"}, strings.Fields(c.filter)...)...)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			r, err := Inject(ctx, p.Process.Pid, "result = 'here'", Options{Timeout: time.Minute})
			if c.refused == "" && (err != nil || r.Value != "here") {
				t.Errorf("%+v, %v", r, err)
			}
			told := errors.Is(err, ErrFiltered) && strings.Contains(err.Error(), c.refused) && remedy.Of(err) != ""
			if c.refused != "" && !told {
				t.Errorf("%+v, %v, want %q", r, err, c.refused)
			}
			if got := answer(t, p); got != "alive" {
				t.Errorf("it says %q", got)
			}
		})
	}
}

// TestSeccompForced attaches without checking the program's filters, at the user's risk.
func TestSeccompForced(t *testing.T) {
	p := start(t, env.Python{Path: env.Program(t, "python3")}, "testdata/seccomp.py", "kill",
		fmt.Sprint(unix.SYS_LISTEN))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := Unfiltered(p.Process.Pid); !errors.Is(err, ErrFiltered) || remedy.Of(err) == "" {
		t.Errorf("it has filters of its own: %v", err)
	}
	r, err := Inject(ctx, p.Process.Pid, "result = 'here'", Options{Force: true, Timeout: time.Minute})
	if err != nil || r.Value != "here" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestFilterPrograms runs filters with every kind of instruction over a call.
func TestFilterPrograms(t *testing.T) {
	const (
		load, imm, loadX = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_LD | unix.BPF_IMM,
			unix.BPF_LDX | unix.BPF_IMM
		give, ret = unix.BPF_RET | unix.BPF_A, unix.BPF_RET | unix.BPF_K
		alu, x    = unix.BPF_ALU, unix.BPF_X
	)
	op := func(code int, k uint32) unix.SockFilter { return unix.SockFilter{Code: uint16(code), K: k} }
	branch := func(kind int, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: uint16(unix.BPF_JMP | kind), Jt: yes, Jf: no, K: k}
	}
	data := callData(made{nr: 9, args: [6]uint64{0x1111111122222222, 7}})
	for _, c := range []struct {
		name    string
		program []unix.SockFilter
		want    uint32
	}{
		{"number", []unix.SockFilter{op(load, 0), op(give, 0)}, 9},
		{"machine", []unix.SockFilter{op(load, 4), op(give, 0)}, auditArch},
		{"first argument", []unix.SockFilter{op(load, 16), op(give, 0)}, 0x22222222},
		{"its high half", []unix.SockFilter{op(load, 20), op(give, 0)}, 0x11111111},
		{"length", []unix.SockFilter{op(unix.BPF_LD|unix.BPF_W|unix.BPF_LEN, 0), op(give, 0)}, 64},
		{"jumps", []unix.SockFilter{op(imm, 5), branch(unix.BPF_JGT, 5, 4, 0), branch(unix.BPF_JGE, 5, 0, 3),
			branch(unix.BPF_JSET, 2, 2, 0), op(unix.BPF_JMP|unix.BPF_JA, 0), op(ret, 1), op(ret, 2)}, 1},
		{"arithmetic", []unix.SockFilter{op(imm, 10), op(loadX, 3), op(alu|unix.BPF_MUL|x, 0), op(alu|unix.BPF_SUB, 2),
			op(alu|unix.BPF_DIV, 4), op(alu|unix.BPF_LSH, 4), op(alu|unix.BPF_OR, 1), op(alu|unix.BPF_XOR, 3),
			op(alu|unix.BPF_AND, 0xfe), op(alu|unix.BPF_RSH, 1), op(alu|unix.BPF_ADD|x, 0), op(alu|unix.BPF_NEG, 0),
			op(give, 0)}, ^uint32(60) + 1},
		{"words", []unix.SockFilter{op(imm, 4), op(unix.BPF_ST, 15), op(loadX, 6), op(unix.BPF_STX, 0),
			op(unix.BPF_MISC|unix.BPF_TXA, 0), op(unix.BPF_LDX|unix.BPF_MEM, 15), op(alu|unix.BPF_ADD|x, 0),
			op(unix.BPF_MISC|unix.BPF_TAX, 0), op(unix.BPF_LD|unix.BPF_MEM, 0), op(alu|unix.BPF_ADD|x, 0), op(give, 0)},
			16},
	} {
		if got, err := runFilter(c.program, data); got != c.want || err != nil {
			t.Errorf("%s: %#x, %v, want %#x", c.name, got, err, c.want)
		}
	}
	for name, program := range map[string][]unix.SockFilter{
		"no end": {op(imm, 1)}, "beyond the call": {op(load, 64), op(give, 0)},
		"between words": {op(load, 2), op(give, 0)},
		"no such word":  {op(unix.BPF_ST, 16), op(give, 0)}, "by nothing": {op(alu|unix.BPF_DIV, 0), op(give, 0)},
		"of packets": {op(unix.BPF_LD|unix.BPF_IND, 0), op(give, 0)},
	} {
		if got, err := runFilter(program, data); !errors.Is(err, errProgram) {
			t.Errorf("%s: %#x, %v", name, got, err)
		}
	}
}

// TestWorstVerdict: of several filters the most severe verdict counts.
func TestWorstVerdict(t *testing.T) {
	always := func(k uint32) []unix.SockFilter { return []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: k}} }
	order := []uint32{unix.SECCOMP_RET_KILL_PROCESS, unix.SECCOMP_RET_KILL_THREAD, unix.SECCOMP_RET_TRAP,
		// seccomp(2)
		unix.SECCOMP_RET_ERRNO, unix.SECCOMP_RET_USER_NOTIF, unix.SECCOMP_RET_TRACE, unix.SECCOMP_RET_LOG,
		unix.SECCOMP_RET_ALLOW}
	for i, worse := range order {
		for _, better := range order[i:] {
			for _, filters := range [][][]unix.SockFilter{{always(worse), always(better)},
				{always(better), always(worse)}} {
				if got, err := filterVerdict(filters, made{}); got != worse || err != nil {
					t.Errorf("%#x and %#x: %#x, %v", worse, better, got, err)
				}
			}
		}
	}
}

func TestSeccompOfStatus(t *testing.T) {
	for text, want := range map[string]int{"": 0, "Seccomp:\t0\nSeccomp_filters:\t0\n": 0, "Seccomp:\t1\n": -1,
		"Seccomp:\t2\n":                      1,
		"Seccomp:\t2\nSeccomp_filters:\t3\n": 3, "Seccomp:\t1\nSeccomp_filters:\t0\n": -1} {
		if got := parseStatus(text).filters; got != want {
			t.Errorf("%q: %d filters, want %d", text, got, want)
		}
	}
}
