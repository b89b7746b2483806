// Package snapshot owns what allocators leave in files: PyTorch's memory snapshots (pickle), event traces (text), RMM's
// logs (CSV). It reads each into one Snapshot without running anything that is in the file, within bounds, and says at
// which byte or line a file is wrong; and it writes Snapshots as a pickle for PyTorch's viewers, as RMM's CSV and as
// JSON lines. It knows neither how an allocator decides nor what a finding is.
package snapshot
