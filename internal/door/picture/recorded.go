package picture

import (
	"context"
	"fmt"
	"strconv"

	"github.com/memgauge/memgauge/internal/door/questions"
)

// Query runs a statement on a session's tables and decodes its rows into the slice that into points to, by the names of
// the columns. A column that the slice's type lacks is left out.
type Query func(ctx context.Context, sql string, into any) error

// Devices returns a session's GPUs at the last sample, or, of a session that is over, at the sample in which most of
// each was used: at the last one its processes have often gone. What a process has on a device beyond its allocator's
// reserve is divided in two: the CUDA context with its modules (the least that was ever seen), and memory that was
// allocated outside the allocator since.
func Devices(ctx context.Context, query Query, over bool) (map[string]Device, error) {
	var rows []struct {
		ID                                                     int    `json:"device_id"`
		Name                                                   string `json:"name"`
		Total, Used, Job, Others, Live, Reserved, Context, Now *int64
		Unknown                                                int64
	}
	moment := "ts"
	if over {
		moment = "coalesce(used_bytes, 0)"
	}
	if err := query(ctx, fmt.Sprintf(devicesSQL, moment), &rows); err != nil {
		return nil, fmt.Errorf("read the devices: %w", err)
	}
	devices := map[string]Device{}
	for _, r := range rows {
		d := Device{Name: r.Name, Total: r.Total, Used: r.Used, Live: r.Live, Context: r.Context}
		if r.Live != nil && r.Reserved != nil {
			d.Cached = difference(r.Reserved, r.Live)
		}
		d.Outside = difference(r.Now, r.Context)
		if r.Unknown == 0 { // the driver reports every process's bytes
			d.Others = r.Others
			d.Driver = difference(difference(r.Used, r.Job), r.Others)
		}
		devices[strconv.Itoa(r.ID)] = d
	}
	return devices, nil
}

// Trainers are the processes of a session that have made steps of training.
func Trainers(ctx context.Context, query Query) (map[int]bool, error) {
	var rows []struct{ PID int }
	err := query(ctx, "SELECT DISTINCT pid FROM python.steps WHERE NOT inference", &rows)
	if err != nil {
		return nil, fmt.Errorf("read who trains: %w", err)
	}
	list := map[int]bool{}
	for _, r := range rows {
		list[r.PID] = true
	}
	return list, nil
}

func difference(a, b *int64) *int64 {
	if a == nil || b == nil {
		return nil
	}
	d := max(*a-*b, 0)
	return &d
}

// Recorded is the host memory of a finished session at the moment when its processes held most. Samples contain neither
// stacks nor single maps. So memory is divided as the maps were at their reading closest to that moment
// (process.classes); these classes are nil if the maps were never read. Pages that processes share are divided as
// smaps_rollup or the maps divided them at the reading closest to that moment; if there was none, they count in full.
func Recorded(ctx context.Context, query Query) (Picture, error) {
	var rows []struct {
		PID, Rss                                                                int64
		Rank                                                                    *int
		Role, Command                                                           string
		Pss, Anon, File, Shmem, Swap                                            *int64
		Tables                                                                  *int64 `json:"page_tables"`
		InUse                                                                   *int64 `json:"heap_in_use"`
		Held                                                                    *int64 `json:"heap_held"`
		Current, Limit, CgroupAnon, CgroupFile, CgroupShmem, CgroupKernel, Host *int64
		CgroupTables                                                            *int64
		Path                                                                    *string
		Divided                                                                 *float64
		Maps                                                                    *mapsRow
	}
	if err := query(ctx, peakSQL, &rows); err != nil {
		return Picture{}, fmt.Errorf("read the processes: %w", err)
	}
	var p Picture
	for _, r := range rows {
		one := Process{PID: int(r.PID), Role: r.Role, Command: r.Command, Rank: r.Rank, RSS: r.Rss, PSS: r.Pss}
		part := 1.0 // of its anonymous pages are its own; forked workers share theirs with the trainer
		if r.Divided != nil {
			part = min(max(*r.Divided, 0), 1)
		} else if r.Maps != nil {
			part = r.Maps.share()
		}
		one.Classes = Classes{File: r.File, Shared: r.Shmem, PageTables: r.Tables, Swap: r.Swap}
		if r.Maps != nil && r.Maps.PSS > 0 && r.Anon != nil {
			one.divide(r.Maps, part*float64(*r.Anon))
		} else {
			one.anonymous(r.Anon, r.InUse, r.Held, part)
		}
		if one.PSS == nil { // it was not read at that moment
			pss := one.Classes.named() - of(one.Classes.PageTables)
			one.PSS = &pss
		}
		p.Processes = append(p.Processes, one)
	}
	if len(rows) > 0 {
		r := rows[0]
		p.Host = recordedHost(p.Processes, r.Host)
		if r.Current != nil && r.Limit != nil {
			h := &p.Host
			h.LimitKind, h.Limit, h.Cgroup = "cgroup", r.Limit, *r.Path
			h.Classes.File, h.Classes.Shared, h.Classes.Kernel, h.Classes.PageTables = r.CgroupFile, r.CgroupShmem,
				difference(r.CgroupKernel, r.CgroupTables), r.CgroupTables
			if r.CgroupTables == nil {
				h.Classes.Kernel = r.CgroupKernel
			}
			if r.CgroupAnon != nil { // the kernel counts each page once, whoever shares it
				c := &h.Classes
				rest := max(*r.CgroupAnon-of(c.HeapInUse)-of(c.HeapFree)-of(c.PythonArenas)-of(c.Stacks)-of(c.Pinned),
					0)
				h.Classes.Anonymous = &rest
			}
			h.balance(*r.Current, h.Classes.named())
		}
	}
	return p, nil
}

