package ingest

import (
	"strconv"
	"time"

	"github.com/memgauge/memgauge/internal/base/secret"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/wire"
)

// ticksPerSecond is USER_HZ, the unit of start ticks: 100 on every architecture that CPython and PyTorch are built for
// (include/asm-generic/param.h), whatever the kernel's own HZ.
const ticksPerSecond = 100

// Ends of a process.
const (
	endExited   = "exited"
	endDetached = "detached"
	endVanished = "vanished"
)

type procKey struct {
	pid   int32
	start uint64 // clock ticks
}

// process is what is known of a process over all its rings.
type process struct {
	key     procKey
	newest  uint64        // highest generation among its rings
	asked   time.Time     // when we last checked whether it runs
	gone    bool          // it will never write again
	lived   int64         // µs since the epoch: the latest moment when it was known to live
	row     model.Process // as last put into a batch
	rowFrom uint64        // generation that the row was made from
	ended   bool          // the row says how it ended
	argv    [2]string     // the command line as the ring has it, and as it may be shown
}

func newProcess(key procKey) *process { return &process{key: key, lived: model.Null} }

// askAlive checks whether a process still runs. The head of its ring must be read after that check: only then is the
// head of an ended process final.
func (in *Ingester) askAlive(p *process, now time.Time, ask bool) {
	if p.gone || !ask && !p.asked.IsZero() && now.Sub(p.asked) < aliveEvery {
		return
	}
	first := p.asked.IsZero()
	p.asked = now
	switch {
	case !in.opts.Alive(int(p.key.pid), p.key.start):
		p.gone = true
	case !first:
		p.lived = max(p.lived, now.UnixMicro())
	}
}

// describe puts the process's row into the batch if the ring's header has changed it.
func (in *Ingester) describe(r *ring) {
	p := r.proc
	if r.name.generation < p.rowFrom {
		return // an old ring, drained after a newer one was seen
	}
	row := r.processRow()
	if row == p.row {
		return
	}
	p.row, p.rowFrom, p.ended = row, r.name.generation, false // a detached process may be attached again
	in.putProcess(p.row)
}

func (r *ring) processRow() model.Process {
	info := r.Info
	return model.Process{
		PID: int32(r.PID), StartTicks: int64(r.StartTicks),
		PPID: number(info["ppid"], 0), Parent: number(info["parent"], 0),
		Rank: r.Rank, World: r.WorldSize, LocalRank: number(info["local_rank"], -1),
		Started: startTime(&r.Header), Ended: model.Null,
		Argv: r.proc.shown(info["argv"]),
		Cwd:  info["cwd"], Executable: info["executable"], Python: info["python"], Agent: info["agent"],
	}
}

// shown returns the command line with secrets hidden, since agents of earlier versions did not hide them. The result is
// kept, because a ring's header changes every second and the command line never.
func (p *process) shown(argv string) string {
	if argv != p.argv[0] {
		p.argv = [2]string{argv, secret.Text(argv)}
	}
	return p.argv[1]
}

// end records how the process ended, once its last ring is finished.
func (in *Ingester) end(r *ring) {
	p := r.proc
	if p.ended || r.name.generation < p.newest {
		return
	}
	switch {
	case r.State == wire.StateDetached:
		p.row.End = endDetached
	case r.State == wire.StateClosed:
		p.row.End = endExited
	default:
		p.row.End = endVanished
	}
	p.row.Ended = r.lastSeen()
	if p.row.End != endDetached {
		p.row.Ended = max(p.row.Ended, p.lived)
	}
	p.ended = true
	in.putProcess(p.row)
}

// putProcess keeps one row for a process in a batch.
func (in *Ingester) putProcess(row model.Process) {
	for i, other := range in.batch.Processes {
		if other.PID == row.PID && other.StartTicks == row.StartTicks {
			in.batch.Processes[i] = row
			return
		}
	}
	in.batch.Processes = append(in.batch.Processes, row)
}

// startTime returns the time at which the process started, in µs since the epoch. Start ticks count from boot and
// include suspend; CLOCK_MONOTONIC does not. So on a machine that was suspended the result is too late, but it is never
// later than the ring's creation.
func startTime(h *wire.Header) int64 {
	ns := h.WallTime(h.StartTicks * uint64(time.Second/ticksPerSecond))
	return micros(min(ns, int64(h.ClockWall)))
}

func micros(ns int64) int64 { return ns / int64(time.Microsecond) }

func number(text string, missing int32) int32 {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return missing
	}
	return int32(n)
}
