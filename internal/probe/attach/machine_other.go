//go:build !amd64

package attach

import "debug/elf"

// This build attaches to nothing: no process is of machine 0, so the first question about a target refuses it, and
// names the machine that attaching is written for. `memgauge run` and all that is asked of an agent need none of this.
const (
	thisMachine = elf.EM_NONE
	machineName = "x86-64"
	auditArch   = 0
)

type wait struct {
	name   string
	fits   func(args [6]uint64) bool
	repeat func(args [6]uint64) *[6]uint64
}

var (
	waits           map[int64]wait
	systemCalls     map[int64]string
	systemCallsMade []made
)

type entries struct{ spawn, thread uint64 }

func stubCode() ([]byte, entries) { return nil, entries{} }
