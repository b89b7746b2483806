"""What the guard goes by: memories with their limits, read at the end of a step.

A look costs some 2 µs for the process (statm) and 20 to 60 µs for a cgroup (usage, limit, stat). `used` is what the
kernel can't take back: file pages can be dropped or written, so they are not what an OOM kill comes from
(mm/memcontrol.c, try_charge_memcg reclaims them before it calls mem_cgroup_oom)."""
import os
import resource

from ..pipe import proc

RESCAN = 10.0        # s: somebody may set a limit, or move the process
NO_LIMIT = 1 << 50   # v1 writes "no limit" as a number near 2^63
MAX_TEXT = 1 << 16   # of a file in /proc or /sys/fs/cgroup


class Reading:
    """Bytes; limit None: there is none that we know of. peak: the most since the reading before, as far as counters
    tell."""

    __slots__ = ("used", "limit", "peak", "held")

    def __init__(self, used, limit=None, peak=None, held=None):
        self.used, self.limit, self.peak, self.held = used, limit, peak or used, held


class Memories:
    """All that can be read. root is another file system's in tests."""

    def __init__(self, observer, root=""):
        self.observer, self.root = observer, root
        self.highest = 0          # ru_maxrss when it was last looked at
        self.levels, self.scanned = [], -RESCAN
        self.totals = {}          # device -> (bytes, when)
        self.peaks = {}           # device -> the allocator's highest, as last read

    def read(self, now):
        """{name: Reading}: process, cgroup, rlimit, ram, device:N."""
        resident, private = self.observer.host.memory()
        if resident < 0:          # NOT_TAKEN
            return {}
        highest = self.observer.host.max_resident()
        rise = highest - resident if self.highest and highest > self.highest else 0
        self.highest = max(highest, self.highest)
        found = {"process": Reading(private, peak=private + rise)}
        for name, reading in (("cgroup", self._cgroup(now)), ("rlimit", self._rlimit(private)), ("ram", self._ram())):
            if reading is not None:
                reading.peak = reading.used + rise
                found[name] = reading
        self._devices(now, found)
        return found

    # --- the host's -------------------------------------------------------------------------------------------------

    def _ram(self):
        fields = _table(_text(self.root + "/proc/meminfo"), ":")
        total, free = fields.get("MemTotal"), fields.get("MemAvailable")
        return None if not total or free is None else Reading((total - free) << 10, total << 10)

    def _rlimit(self, private):
        """Of data: what malloc and mmap get. The kernel counts what is mapped, touched or not (mm/mmap.c,
        may_expand_vm)."""
        best = None
        for which, field in ((resource.RLIMIT_DATA, 5), (resource.RLIMIT_AS, 0)):
            limit = resource.getrlimit(which)[0]
            if limit == resource.RLIM_INFINITY or limit <= 0:
                continue
            words = _text("/proc/self/statm").split()
            if len(words) == 7:
                used = int(words[field]) * self.observer.host.page
                if best is None or limit - used < best.limit - best.used:
                    best = Reading(used, limit)
        return best

    def _cgroup(self, now):
        """The level of the hierarchy with the least room, of those that have a limit."""
        if now - self.scanned > RESCAN:
            self.scanned, self.levels = now, levels(self.root)
        best = None
        for folder, version in self.levels:
            limit = _number(_text(folder + ("/memory.max" if version == 2 else "/memory.limit_in_bytes")))
            usage = _number(_text(folder + ("/memory.current" if version == 2 else "/memory.usage_in_bytes")))
            if limit is None or usage is None or limit >= NO_LIMIT:
                continue
            stat, total = _table(_text(folder + "/memory.stat")), "total_" if version == 1 else ""
            files = stat.get(total + "inactive_file", 0) + stat.get(total + "active_file", 0)
            used = max(0, usage - files)
            if best is None or limit - used < best.limit - best.used:
                best = Reading(used, limit)
        return best

    # --- devices ----------------------------------------------------------------------------------------------------

    def _devices(self, now, found):
        cuda = self.observer.cuda
        if not cuda.ready() or cuda.capturing():
            return
        devices = set(self.observer.calls.devices) if self.observer.modules else set()
        devices.add(cuda.current())
        for device in devices:
            allocated, peak, reserved, _ = cuda.read(device)
            before, self.peaks[device] = self.peaks.get(device, peak), peak
            found["device:%d" % device] = Reading(allocated, self._room(device, reserved, now),
                                                  peak if peak > before else allocated, reserved)

    def _room(self, device, reserved, now):
        """What PyTorch could have of the device: what is free, and what it holds already."""
        known = self.totals.get(device)
        if known is None or now - known[1] > 1.0:
            try:
                free = self.observer.torch.cuda.mem_get_info(device)[0]
            except (AttributeError, RuntimeError):      # torch 1.10 and older; a driver that doesn't tell
                return None
            known = self.totals[device] = free + reserved, now
        return known[0]


def tightest(readings):
    """The name of the host's memory with the least room for its size: what `limit` means in a policy."""
    names = [n for n in ("cgroup", "rlimit", "ram") if n in readings]
    return min(names, key=lambda n: 1 - readings[n].used / readings[n].limit, default=None)


def levels(root=""):
    """The folders of this process's memory cgroup and of those above it, with the version of each."""
    paths = {}
    for line in _text(root + "/proc/self/cgroup").splitlines():
        number, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if number == "0" and not controllers:
            paths[2] = path
        elif "memory" in controllers.split(","):
            paths[1] = path
    for line in _text(root + "/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        left, right = left.split(), right.split()
        if len(left) < 5 or len(right) < 3:
            continue
        version = 2 if right[0] == "cgroup2" else 1 if right[0] == "cgroup" and "memory" in right[2].split(",") else 0
        if version not in paths or version == 2 and 1 in paths:
            continue        # the memory controller is the v1 hierarchy's
        return _upwards(root + left[4], _below(paths[version], left[3]), version)
    return []


def _below(path, mounted):
    """In a container without a cgroup namespace the mount shows only a part of the host's hierarchy."""
    if mounted == "/":
        return path
    return path[len(mounted):] if (path + "/").startswith(mounted + "/") else ""


def _upwards(point, path, version):
    found, parts = [], [p for p in path.split("/") if p and p != ".."]
    for n in range(len(parts), -1, -1):
        folder = "/".join([point] + parts[:n])
        if os.path.isdir(folder):
            found.append((folder, version))
    return found


def _text(path):
    try:
        return proc(path, MAX_TEXT).decode("ascii", "replace")
    except OSError:
        return ""


def _number(text):
    text = text.strip()
    return int(text) if text.isdigit() else None       # v2 writes "max"


def _table(text, end=""):
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and words[1].isdigit():
            found[words[0][:-1] if end and words[0].endswith(end) else words[0]] = int(words[1])
    return found
