-- What the samplers read from outside of the trainer: processes, cgroup, host, GPUs. Sizes in bytes, NULL is what was not
-- taken or can't be had. See docs/memory-picture.md.
CREATE SCHEMA process;
CREATE SCHEMA cpu;
CREATE SCHEMA cgroup;
CREATE SCHEMA host;
CREATE SCHEMA gpu;

CREATE TABLE store.process_memory (
  ts TIMESTAMP NOT NULL, pid INTEGER NOT NULL, start_ticks BIGINT NOT NULL, rank INTEGER,
  rss BIGINT, anon BIGINT, file BIGINT, shmem BIGINT, swap BIGINT, hwm BIGINT, page_tables BIGINT, locked BIGINT, pinned BIGINT,
  vm_size BIGINT, pss BIGINT, pss_anon BIGINT, pss_file BIGINT, pss_shmem BIGINT, private_dirty BIGINT, private_clean BIGINT,
  swap_pss BIGINT, heap_in_use BIGINT, heap_held BIGINT, threads INTEGER, minor_faults BIGINT, major_faults BIGINT,
  user_ns BIGINT, system_ns BIGINT, read_bytes BIGINT, written_bytes BIGINT);

CREATE TABLE store.utilization (
  ts TIMESTAMP NOT NULL, pid INTEGER NOT NULL, rank INTEGER, tid INTEGER, comm VARCHAR NOT NULL,
  user_pct DOUBLE, sys_pct DOUBLE, rss BIGINT, threads INTEGER, state VARCHAR NOT NULL, wchan VARCHAR NOT NULL);

CREATE TABLE store.process_tree (
  pid INTEGER NOT NULL, start_ticks BIGINT NOT NULL, ppid INTEGER, rank INTEGER, role VARCHAR NOT NULL, comm VARCHAR NOT NULL,
  command VARCHAR NOT NULL, cgroup VARCHAR NOT NULL, ns_pid INTEGER, started TIMESTAMP, first_seen TIMESTAMP NOT NULL,
  last_seen TIMESTAMP NOT NULL, ended BOOLEAN NOT NULL, peak_rss BIGINT);

CREATE TABLE store.process_envs (ts TIMESTAMP NOT NULL, pid INTEGER NOT NULL, name VARCHAR NOT NULL, value VARCHAR NOT NULL);

CREATE TABLE store.cgroup_memory (
  ts TIMESTAMP NOT NULL, path VARCHAR NOT NULL, version INTEGER NOT NULL, current BIGINT, limit_bytes BIGINT,
  limit_path VARCHAR NOT NULL, high BIGINT, max BIGINT, peak BIGINT, swap BIGINT, swap_max BIGINT,
  anon BIGINT, file BIGINT, shmem BIGINT, kernel BIGINT, kernel_stack BIGINT, page_tables BIGINT, slab BIGINT,
  slab_reclaimable BIGINT, sock BIGINT, inactive_anon BIGINT, active_anon BIGINT, inactive_file BIGINT, active_file BIGINT,
  unevictable BIGINT, file_mapped BIGINT, file_dirty BIGINT, file_writeback BIGINT, minor_faults BIGINT, major_faults BIGINT,
  refault_file BIGINT, refault_anon BIGINT, events_low BIGINT, events_high BIGINT, events_max BIGINT, events_oom BIGINT,
  events_oom_kill BIGINT, psi_some_avg10 DOUBLE, psi_full_avg10 DOUBLE, psi_some_us BIGINT, psi_full_us BIGINT);

CREATE TABLE store.host_memory (
  ts TIMESTAMP NOT NULL, total BIGINT, available BIGINT, free BIGINT, buffers BIGINT, cached BIGINT, anon BIGINT, mapped BIGINT,
  shmem BIGINT, slab BIGINT, slab_reclaimable BIGINT, kernel_stack BIGINT, page_tables BIGINT, dirty BIGINT, writeback BIGINT,
  mlocked BIGINT, swap_total BIGINT, swap_free BIGINT, committed BIGINT, commit_limit BIGINT, huge_total BIGINT, huge_free BIGINT,
  shm_total BIGINT, shm_used BIGINT, oom_kills BIGINT, psi_some_avg10 DOUBLE, psi_full_avg10 DOUBLE, psi_some_us BIGINT,
  psi_full_us BIGINT);

CREATE TABLE store.gpu_devices (
  ts TIMESTAMP NOT NULL, device_id INTEGER NOT NULL, uuid VARCHAR NOT NULL, name VARCHAR NOT NULL, vendor VARCHAR NOT NULL,
  driver VARCHAR NOT NULL, bus_id VARCHAR NOT NULL, total_bytes BIGINT, parent INTEGER, unified BOOLEAN NOT NULL,
  visible_as INTEGER, state VARCHAR NOT NULL);

