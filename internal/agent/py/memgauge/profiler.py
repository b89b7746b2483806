"""memgauge.profiler.profile_memory(): what a stretch of code did with the memory of our devices."""
import sys

from . import allocator


class profile_memory:
    """A context manager. Without a device all of ours are measured, also those that are opened inside, and CUDA devices
    that PyTorch's own allocator has. Profiles may nest, on PyTorch's with one restriction: it has one peak for
    everybody, which begins anew where a profile begins."""

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
            if getattr(cuda, "is_initialized", lambda: True)():  # to ask earlier would start CUDA
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
            # the whole life of these was in here
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
        """The statistics of the stretch, by device."""
        return {name: stats for name, (stats, _) in self._now().items()}

    def memory_summary(self):
        """The statistics of the stretch for people; of all devices that took part."""
        parts = [text for _, text in self._now().values()]
        return "\n".join(parts) if parts else "no device of memgauge's was used"

    def peak_memory(self):
        """The most bytes that were allocated at once; of several devices the sum of each one's peak."""
        return sum(stats["peak_allocated"] for stats, _ in self._now().values())


# What only grows, of PyTorch's statistics and ours.
COUNTS = ("num_allocations", "num_cache_hits", "num_cache_misses", "num_ooms", "num_alloc_retries",
          "num_sync_all_streams",
          "num_device_alloc", "num_device_free")
