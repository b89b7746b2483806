// Package metrics owns the metrics of a session for monitoring systems: the list of all metrics with their units and
// labels, and their present values, read from api.Session. The list is the same for every protocol; packages prom and
// otlp transfer it. A label has few values however long a job lives: processes are named by rank and role, never by
// pid, and values beyond a bound are added up in one series with the label "other".
package metrics

import "strings"

// Kind of a metric.
type Kind string

// The kinds, with OpenMetrics' names.
const (
	Gauge   Kind = "gauge"
	Counter Kind = "counter"
	Info    Kind = "info" // a gauge that is always 1; its labels say something
)

// Metric is a row of the list. All have the label session, too.
type Metric struct {
	Name   string // without prefix and unit: process_memory
	Unit   string // of OpenMetrics, in base units: bytes, seconds, ratio; "" where it counts
	Kind   Kind
	Labels []string
	Help   string
}

// Prom is the name for Prometheus: memgauge_process_memory_bytes.
func (m *Metric) Prom() string {
	name := "memgauge_" + m.Name
	if m.Unit != "" {
		name += "_" + m.Unit
	}
	switch m.Kind {
	case Counter:
		name += "_total"
	case Info:
		name += "_info"
	}
	return name
}

// OTel is the name for OpenTelemetry, which keeps the unit in a field of its own: memgauge.process.memory.
func (m *Metric) OTel() string {
	name := "memgauge." + strings.ReplaceAll(m.Name, "_", ".")
	if _, per, rate := strings.Cut(m.Unit, "_per_"); rate { // two rates are of one name
		name += ".per." + per
	}
	if m.Kind == Info {
		name += ".info"
	}
	return name
}

// UCUM is the unit as OpenTelemetry writes it.
func (m *Metric) UCUM() string {
	switch m.Unit {
	case "bytes":
		return "By"
	case "seconds":
		return "s"
	case "bytes_per_second":
		return "By/s"
	case "bytes_per_step":
		return "By/{step}"
	case "celsius":
		return "Cel"
	case "watts":
		return "W"
	}
	return "1"
}

func gauge(name, unit, labels, help string) *Metric {
	return &Metric{Name: name, Unit: unit, Kind: Gauge, Labels: strings.Fields(labels), Help: help}
}

func counter(name, unit, labels, help string) *Metric {
	return &Metric{Name: name, Unit: unit, Kind: Counter, Labels: strings.Fields(labels), Help: help}
}

// All metrics there are.
var (
	sessionInfo = &Metric{"session", "", Info, []string{"id", "host", "version"},
		"Which session it is; version is that of memgauge"}
	sessionLive = gauge("session_live", "", "",
		"1 while the job runs; 0 once it has ended, when all others stay at their last values")
	sessionStart = gauge("session_start_timestamp", "seconds", "", "When the job began, in s since the epoch")
	lastReading  = gauge("last_reading_timestamp", "seconds", "",
		"When the newest figures of processes were taken, in s since the epoch")

	processMemory = gauge("process_memory", "bytes", "rank role class",
		"Memory of the job's processes; class anon, file and shmem add up to what is resident (what processes "+
			"share counts in each), swap and page_tables come on top")
	processHeap = gauge("process_heap", "bytes", "rank role state",
		"What malloc holds of it, where an agent tells: state in_use or free")
	processes = gauge("processes", "", "rank role", "Processes of the job")

	steps        = counter("steps", "", "rank", "Training steps made")
	stepDuration = gauge("step_duration", "seconds", "rank", "Time that a step takes, over the last 20")
	stepMemory   = gauge("step_memory", "bytes", "rank device kind",
		"Memory at the end of the last step in which it was read: kind allocated (in use) or reserved (held by the "+
			"allocator); device cpu: private and resident")
	stepPeak = gauge("step_memory_peak", "bytes", "rank device", "The most that was allocated in that step")

	deviceUsage = gauge("memory_usage", "ratio", "device", "Share of its limit that is in use; device host or "+
		"a GPU's number")
	deviceLimit = gauge("memory_limit", "bytes", "device kind", "That limit: kind cgroup, host or device")
	timeToOOM   = gauge("time_to_oom", "seconds", "device", "Time until memory runs out at its present growth; "+
		"absent while it isn't in sight")
	oomInMinute = gauge("oom_within_minute", "ratio", "device", "Probability that memory runs out within a minute")
	verdict     = gauge("verdict", "", "verdict", "1 for the verdict on the run (leak, healthy, undecided), 0 "+
		"for the others")
	leakPerStep = gauge("leak_rate", "bytes_per_step", "rank memory device class", "Growth of each memory that leaks")
	leakPerTime = gauge("leak_rate", "bytes_per_second", "rank memory device class", "The same of jobs without steps")
	leakTime    = gauge("leak_time_to_limit", "seconds", "rank memory device class",
		"Time until that growth meets its limit")
	cgroupMemory = gauge("cgroup_memory", "bytes", "class",
		"What the job's cgroup is charged for: class anon, file, shmem, kernel; class charged is all")
	cgroupOOMs = counter("cgroup_oom_kills", "", "", "Processes that the kernel killed in the job's cgroup "+
		"for want of memory")
	cgroupPressure = counter("cgroup_memory_pressure", "seconds", "kind",
		"Time in which some or all (kind some, full) of the cgroup's tasks waited for memory")
	hostMemory = gauge("host_memory", "bytes", "kind", "Memory of the machine: kind total or available")

	gpuMemory = gauge("gpu_memory", "bytes", "device kind", "Memory of each GPU: kind used or total")
	gpuBusy   = gauge("gpu_utilization", "ratio", "device", "Share of time in which a kernel ran")
	gpuHeat   = gauge("gpu_temperature", "celsius", "device", "Temperature of each GPU")
	gpuPower  = gauge("gpu_power", "watts", "device", "Power that each GPU draws")

	overhead = gauge("overhead", "ratio", "", "Share of the trainers' time that observing takes")
	lost     = counter("lost_records", "", "", "Records that are not in the session's tables (memgauge.drops)")
	folded   = gauge("folded_series", "", "", "Series that were folded into one with the label rank=\"other\" "+
		"or device=\"other\"")
	readTime = gauge("read_duration", "seconds", "", "Time that reading these figures from the session took")
)

// All lists them in the order of the documentation.
var All = []*Metric{sessionInfo, sessionLive, sessionStart, lastReading, processMemory, processHeap,
	processes, steps, stepDuration, stepMemory, stepPeak, deviceUsage, deviceLimit, timeToOOM, oomInMinute, verdict,
	leakPerStep, leakPerTime, leakTime, cgroupMemory, cgroupOOMs, cgroupPressure, hostMemory, gpuMemory, gpuBusy,
	gpuHeat, gpuPower, overhead, lost, folded, readTime}

// Sample is the value of one series.
type Sample struct {
	*Metric
	Values []string // of Labels, in their order
	Value  float64
}

// Reading has all metrics of a session at one moment.
type Reading struct {
	Session string // its name, the label that all series have
	Samples []Sample
	Live    bool // the job still runs
}
