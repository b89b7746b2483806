// Package recorded reads the devices' memory from a session's tables for a monitor.Watch: everything at the first
// reading, what is new at the next ones. It works in the same way for live and for finished sessions.
package recorded

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/door/analyse"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/judge/forecast"
)

// Session is a monitor.Source.
type Session struct {
	db   api.Querier
	upTo map[string]int64 // µs since the epoch of the newest row read, by device
	end  int64            // µs since the epoch: the job's own end; 0 if unknown, or live
	Live bool             // more will come
	// Allocators queries the live processes for their blocks; nil for a finished session.
	Allocators func(ctx context.Context, device string) ([]monitor.Allocator, string, error)
}

// New reads from a session.
func New(db api.Querier) *Session { return &Session{db: db, upTo: map[string]int64{}} }

type deviceRow struct {
	ID   int    `json:"device_id"`
	Name string `json:"name"`
}

// Devices are the host and the GPUs that the samplers found. Devices that only the job's allocator knows are included
// where no driver could be read.
func (s *Session) Devices(ctx context.Context) ([]monitor.Device, error) {
	found, err := api.Rows[deviceRow](ctx, s.db, `SELECT device_id::INTEGER AS device_id, any_value(name) AS name FROM (
		SELECT device_id, name FROM gpu.devices UNION ALL
		SELECT replace(device::VARCHAR, 'cuda:', '')::INTEGER, device::VARCHAR FROM python.step_devices)
		GROUP BY 1 ORDER BY 1`)
	if err != nil {
		return nil, err
	}
	limit, err := api.Rows[struct {
		Path string `json:"limit_path"`
	}](ctx, s.db, "SELECT limit_path FROM cgroup.memory WHERE limit_bytes IS NOT NULL ORDER BY ts DESC LIMIT 1")
	if err != nil {
		return nil, err
	}
	host := monitor.Device{ID: monitor.Host, Name: "the job's host"}
	if len(limit) > 0 {
		host.Name = "cgroup " + limit[0].Path
	}
	devices := []monitor.Device{host}
	for _, d := range found {
		devices = append(devices, monitor.Device{ID: strconv.Itoa(d.ID), Name: d.Name})
	}
	return devices, nil
}

// hostRow has a null where a figure is missing.
type hostRow struct {
	Time            int64    `json:"t"`
	Step            *float64 `json:"step"`
	Total           *int64   `json:"total"`
	Available       *int64   `json:"available"`
	Current         *int64   `json:"current"`
	Limit           *int64   `json:"limit_bytes"`
	InactiveFile    *int64   `json:"inactive_file"`
	ActiveFile      *int64   `json:"active_file"`
	Dirty           *int64   `json:"file_dirty"`
	Writeback       *int64   `json:"file_writeback"`
	SlabReclaimable *int64   `json:"slab_reclaimable"`
	Mapped          *int64   `json:"mapped"`
}

// gpuRow is a reading of the driver, or a step of the job's allocator.
type gpuRow struct {
	Time      int64    `json:"t"`
	Device    int      `json:"device_id"`
	Step      *float64 `json:"step"`
	Used      *int64   `json:"used"`
	Peak      *int64   `json:"peak"`
	Reserved  *int64   `json:"reserved"`
	Total     *int64   `json:"total"`
	Allocated bool     `json:"allocator"`
}

// Read appends what was recorded since the last call.
func (s *Session) Read(ctx context.Context, into []monitor.Reading) ([]monitor.Reading, error) {
	host, err := api.Rows[hostRow](ctx, s.db, fmt.Sprintf(analyse.HostSQL, s.upTo[monitor.Host], analyse.MaxReadings))
	if err != nil {
		return into, err
	}
	if err := s.findEnd(ctx); err != nil {
		return into, err
	}
	for i := range host {
		s.upTo[monitor.Host] = max(s.upTo[monitor.Host], host[i].Time)
		if s.past(host[i].Time) {
			continue
		}
		state := host[i].state()
		into = append(into, state.Reading())
	}
	return s.ReadDevices(ctx, into)
}

