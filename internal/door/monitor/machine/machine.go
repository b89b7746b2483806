// Package machine reads the memory of this machine's devices for a monitor.Watch, directly and at any interval: the
// host or the cgroup of a process, and the GPUs. It starts no process and keeps no history.
package machine

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/forecast"
	"github.com/memgauge/memgauge/internal/probe/proc"
	"github.com/memgauge/memgauge/internal/probe/sampler"
)

// Options select what is watched.
type Options struct {
	Root string // file system with proc and sys: "/" if empty, a recording in tests
	PID  int    // the process whose cgroup limits the host's memory; 0 for this one
	// PIDs are the job's processes. They determine its share of a GPU and the files that it has mapped; nil for the
	// whole machine.
	PIDs func() []int
	GPUs sampler.GPUs // nil where there are none
	Now  func() time.Time
}

// Machine is a monitor.Source.
type Machine struct {
	o       Options
	fs      proc.FS
	start   uint64 // start of the process, which identifies it
	path    string // of its cgroup
	mounts  proc.CgroupMounts
	samples model.Samples
	ended   bool
}

// New prepares the reading.
func New(o Options) (*Machine, error) {
	if o.Root == "" {
		o.Root = "/"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	m := &Machine{o: o, fs: proc.New(filepath.Join(o.Root, "proc"))}
	if m.o.PID == 0 {
		m.o.PID = m.fs.Self()
	}
	if _, err := m.fs.Meminfo(); err != nil {
		return nil, fmt.Errorf("read the host's memory: %w", err)
	}
	var err error
	if m.start, err = m.fs.StartTicks(m.o.PID); err != nil {
		return nil, fmt.Errorf("watch process %d: %w", m.o.PID, err)
	}
	m.mounts, _ = m.fs.CgroupMounts(o.Root) // without mounts no cgroup is known, and the host is the limit
	return m, nil
}

// Close closes the GPUs.
func (m *Machine) Close() {
	if m.o.GPUs != nil {
		m.o.GPUs.Close()
	}
}

// Devices are the host and this machine's GPUs.
func (m *Machine) Devices(context.Context) ([]monitor.Device, error) {
	host := monitor.Device{ID: monitor.Host, Name: "this machine"}
	if cg, err := m.fs.Cgroup(m.o.PID, m.mounts); err == nil {
		if mem, err := cg.Memory(); err == nil && mem.Limit > 0 {
			host.Name = "cgroup " + mem.LimitPath
		}
	}
	devices := []monitor.Device{host}
	m.sampleGPUs(m.o.Now())
	for _, d := range m.samples.Devices {
		devices = append(devices, monitor.Device{ID: strconv.Itoa(int(d.Device)), Name: d.Name})
	}
	return devices, nil
}

// Read takes one reading of each device.
func (m *Machine) Read(_ context.Context, into []monitor.Reading) ([]monitor.Reading, error) {
	now := m.o.Now()
	host, err := m.host(now)
	if err != nil {
		return into, err
	}
	into = append(into, host)
	m.sampleGPUs(now)
	for _, g := range m.samples.GPUs {
		into = append(into, OfGPU(&g))
	}
	return into, nil
}

func (m *Machine) host(now time.Time) (monitor.Reading, error) {
	info, err := m.fs.Meminfo()
	if err != nil {
		return monitor.Reading{}, fmt.Errorf("read the host's memory: %w", err)
	}
	s := monitor.HostState{Time: now, Host: forecast.Host{Total: info.Total, Available: info.Available, Limit: -1,
		Current: -1}}
	// a dead process is in the root cgroup, whose memory is the host's
	if m.ended = !m.fs.Alive(m.o.PID, m.start) || m.gone(); m.ended {
		return monitor.Reading{Device: monitor.Host, Time: now, Err: "the process has ended"}, nil
	}
	s.Mapped = m.mapped()
	cg, err := m.fs.Cgroup(m.o.PID, m.mounts)
	if err != nil {
		return s.Reading(), nil // in no cgroup
	}
	// the kernel moves an exiting process there (cgroup_exit)
	if cg.Path == "/" && m.path != "" && m.path != "/" {
		return monitor.Reading{Device: monitor.Host, Time: now, Err: "the process is ending"}, nil
	}
	m.path = cg.Path
	if c, err := cg.Memory(); err == nil {
		s.Current, s.Limit, s.InactiveFile, s.Active = c.Current, c.Limit, c.InactiveFile, c.ActiveFile
		s.Dirty, s.Writeback, s.SlabReclaimable = c.FileDirty, c.FileWriteback, c.SlabReclaimable
	}
	return s.Reading(), nil
}

// gone reports that the process has no memory any more: it was killed and is a zombie.
func (m *Machine) gone() bool {
	st, err := m.fs.Status(m.o.PID)
	return err == nil && st.Size == proc.Unknown
}

// mapped is how many bytes of files the job's processes have mapped and touched.
func (m *Machine) mapped() (sum int64) {
	if m.o.PIDs == nil {
		return 0
	}
	for _, pid := range m.o.PIDs() {
		if st, err := m.fs.Status(pid); err == nil && st.File > 0 {
			sum += st.File
		}
	}
	return sum
}

func (m *Machine) sampleGPUs(now time.Time) {
	if m.o.GPUs == nil {
		return
	}
	mine := map[int]bool{}
	if m.o.PIDs != nil {
		for _, pid := range m.o.PIDs() {
			mine[pid] = true
		}
	}
	m.samples.GPUs, m.samples.GPUProcs, m.samples.GPUEvents = m.samples.GPUs[:0], m.samples.GPUProcs[:0],
		m.samples.GPUEvents[:0]
	m.o.GPUs.Sample(now, func(pid int) bool { return mine[pid] }, &m.samples)
}

// OfGPU makes a reading from a GPU's row. An allocator's cache counts as used: the driver can't distinguish it.
func OfGPU(g *model.GPUUtilization) monitor.Reading {
	r := monitor.Reading{Device: strconv.Itoa(int(g.Device)), Time: model.Time(g.Time), Kind: "device"}
	if g.Total <= 0 || g.Used == model.Null {
		r.Err = g.State
		if r.Err == "" || r.Err == "ok" {
			r.Err = "the driver tells no memory"
		}
		return r
	}
	r.Used, r.Peak, r.Reserved, r.Total = g.Used, g.Used, g.Used, g.Total
	return r
}

// Blocks needs an agent in the process: an allocator's blocks can't be seen from outside.
func (m *Machine) Blocks(context.Context, string) ([]monitor.Allocator, string, error) {
	return nil, "blocks can be had only of observed processes: start them with memgauge run, or attach to them", nil
}

// Ended reports that the process whose cgroup was watched has ended.
func (m *Machine) Ended() bool { return m.ended }
