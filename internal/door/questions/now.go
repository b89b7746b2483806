package questions

// Now is what each process holds. A process is sampled every second, and its rows are thinned to one in 10 s later:
// without a row for 15 s it is gone.
const Now Of[ProcessNow] = `WITH m AS (SELECT * FROM process.memory
		WHERE ts > (SELECT max(ts) FROM process.memory) - INTERVAL 15 SECOND
		QUALIFY row_number() OVER (PARTITION BY pid, start_ticks ORDER BY ts DESC) = 1)
	SELECT m.rank, coalesce(t.role, 'other') AS role, t.ended AS ended, epoch_ms(m.ts) / 1000 AS moment, m.anon,
		m.file, m.shmem, m.swap, m.page_tables, m.heap_in_use, m.heap_free
	FROM m LEFT JOIN process.tree t USING (pid, start_ticks) ORDER BY m.rank NULLS LAST`

// ProcessNow is what a process holds.
type ProcessNow struct {
	Rank  *int
	Role  string
	Ended *bool
	At    float64 `json:"moment"`
	Anon, File,
	Shmem, Swap *float64
	PageTables *float64 `json:"page_tables"`
	HeapInUse  *float64 `json:"heap_in_use"`
	HeapFree   *float64 `json:"heap_free"`
}

// trainers: the trainer of a rank is the process that lives; if several made steps, the one that made most.
const trainers = `WITH last AS (SELECT pid, max(step) AS step FROM python.steps WHERE NOT inference GROUP BY pid),
	trainer AS (SELECT l.pid, l.step FROM last l LEFT JOIN memgauge.processes p USING (pid)
		QUALIFY row_number() OVER (PARTITION BY p.rank ORDER BY p.ended IS NOT NULL, l.step DESC, l.pid) = 1)`

// LastSteps are where each trainer is. Memory is not read in every step: the newest reading counts.
const LastSteps Of[LastStep] = trainers + ` SELECT any_value(s.rank) AS rank, max(s.step) AS step,
		sum(s.duration) FILTER (s.step > t.step - 20) /
			sum(s.steps) FILTER (s.step > t.step - 20 AND s.duration IS NOT NULL) AS duration,
		arg_max(s.device, s.step) AS device, arg_max(s.allocated, s.step) FILTER (s.allocated IS NOT NULL) AS allocated,
		arg_max(s.reserved, s.step) FILTER (s.reserved IS NOT NULL) AS reserved,
		arg_max(s.max_allocated, s.step) FILTER (s.max_allocated IS NOT NULL) AS peak
	FROM python.steps s JOIN trainer t USING (pid) WHERE NOT s.inference GROUP BY s.pid ORDER BY rank NULLS LAST`

// StepDevices are what the allocator of each device had at the last step.
const StepDevices Of[LastStep] = trainers + ` SELECT any_value(d.rank) AS rank, d.device,
		arg_max(d.allocated, d.step) AS allocated,
		arg_max(d.reserved, d.step) AS reserved, NULL AS peak
	FROM python.step_devices d JOIN trainer t USING (pid) WHERE NOT d.inference GROUP BY d.pid, d.device
	ORDER BY rank NULLS LAST, d.device`

// LastStep is where a trainer is, on one device.
type LastStep struct {
	Rank                      *int
	Step                      float64
	Device                    *string
	Duration                  *float64
	Allocated, Reserved, Peak *float64
}

// Charge is what the kernel has charged the job.
type Charge struct {
	Current, Anon, File, Shmem, Kernel *float64
	OOMKills                           *float64 `json:"events_oom_kill"`
	Some                               *float64 `json:"psi_some_us"`
	Full                               *float64 `json:"psi_full_us"`
}

// Charged is the newest count of the job's cgroup.
const Charged Of[Charge] = "FROM cgroup.memory ORDER BY ts DESC LIMIT 1"

// HostNow is the machine's memory.
type HostNow struct{ Total, Available *float64 }

// Host is its newest reading.
const Host Of[HostNow] = "SELECT total, available FROM host.memory ORDER BY ts DESC LIMIT 1"

// GPUNow is how a GPU stands.
type GPUNow struct {
	Device      int      `json:"device_id"`
	Used        *float64 `json:"used_bytes"`
	Total       *float64 `json:"total_bytes"`
	Busy        *float64 `json:"gpu_util_pct"`
	Temperature *float64 `json:"temperature_c"`
	Power       *float64 `json:"power_w"`
}

// GPUs are the newest readings of those that were read lately.
const GPUs Of[GPUNow] = `SELECT device_id, used_bytes, total_bytes, gpu_util_pct, temperature_c, power_w
		FROM gpu.utilization WHERE ts > (SELECT max(ts) FROM gpu.utilization) - INTERVAL 15 SECOND
		QUALIFY row_number() OVER (PARTITION BY device_id ORDER BY ts DESC) = 1 ORDER BY device_id`
