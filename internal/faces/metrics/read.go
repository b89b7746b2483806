package metrics

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// Bounds of what labels can multiply; what lies beyond is folded into "other". Times classes and kinds that makes some
// 3,000 series at most, a sixth of what a node of Kubernetes has.
const (
	maxRanks   = 64 // on one machine: four for each of 16 GPUs
	maxDevices = 64 // 8 GPUs of 7 MIG instances each
	maxLeaks   = 64 // memories that leak
)

// Judge gives the verdict on a session.
type Judge func(context.Context, api.Session) (detect.Report, error)

// Read reads all metrics of a session.
func Read(ctx context.Context, s api.Session, judge Judge) (Reading, error) {
	began := time.Now()
	r := reader{ctx: ctx, s: s, judge: judge, sums: map[string]int{}, ranks: map[string]bool{},
		devices: map[string]bool{}}
	about, err := s.About(ctx)
	if err != nil {
		return Reading{}, fmt.Errorf("read the session: %w", err)
	}
	end, err := s.End(ctx)
	if err != nil {
		return Reading{}, fmt.Errorf("read the session: %w", err)
	}
	r.add(sessionInfo, 1, about.ID, about.Host, about.Memgauge)
	r.add(sessionLive, one(end.Live))
	r.add(sessionStart, float64(about.Started.UnixMilli())/1e3)
	r.processes(end.Live)
	r.steps()
	r.limits()
	r.findings()
	r.kernel()
	r.gpus()
	r.self()
	if r.err != nil {
		return Reading{}, r.err
	}
	r.add(folded, float64(r.folded))
	r.add(readTime, time.Since(began).Seconds())
	return Reading{Session: about.Name, Samples: r.samples, Live: end.Live}, nil
}

// reader keeps the first error, so that queries can follow each other without checks.
type reader struct {
	ctx            context.Context
	s              api.Session
	judge          Judge
	err            error
	samples        []Sample
	sums           map[string]int // a series' place among the samples
	ranks, devices map[string]bool
	folded         int
}

// add adds a value; a second value of the same series is added to the first.
func (r *reader) add(m *Metric, value float64, labels ...string) {
	key := series(m, labels)
	if at, there := r.sums[key]; there {
		r.samples[at].Value += value
		return
	}
	r.sums[key] = len(r.samples)
	r.samples = append(r.samples, Sample{m, labels, value})
}

// series is the key of a series: its metric and labels.
func series(m *Metric, labels []string) string {
	return m.Prom() + "\x00" + strings.Join(labels, "\x00")
}

// known adds a value unless it is NULL.
func (r *reader) known(m *Metric, value *float64, labels ...string) {
	if value != nil {
		r.add(m, *value, labels...)
	}
}

// least is add for times: the smallest value of a series counts.
func (r *reader) least(m *Metric, value float64, labels ...string) {
	at, there := r.sums[series(m, labels)]
	if !there {
		r.add(m, value, labels...)
		return
	}
	r.samples[at].Value = min(r.samples[at].Value, value)
}

func (r *reader) rank(n *int) string {
	if n == nil {
		return ""
	}
	return r.bounded(r.ranks, fmt.Sprint(*n), maxRanks)
}

func (r *reader) device(name string) string { return r.bounded(r.devices, name, maxDevices) }

