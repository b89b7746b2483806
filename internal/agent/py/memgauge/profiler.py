"""memgauge.profiler.profile_memory(): what a stretch of code did with the memory of our devices."""
from . import allocator


class profile_memory:
    """A context manager. Without a device all of ours are measured, also those that are opened inside. Profiles may nest."""

    def __init__(self, device=None):
        self._given = None if device is None else allocator.device(device)
        self._windows = []
        self._before = ()
        self._results = {}

    def __enter__(self):
        measured = allocator.devices() if self._given is None else [self._given]
        self._before = set(measured)
        for device in measured:
            if isinstance(device, allocator.TorchDevice):
                raise ValueError("profile_memory measures memgauge's own allocator; this device is PyTorch's")
            self._windows.append((device, self._open(device)))
        return self

    @staticmethod
    def _open(device):
        window = device.lib.memgauge_window(device.handle)
        if window == 0:
            raise allocator.failure(device.lib)
        return window

    def __exit__(self, *_):
        if self._given is None:
            self._windows += [(d, 0) for d in allocator.devices() if d not in self._before]  # their whole life was in here
        for device, window in self._windows:
            self._results[str(device)] = device.memory_stats(window), device.memory_summary(window)
            if window:
                device.lib.memgauge_window_close(device.handle, window)
        self._windows = []

    def _now(self):
        if not self._windows:
            return self._results
        return {str(d): (d.memory_stats(w), d.memory_summary(w)) for d, w in self._windows}

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