CREATE TABLE store.gpu_utilization (
  ts TIMESTAMP NOT NULL, device_id INTEGER NOT NULL, name VARCHAR NOT NULL, used_bytes BIGINT, free_bytes BIGINT,
  total_bytes BIGINT, reserved_bytes BIGINT, gpu_util_pct BIGINT, mem_util_pct BIGINT, temperature_c BIGINT, power_mw BIGINT,
  power_limit_mw BIGINT, sm_clock_mhz BIGINT, mem_clock_mhz BIGINT, throttle VARCHAR NOT NULL, ecc_corrected BIGINT,
  ecc_uncorrected BIGINT, pcie_rx_bytes BIGINT, pcie_tx_bytes BIGINT, pcie_generation BIGINT, pcie_width BIGINT,
  state VARCHAR NOT NULL);

CREATE TABLE store.gpu_processes (
  ts TIMESTAMP NOT NULL, device_id INTEGER NOT NULL, pid INTEGER NOT NULL, kind VARCHAR NOT NULL, used_bytes BIGINT,
  in_job BOOLEAN NOT NULL, comm VARCHAR NOT NULL);

CREATE TABLE store.gpu_events (
  ts TIMESTAMP NOT NULL, device_id INTEGER NOT NULL, kind VARCHAR NOT NULL, code BIGINT, text VARCHAR NOT NULL);

CREATE TABLE store.event_window (
  ts TIMESTAMP NOT NULL, event_ts TIMESTAMP NOT NULL, scope VARCHAR NOT NULL, pid INTEGER, name VARCHAR NOT NULL, bytes BIGINT);

CREATE VIEW process.memory AS SELECT
  ts, pid, rank, rss, pss, anon, file, shmem, swap, private_dirty, private_clean, pss_anon, pss_file, pss_shmem, swap_pss, hwm,
  page_tables, locked, pinned, vm_size, heap_in_use, heap_held, heap_held - heap_in_use AS heap_free, threads, minor_faults,
  major_faults, user_ns / 1e9::DOUBLE AS cpu_user, system_ns / 1e9::DOUBLE AS cpu_system, read_bytes, written_bytes, start_ticks
  FROM store.process_memory;

CREATE VIEW process.tree AS SELECT
  pid, ppid, rank, role, comm, command, cgroup, ns_pid, started, first_seen, last_seen, ended, peak_rss, start_ticks
  FROM store.process_tree;

CREATE VIEW process.envs AS SELECT ts, pid, name, value FROM store.process_envs;

CREATE VIEW cpu.utilization AS SELECT
  ts, pid, rank, CASE WHEN tid IS NULL THEN 'process' ELSE 'thread' END AS scope, tid, comm, user_pct AS cpu_user_pct,
  sys_pct AS cpu_sys_pct, user_pct + sys_pct AS cpu_total_pct, rss // 1024 AS rss_kb, threads AS thread_count, state, wchan
  FROM store.utilization;

CREATE VIEW cgroup.memory AS SELECT
  ts, path, version, current, limit_bytes, limit_path, high, max, peak, swap, swap_max, anon, file, shmem, kernel, kernel_stack,
  page_tables, slab, slab_reclaimable, sock, inactive_anon, active_anon, inactive_file, active_file, unevictable, file_mapped,
  file_dirty, file_writeback, minor_faults, major_faults, refault_file, refault_anon, events_low, events_high, events_max,
  events_oom, events_oom_kill, psi_some_avg10, psi_full_avg10, psi_some_us, psi_full_us
  FROM store.cgroup_memory;

CREATE VIEW host.memory AS SELECT
  ts, total, available, free, buffers, cached, anon, mapped, shmem, slab, slab_reclaimable, kernel_stack, page_tables, dirty,
  writeback, mlocked, swap_total, swap_free, committed, commit_limit, huge_total, huge_free, shm_total, shm_used, oom_kills,
  psi_some_avg10, psi_full_avg10, psi_some_us, psi_full_us
  FROM store.host_memory;

CREATE VIEW gpu.devices AS SELECT
  ts, device_id, uuid, name, vendor, driver, bus_id, total_bytes, parent, unified, visible_as, state
  FROM store.gpu_devices;

CREATE VIEW gpu.utilization AS SELECT
  ts, device_id, name, used_bytes, free_bytes, total_bytes, reserved_bytes,
  100.0::DOUBLE * used_bytes / nullif(total_bytes, 0) AS mem_used_pct, gpu_util_pct, mem_util_pct, temperature_c,
  power_mw / 1e3::DOUBLE AS power_w, power_limit_mw / 1e3::DOUBLE AS power_limit_w, sm_clock_mhz, mem_clock_mhz, throttle,
  ecc_corrected, ecc_uncorrected, pcie_rx_bytes, pcie_tx_bytes, pcie_generation, pcie_width, state
  FROM store.gpu_utilization;

CREATE VIEW gpu.processes AS SELECT ts, device_id, pid, kind, used_bytes, in_job, comm FROM store.gpu_processes;
CREATE VIEW gpu.events AS SELECT ts, device_id, kind, code, text FROM store.gpu_events;
CREATE VIEW memgauge.event_window AS SELECT ts, event_ts, scope, pid, name, bytes FROM store.event_window;