// bounded is the label's value itself, or "other" once there are too many.
func (r *reader) bounded(seen map[string]bool, value string, most int) string {
	if kept, there := seen[value]; there {
		if kept {
			return value
		}
		return "other"
	}
	kept := len(seen) < most
	if seen[value] = kept; !kept {
		r.folded++
		return "other"
	}
	return value
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// rowsOf runs a query; after an error it runs no more.
func rowsOf[T any](r *reader, q questions.Of[T]) []T {
	if r.err != nil {
		return nil
	}
	list, err := api.Ask(r.ctx, r.s, q)
	r.err = err
	return list
}

// processes adds up the processes of a rank and role. For a finished job it uses their last rows.
func (r *reader) processes(live bool) {
	newest := 0.0
	for _, p := range rowsOf(r, questions.Now) {
		newest = max(newest, p.At)
		if live && p.Ended != nil && *p.Ended {
			continue
		}
		rank := r.rank(p.Rank)
		r.add(processes, 1, rank, p.Role)
		for class, bytes := range map[string]*float64{"anon": p.Anon, "file": p.File, "shmem": p.Shmem, "swap": p.Swap,
			"page_tables": p.PageTables} {
			r.known(processMemory, bytes, rank, p.Role, class)
		}
		r.known(processHeap, p.HeapInUse, rank, p.Role, "in_use")
		r.known(processHeap, p.HeapFree, rank, p.Role, "free")
	}
	if newest > 0 {
		r.add(lastReading, newest)
	}
}

func (r *reader) steps() {
	tell := func(row questions.LastStep) {
		if row.Device == nil {
			return
		}
		rank, device := r.rank(row.Rank), r.device(*row.Device)
		r.known(stepMemory, row.Allocated, rank, device, "allocated")
		r.known(stepMemory, row.Reserved, rank, device, "reserved")
		r.known(stepPeak, row.Peak, rank, device)
	}
	devices := rowsOf(r, questions.StepDevices)
	for _, row := range rowsOf(r, questions.LastSteps) {
		rank := r.rank(row.Rank)
		if rank != "other" { // a sum of steps, or of times, says nothing
			r.add(steps, row.Step, rank)
			r.known(stepDuration, row.Duration, rank)
		}
		if len(devices) > 0 { // they tell all devices; this row the fullest
			row.Allocated, row.Reserved = nil, nil
		}
		tell(row)
	}
	for _, row := range devices {
		tell(row)
	}
}

// limits adds how near each memory is to its limit, and when it will meet it.
func (r *reader) limits() {
	if r.err != nil {
		return
	}
	report, err := r.s.OOM(r.ctx, api.OOMRequest{})
	if err != nil {
		r.err = fmt.Errorf("read the session: %w", err)
		return
	}
	names := make([]string, 0, len(report.Devices))
	for name := range report.Devices {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		r.limit(r.device(name), report.Devices[name])
	}
}

func (r *reader) limit(device string, d *monitor.DeviceReport) {
	if device == "other" || d.Error != nil || d.CurrentUsage.Total <= 0 {
		return
	}
	r.add(deviceUsage, float64(d.CurrentUsage.Allocated)/float64(d.CurrentUsage.Total), device)
	r.add(deviceLimit, float64(d.CurrentUsage.Total), device, d.LimitKind)
	if d.Risk == nil {
		return
	}
	r.add(oomInMinute, float64(d.Risk.WithinMinute), device)
	if d.Risk.Seconds != nil {
		r.add(timeToOOM, float64(*d.Risk.Seconds), device)
	}
}

// findings adds the newest verdicts.
func (r *reader) findings() {
	if r.err != nil {
		return
	}
	report, err := r.judge(r.ctx, r.s)
	if err != nil {
		r.err = fmt.Errorf("read the session: %w", err)
		return
	}
	leaks := 0
	for _, f := range report.Findings {
		if f.Verdict != detect.Leak {
			continue
		}
		if leaks++; leaks > maxLeaks {
			r.folded++
			continue
		}
		rank := ""
		if f.Rank >= 0 {
			rank = r.rank(&f.Rank)
		}
		labels := []string{rank, string(f.Memory), f.Device, string(f.Class)}
		rate := leakPerStep
		if f.ByTime {
			rate = leakPerTime
		}
		r.add(rate, f.Rate, labels...)
		if f.Seconds > 0 && !f.Over {
			r.least(leakTime, f.Seconds, labels...)
		}
	}
	for _, v := range []detect.Verdict{detect.Leak, detect.Healthy, detect.Undecided} {
		r.add(verdict, one(v == report.Verdict), string(v))
	}
}

// kernel adds the kernel's counts for the job's cgroup and for the host.
func (r *reader) kernel() {
	for _, c := range rowsOf(r, questions.Charged) {
		for class, bytes := range map[string]*float64{"charged": c.Current, "anon": c.Anon, "file": c.File,
			"shmem": c.Shmem, "kernel": c.Kernel} {
			r.known(cgroupMemory, bytes, class)
		}
		r.known(cgroupOOMs, c.OOMKills)
		for kind, us := range map[string]*float64{"some": c.Some, "full": c.Full} {
			if us != nil {
				r.add(cgroupPressure, *us/1e6, kind)
			}
		}
	}
	for _, h := range rowsOf(r, questions.Host) {
		r.known(hostMemory, h.Total, "total")
		r.known(hostMemory, h.Available, "available")
	}
}

func (r *reader) gpus() {
	for _, g := range rowsOf(r, questions.GPUs) {
		device := r.device(fmt.Sprint(g.Device))
		r.known(gpuMemory, g.Used, device, "used")
		r.known(gpuMemory, g.Total, device, "total")
		if device == "other" { // sums of these would say nothing
			continue
		}
		if g.Busy != nil {
			r.add(gpuBusy, *g.Busy/100, device)
		}
		r.known(gpuHeat, g.Temperature, device)
		r.known(gpuPower, g.Power, device)
	}
}

// self adds what observing costs. As on the page, shares are of the longest time that a part of a process covers.
func (r *reader) self() {
	for _, c := range rowsOf(r, questions.CostInAll) {
		r.known(overhead, c.Share)
	}
	if r.err != nil {
		return
	}
	sum, err := r.s.Summary(r.ctx)
	if err != nil {
		r.err = fmt.Errorf("read the session: %w", err)
		return
	}
	r.add(lost, float64(sum.Lost))
}
