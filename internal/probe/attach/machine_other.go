//go:build !amd64 && !arm64

package attach

import (
	"debug/elf"

	"github.com/memgauge/memgauge/internal/probe/attach/image"
)

// This build attaches to nothing: no process is of machine 0, so the first question about a target refuses it, and
// names the machines that attaching is written for. `memgauge run` and all that is asked of an agent need none of this.
const (
	thisMachine = elf.EM_NONE
	machineName = "x86-64 and aarch64"
	auditArch   = 0
	pageSize    = 4096
)

var (
	waits       map[int64]wait
	systemCalls map[int64]string
	callsHere   []made
)

type entries struct{ spawn, thread uint64 }

func (t *Target) handlersReturn(image.Mapping) uint64 { return 0 }

func stubCode() ([]byte, entries) { return nil, entries{} }