// mapsRow is a row of process.classes.
type mapsRow struct {
	PSS       int64
	InUse     *int64 `json:"heap_in_use"`
	Free      *int64 `json:"heap_free"`
	Python    *int64 `json:"python_arenas"`
	Anonymous *int64 `json:"anonymous"`
	Stacks    *int64 `json:"stacks"`
	File      *int64 `json:"file"`
	Shared    *int64 `json:"shared"`
	Pinned    *int64 `json:"pinned"`
	Anon      *int64 `json:"anon"` // from the sample before: shared pages in full
}

// share is the part of the process's anonymous pages that was its own.
func (m *mapsRow) share() float64 {
	sum := of(m.InUse) + of(m.Free) + of(m.Python) + of(m.Anonymous) + of(m.Stacks) + of(m.Pinned)
	if of(m.Anon) <= 0 {
		return 1
	}
	return min(float64(sum)/float64(*m.Anon), 1)
}

// divide gives a process the classes of its maps as they were read. The anonymous ones are scaled so that they add up
// to anon bytes: the job's growth between the two moments is assumed to be of the same kinds.
func (p *Process) divide(m *mapsRow, anon float64) {
	p.anon = int64(anon)
	c := &p.Classes
	c.File, c.Shared = m.File, m.Shared
	fixed := []struct{ from, into **int64 }{{&m.Stacks, &c.Stacks}, {&m.Pinned, &c.Pinned}}
	growing := []struct{ from, into **int64 }{{&m.InUse, &c.HeapInUse}, {&m.Free, &c.HeapFree},
		{&m.Python, &c.PythonArenas}, {&m.Anonymous, &c.Anonymous}}
	still, sum := 0.0, 0.0
	for _, f := range fixed {
		*f.into = *f.from
		still += float64(of(*f.from))
	}
	for _, g := range growing {
		sum += float64(of(*g.from))
	}
	for _, g := range growing {
		if *g.from != nil {
			n := int64(float64(**g.from) * max(anon-still, 0) / max(sum, 1))
			*g.into = &n
		}
	}
}

