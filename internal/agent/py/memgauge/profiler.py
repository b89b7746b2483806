"""memgauge.profiler.profile_memory(): measures what a section of code does with device memory."""
import sys

from . import allocator


class profile_memory:
    """A context manager. Without a device it measures all of ours, also those that are opened inside, and the CUDA
    devices of PyTorch's own allocator. Profiles may nest. PyTorch's allocator has one restriction: it has one peak for
    all users, which is reset where a profile begins."""

    def __init__(self, device=None):
        self._given = None if device is None else allocator.device(device)
        self._windows = []
        self._before = ()
        self._results = {}

    def __enter__(self):
        measured = self._all() if self._given is None else [self._given]
        self._before = set(measured)
        for device in measured:
            self._windows.append((device, self._open(device)))
        return self

    @staticmethod
    def _all():
        found = allocator.devices()
        if not allocator.replaced() and allocator._torch_uses_cuda():
            cuda = sys.modules["torch"].cuda
            if getattr(cuda, "is_initialized", lambda: True)():  # an earlier query would start CUDA
                found += [allocator.TorchDevice(i) for i in range(getattr(cuda, "device_count", lambda: 1)())]
        return found

    @staticmethod
    def _open(device):
        if isinstance(device, allocator.TorchDevice):
            before = device.memory_stats()
            sys.modules["torch"].cuda.reset_peak_memory_stats(device.index)
            return before
        window = device.lib.memgauge_window(device.handle)
        if window == 0:
            raise allocator.failure(device.lib)
        return window

    @staticmethod
    def _measure(device, window):
        if not isinstance(device, allocator.TorchDevice):
            return device.memory_stats(window), device.memory_summary(window)
        stats = device.memory_stats()
        for key, before in window.items():
            if key.endswith((".allocated", ".freed")) or key in COUNTS:
                stats[key] = stats.get(key, before) - before
        count = stats["num_allocations"]
        stats["cache_hit_rate"] = stats["num_cache_hits"] / count if count else 0.0
        return stats, device.memory_summary()

    def __exit__(self, *_):
        if self._given is None:
            # these were opened inside
            self._windows += [(d, {} if isinstance(d, allocator.TorchDevice) else 0)
                              for d in self._all() if d not in self._before]
        for device, window in self._windows:
            self._results[str(device)] = self._measure(device, window)
            if window and isinstance(device, allocator.Device):
                device.lib.memgauge_window_close(device.handle, window)
        self._windows = []

    def _now(self):
        if not self._windows:
            return self._results
        return {str(d): self._measure(d, w) for d, w in self._windows}

    def memory_stats(self):
        """Returns the section's statistics, by device."""
        return {name: stats for name, (stats, _) in self._now().items()}

    def memory_summary(self):
        """Returns the section's statistics as text, for all devices that were measured."""
        parts = [text for _, text in self._now().values()]
        return "\n".join(parts) if parts else "no device of memgauge's was used"

    def peak_memory(self):
        """Returns the most bytes allocated at once; for several devices the sum of their peaks."""
        return sum(stats["peak_allocated"] for stats, _ in self._now().values())


# Statistics, PyTorch's and ours, that only grow.
COUNTS = ("num_allocations", "num_cache_hits", "num_cache_misses", "num_ooms", "num_alloc_retries",
          "num_sync_all_streams",
          "num_device_alloc", "num_device_free")