// A victim of the OOM killer releases its memory before the kill is noticed: what was read after its own last sample is
// no longer the job's. Other processes may continue after a kill, so only a kill in the last minute is the job's end.
const jobEndSQL = `SELECT epoch_us(max(ts)) AS t FROM process.memory WHERE pid = coalesce((
	SELECT pid FROM memgauge.events WHERE name = 'oom_kill'
	AND ts > (SELECT max(ts) FROM process.memory) - INTERVAL 60 SECOND ORDER BY ts DESC LIMIT 1), pid)`

// findEnd finds out, once, when a finished job's memory was last its own.
func (s *Session) findEnd(ctx context.Context) error {
	if s.Live || s.end != 0 {
		return nil
	}
	list, err := api.Rows[struct {
		Time *int64 `json:"t"`
	}](ctx, s.db, jobEndSQL)
	if err != nil {
		return err
	}
	if len(list) > 0 && list[0].Time != nil {
		s.end = *list[0].Time
	}
	return nil
}

func (s *Session) past(us int64) bool { return s.end != 0 && us > s.end }

// ReadDevices is Read without the host.
func (s *Session) ReadDevices(ctx context.Context, into []monitor.Reading) ([]monitor.Reading, error) {
	gpus, err := api.Rows[gpuRow](ctx, s.db, fmt.Sprintf(analyse.DeviceSQL, s.upTo["gpu"], analyse.MaxReadings))
	if err != nil {
		return into, err
	}
	for i := range gpus {
		s.upTo["gpu"] = max(s.upTo["gpu"], gpus[i].Time)
		if r, ok := gpus[i].reading(); ok && !s.past(gpus[i].Time) {
			into = append(into, r)
		}
	}
	return into, nil
}

// Step is how many steps the job has done.
func (s *Session) Step(ctx context.Context) (float64, error) {
	list, err := api.Rows[struct {
		Step *float64 `json:"step"`
	}](ctx, s.db, "SELECT max(step)::DOUBLE AS step FROM python.steps")
	if err != nil || len(list) == 0 {
		return 0, err
	}
	return number(list[0].Step), nil
}

func (r *hostRow) state() monitor.HostState {
	return monitor.HostState{Time: time.UnixMicro(r.Time).UTC(), Step: number(r.Step), Mapped: figure(r.Mapped),
		Host: forecast.Host{Total: figure(r.Total), Available: figure(r.Available), Current: figure(r.Current),
			Limit: figure(r.Limit), InactiveFile: figure(r.InactiveFile), Active: figure(r.ActiveFile),
			Dirty: figure(r.Dirty), Writeback: figure(r.Writeback), SlabReclaimable: figure(r.SlabReclaimable)}}
}

func (r *gpuRow) reading() (monitor.Reading, bool) {
	if r.Used == nil || figure(r.Total) <= 0 {
		return monitor.Reading{}, false
	}
	return monitor.Reading{Device: strconv.Itoa(r.Device), Time: time.UnixMicro(r.Time).UTC(), Step: number(r.Step),
		Used: *r.Used, Peak: figure(r.Peak), Reserved: figure(r.Reserved), Total: *r.Total, Kind: "device"}, true
}

func figure(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

func number(f *float64) float64 {
	if f == nil {
		return 0
	}
	return *f
}

// Blocks queries the live processes for their blocks.
func (s *Session) Blocks(ctx context.Context, device string) ([]monitor.Allocator, string, error) {
	if s.Allocators == nil {
		return nil, "the session has ended, and its allocators' blocks with it: ask while it runs", nil
	}
	return s.Allocators(ctx, device)
}

// Ended reports that nothing more will be recorded.
func (s *Session) Ended() bool { return !s.Live }

// Events are the session's events that a picture of its memory should show.
func (s *Session) Events(ctx context.Context) ([]monitor.Event, error) {
	list, err := api.Ask(ctx, s.db, questions.Happened(500))
	if err != nil {
		return nil, err
	}
	var out []monitor.Event
	for _, r := range list {
		text := r.Name
		if first, _, _ := strings.Cut(r.Text, "\n"); first != "" {
			text += ": " + first
		}
		low := strings.ToLower(r.Name + r.Text)
		out = append(out, monitor.Event{Time: time.UnixMicro(r.Micros).UTC(), Text: text, Bad: r.Name == "leak" ||
			strings.Contains(low, "oom") || strings.Contains(low, "killed") || strings.Contains(low, "out of memory")})
	}
	return out, nil
}
