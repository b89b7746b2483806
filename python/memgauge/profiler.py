"""memgauge.profiler.profile_memory(): measures what a section of code does with memory."""
import time

from . import allocator, cpumemory
from ._agent import torchhook


class profile_memory:
    """A context manager. Without a device it measures all of ours, also those that are opened inside, the CUDA devices
    of PyTorch's own allocator, and what PyTorch allocates on the CPU ("torch cpu"; memory_summary() says what can't be
    seen there). Profiles may nest. PyTorch's allocator for CUDA has one peak for all users, which is reset where a
    profile begins."""

    def __init__(self, device=None):
        self._given = None if device is None else allocator.device(device)
        self._windows = []
        self._before = ()
        self._results, self._events = {}, {}
        self._began, self._running = 0.0, False
        self._cpu, self._notes = None, []

    def __enter__(self):
        measured = self._all() if self._given is None else [self._given]
        self._before = set(measured)
        for device in measured:
            self._windows.append((device, self._open(device)))
        self._began, self._running = time.time(), True
        if self._given is None:
            self._cpu = self._noted(cpumemory.begin)
        return self

    def _noted(self, call, *arguments):
        """What the call gives; None and a note for the summary where PyTorch's memory on the CPU can't be seen."""
        try:
            return call(*arguments)
        except cpumemory.Unseen as why:
            self._note("PyTorch's memory on the CPU was not measured to the end: %s" % why)
            return None

    def _note(self, text):
        if text not in self._notes:
            self._notes.append(text)

    @staticmethod
    def _all():
        found = allocator.devices()
        if not allocator.replaced() and allocator._torch_uses_cuda():
            cuda = torchhook.cuda()     # an earlier query would start CUDA
            found += [allocator.TorchDevice(i) for i in range(cuda.device_count() if cuda is not None else 0)]
        return found

    @staticmethod
    def _open(device):
        if isinstance(device, allocator.TorchDevice):
            before = device.memory_stats()
            device._cuda.reset_peak_memory_stats(device.index)
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
        if self._cpu is not None:
            self._noted(cpumemory.end, self._cpu)
        elif self._given is None and not self._notes and torchhook.loaded("torch") is not None:
            self._note("PyTorch was imported within the section: its memory on the CPU was not measured")
        if self._given is None:
            # these were opened inside
            self._windows += [(d, {} if isinstance(d, allocator.TorchDevice) else 0)
                              for d in self._all() if d not in self._before]
        self._events = self.memory_events()
        for device, window in self._windows:
            self._results[str(device)] = self._measure(device, window)
            if window and isinstance(device, allocator.Device):
                device.lib.memgauge_window_close(device.handle, window)
        self._windows, self._running = [], False

    def _now(self):
        found = dict(self._results) if not self._running else {str(d): self._measure(d, w) for d, w in self._windows}
        if self._cpu is not None:
            self._noted(cpumemory.look, self._cpu)
            found[cpumemory.NAME] = self._cpu.stats(), self._cpu.summary()
        return found

    def memory_events(self):
        """Returns the section's allocations and frees by device, as device.memory_events() has them. Those of "torch
        cpu" have no durations."""
        if not self._running:
            return self._events
        found = {}
        for device, _ in self._windows:
            try:
                events = device.memory_events()
            except allocator.AllocatorError as why:     # PyTorch records no history of its own
                self._note(str(why))
                continue
            found[str(device)] = [e for e in events if (e["timestamp"] or self._began) >= self._began]
        if self._cpu is not None:
            self._noted(cpumemory.look, self._cpu)
            found[cpumemory.NAME] = list(self._cpu.events)
        return found

    def memory_stats(self):
        """Returns the section's statistics, by device."""
        return {name: stats for name, (stats, _) in self._now().items()}

    def memory_summary(self):
        """Returns the section's statistics as text, for all devices that were measured."""
        parts = [text for _, text in self._now().values()] + self._notes
        return "\n".join(parts) if parts else "no memory was used that memgauge sees: no device of its own, no PyTorch"

    def peak_memory(self):
        """Returns the most bytes allocated at once; for several devices the sum of their peaks."""
        return sum(stats["peak_allocated"] for stats, _ in self._now().values())


# Statistics, PyTorch's and ours, that only grow.
COUNTS = ("num_allocations", "num_cache_hits", "num_cache_misses", "num_ooms", "num_alloc_retries",
          "num_sync_all_streams",
          "num_device_alloc", "num_device_free")