func of(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// anonymous divides a process's anonymous memory by its agent's last report.
func (p *Process) anonymous(anon, inUse, held *int64, part float64) {
	if anon == nil {
		return
	}
	scaled := func(n int64) *int64 { v := int64(part * float64(n)); return &v }
	p.anon = *scaled(*anon)
	p.Classes.Anonymous = scaled(*anon)
	if inUse == nil || held == nil {
		return
	}
	used, free, rest := questions.Split(*anon, *inUse, *held)
	p.Classes.HeapInUse, p.Classes.HeapFree, p.Classes.Anonymous = scaled(used), scaled(free), scaled(rest)
}

func recordedHost(list []Process, total *int64) Host {
	h := ofProcesses(list, 0)
	h.Limit = total
	return h
}

const devicesSQL = `
WITH u AS (SELECT device_id, name, total_bytes AS total, used_bytes AS used, ts AS at FROM gpu.utilization
  QUALIFY row_number() OVER (PARTITION BY device_id ORDER BY %s DESC, ts DESC) = 1),
p AS (SELECT p.device_id, sum(used_bytes) FILTER (in_job) AS job, sum(used_bytes) FILTER (NOT in_job) AS others,
    count(*) FILTER (used_bytes IS NULL) AS hidden
  FROM gpu.processes p JOIN u ON u.device_id = p.device_id AND u.at = p.ts GROUP BY p.device_id),
n AS (SELECT device_id, 'cuda:' || visible_as AS device FROM gpu.devices WHERE visible_as IS NOT NULL),
s AS (SELECT pid, ts, device::VARCHAR AS device, allocated, reserved FROM python.step_devices),
a AS (SELECT device_id, sum(allocated) AS live, sum(reserved) AS reserved FROM
  (SELECT u.device_id, s.pid,
      coalesce(arg_max(allocated, s.ts) FILTER (s.ts <= u.at), arg_min(allocated, s.ts)) AS allocated,
      coalesce(arg_max(reserved, s.ts) FILTER (s.ts <= u.at), arg_min(reserved, s.ts)) AS reserved
    FROM u JOIN n USING (device_id) JOIN s ON s.device = n.device GROUP BY u.device_id, s.pid) GROUP BY device_id),
x AS (SELECT p.device_id, p.pid, min(greatest(p.used_bytes - s.reserved, 0)) AS least,
    arg_max(greatest(p.used_bytes - s.reserved, 0), p.ts) FILTER (p.ts <= u.at) AS latest
  FROM gpu.processes p JOIN n USING (device_id) JOIN u USING (device_id)
  ASOF JOIN s ON s.pid = p.pid AND s.device = n.device AND p.ts >= s.ts
  WHERE p.in_job AND p.used_bytes IS NOT NULL GROUP BY p.device_id, p.pid),
c AS (SELECT device_id, sum(least) AS least, sum(latest) AS latest FROM x GROUP BY device_id)
SELECT u.device_id, u.name, u.total, u.used, coalesce(p.job, 0)::BIGINT AS job,
  coalesce(p.others, 0)::BIGINT AS others, coalesce(p.hidden, 0) AS unknown,
  a.live::BIGINT AS live, a.reserved::BIGINT AS reserved, c.least::BIGINT AS context, c.latest::BIGINT AS now
FROM u LEFT JOIN p USING (device_id) LEFT JOIN n USING (device_id) LEFT JOIN a USING (device_id)
  LEFT JOIN c USING (device_id) ORDER BY u.device_id`

const peakSQL = `
WITH peak AS (SELECT ts FROM process.memory GROUP BY ts ORDER BY sum(coalesce(anon, 0)) DESC, ts DESC LIMIT 1),
g AS (SELECT * FROM cgroup.memory WHERE ts = (SELECT ts FROM peak) LIMIT 1),
h AS (SELECT total FROM host.memory WHERE ts = (SELECT ts FROM peak) LIMIT 1),
k AS (SELECT c.*, s.anon FROM (SELECT *, abs(epoch_us(ts) - (SELECT epoch_us(ts) FROM peak)) AS apart
  FROM process.classes QUALIFY row_number() OVER (PARTITION BY pid, start_ticks ORDER BY apart) = 1) c
  ASOF LEFT JOIN process.memory s ON s.pid = c.pid AND s.start_ticks = c.start_ticks AND c.ts >= s.ts),
d AS (SELECT pid, start_ticks, abs(epoch_us(ts) - (SELECT epoch_us(ts) FROM peak)) AS apart,
    pss_anon / nullif(anon, 0) AS divided
  FROM process.memory WHERE pss_anon IS NOT NULL
  QUALIFY row_number() OVER (PARTITION BY pid, start_ticks ORDER BY apart) = 1)
SELECT m.pid, m.rank, coalesce(t.role, 'other') AS role, coalesce(t.command, '') AS command, m.rss, m.pss, m.anon,
  m.file, m.shmem, m.swap, m.page_tables, m.heap_in_use, m.heap_held, g.current, g.limit_bytes AS "limit",
  g.anon AS cgroupanon, g.file AS cgroupfile, g.shmem AS cgroupshmem,
  g.kernel AS cgroupkernel, g.page_tables AS cgrouptables, g.path, h.total AS host,
  CASE WHEN k.pid IS NULL OR d.apart <= k.apart THEN d.divided END AS divided,
  CASE WHEN k.pid IS NOT NULL THEN {'PSS': k.pss, 'heap_in_use': k.heap_in_use, 'heap_free': k.heap_free,
    'python_arenas': k.python_arenas, 'anonymous': k.anonymous, 'stacks': k.stacks, 'file': k.file, 'shared': k.shared,
    'pinned': k.pinned, 'anon': k.anon} END AS maps
FROM process.memory m LEFT JOIN process.tree t ON t.pid = m.pid AND t.start_ticks = m.start_ticks
LEFT JOIN d ON d.pid = m.pid AND d.start_ticks = m.start_ticks LEFT JOIN g ON true LEFT JOIN h ON true
LEFT JOIN k ON k.pid = m.pid AND k.start_ticks = m.start_ticks
WHERE m.ts = (SELECT ts FROM peak) ORDER BY m.rss DESC`
