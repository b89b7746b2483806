"""Readings of this process's memory for tests: what it holds, and the peak since a moment."""
import gc
import threading

from .._agent import torchhook
from .._agent.gauges.memory import NOT_TAKEN, Host

SAMPLE = 0.002      # s between two readings if the kernel's own peak can't be reset


def collect():
    """Frees garbage in cycles, and memory that malloc keeps, since both would count for the next test."""
    gc.collect()
    try:
        import ctypes
        ctypes.CDLL(None).malloc_trim(0)
    except (ImportError, OSError, AttributeError):      # musl has none
        pass


class Memory:
    """Readings of this process's memory, by name, in bytes."""

    def __init__(self):
        self.host = Host()

    def read(self):
        """{"private memory": bytes, "heap": bytes, "cuda:0": bytes}, without those that can't be read."""
        out = {}
        resident, private = self.host.memory()
        if private != NOT_TAKEN:
            out["private memory"] = private
        mallinfo = self.host.mallinfo()
        if mallinfo is not None:
            info = mallinfo()
            out["heap"] = info.uordblks + info.hblkhd
        for device in _cuda_devices():
            out["cuda:%d" % device] = torchhook.cuda().memory_allocated(device)
        return out

    def resident(self):
        """Resident bytes; 0 if unknown."""
        resident, _ = self.host.memory()
        return 0 if resident == NOT_TAKEN else resident

    def close(self):
        """Closes the files that readings keep open."""
        self.host.close()


class Peak:
    """The highest resident memory from start() to stop(), above what there was at start(); the same of each GPU that
    PyTorch uses."""

    def __init__(self, memory):
        self.memory, self.before, self.devices = memory, 0, {}
        self._thread = None

    def start(self):
        """Resets the peaks and begins to measure."""
        self.before = self.memory.resident()
        for device in _cuda_devices():
            cuda = torchhook.cuda()
            cuda.reset_peak_memory_stats(device)
            self.devices[device] = cuda.memory_allocated(device)
        try:
            with open("/proc/self/clear_refs", "w") as f:       # proc(5): 5 resets the peak
                f.write("5")
        except OSError:
            self._thread = _Sampler(self.memory)
            self._thread.start()

    def stop(self):
        """{"host": bytes, "cuda:0": bytes}"""
        if self._thread is not None:
            peak = self._thread.end()
        else:
            peak = _kernels_peak()
        out = {"host": max(0, max(peak, self.memory.resident()) - self.before)}
        for device in _cuda_devices():
            out["cuda:%d" % device] = max(0, torchhook.cuda().max_memory_allocated(device)
                                          - self.devices.get(device, 0))
        return out


class _Sampler(threading.Thread):
    def __init__(self, memory):
        super().__init__(name="memgauge-peak", daemon=True)
        self.memory, self.peak, self.over = memory, 0, threading.Event()

    def run(self):
        while not self.over.wait(SAMPLE):
            self.peak = max(self.peak, self.memory.resident())

    def end(self):
        self.over.set()
        self.join()
        return self.peak


def _kernels_peak():
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return 0


def _cuda_devices():
    """The CUDA devices that the program itself uses."""
    cuda = torchhook.cuda()
    return () if cuda is None else range(cuda.device_count())
