-- Statements of users and documents that must run as they stand. `later` marks those whose tables come with a later release.

SELECT * FROM python.torch_trace LIMIT 10;

SELECT func, file, lineno, depth FROM python.backtrace ORDER BY depth LIMIT 10;

SELECT func, file, lineno FROM python.backtrace WHERE depth = 0;

SELECT step, module, stage, duration, allocated FROM python.torch_trace WHERE step >= 5 ORDER BY step DESC, seq;

SELECT local_step, module, stage, duration, allocated FROM python.torch_trace WHERE local_step > 1 AND duration > 0 ORDER BY local_step DESC, seq;

SELECT step, avg(allocated) as avg_memory_mb, max(allocated) as peak_memory_mb, min(allocated) as min_memory_mb FROM python.torch_trace WHERE step IS NOT NULL GROUP BY step ORDER BY step;

SELECT step, max(allocated) - min(allocated) as memory_growth_mb FROM python.torch_trace WHERE step > (SELECT max(step) - 10 FROM python.torch_trace) GROUP BY step HAVING max(allocated) - min(allocated) > 50 ORDER BY step;

SELECT module, stage, avg(allocated) as avg_memory, count(*) as execution_count FROM python.torch_trace WHERE module IS NOT NULL GROUP BY module, stage ORDER BY avg_memory DESC LIMIT 10;

WITH memory_trend AS (SELECT step, max(allocated) as peak_memory, LAG(max(allocated)) OVER (ORDER BY step) as prev_peak FROM python.torch_trace GROUP BY step) SELECT step, peak_memory, prev_peak, peak_memory - prev_peak as growth FROM memory_trend WHERE peak_memory > prev_peak ORDER BY step;

SELECT stage, avg(allocated) as avg_allocated, avg(max_allocated) as avg_peak, avg(cached) as avg_cached FROM python.torch_trace WHERE step = (SELECT max(step) FROM python.torch_trace) GROUP BY stage ORDER BY avg_peak DESC;

SELECT module, stage, stddev(allocated) as memory_variance, max(allocated) - min(allocated) as memory_range FROM python.torch_trace GROUP BY module, stage HAVING stddev(allocated) > 10 ORDER BY memory_variance DESC;

SELECT module, stage, count(*) as execution_count, avg(duration) as avg_duration, max(duration) as max_duration FROM python.torch_trace WHERE local_step > (SELECT max(local_step) - 10 FROM python.torch_trace) AND duration > 0 GROUP BY module, stage ORDER BY avg_duration DESC LIMIT 10;

SELECT local_step, allocated, LAG(allocated) OVER (ORDER BY local_step, seq) as prev_memory, LEAD(allocated) OVER (ORDER BY local_step, seq) as next_memory, ROW_NUMBER() OVER (ORDER BY allocated DESC) as memory_rank FROM python.torch_trace WHERE local_step > (SELECT max(local_step) - 5 FROM python.torch_trace);

SELECT step, SUM(CASE WHEN stage = 'post forward' THEN duration ELSE 0 END) as forward_time, SUM(CASE WHEN stage = 'post step' THEN duration ELSE 0 END) as optimizer_time FROM python.torch_trace WHERE step > (SELECT MAX(step) - 5 FROM python.torch_trace) GROUP BY step ORDER BY step;

SELECT module, AVG(duration) as avg_time, AVG(allocated) as avg_memory FROM python.torch_trace WHERE module LIKE '%attention%' OR module LIKE '%attn%' GROUP BY module ORDER BY avg_time DESC;

SELECT module, stage, AVG(duration) as avg_duration, COUNT(*) as calls FROM python.torch_trace WHERE stage IN ('post forward', 'post step') GROUP BY module, stage ORDER BY avg_duration DESC LIMIT 10;

SELECT local_step, AVG(allocated) as avg_mb, MAX(allocated_delta) as max_delta_mb FROM python.torch_trace GROUP BY local_step ORDER BY local_step;

SELECT ts, mem_used_pct, gpu_util_pct FROM gpu.utilization ORDER BY ts DESC LIMIT 20;

SELECT wchan, count(*) AS samples, max(comm) AS example_comm FROM cpu.utilization WHERE scope = 'thread' AND wchan != '' GROUP BY wchan ORDER BY samples DESC LIMIT 8;
