"""MemoryLeakDetector: the verdict of `memgauge leak` for this process, and how far its memory has grown."""
import gc
import json
import logging
import os
import subprocess
import threading
from datetime import datetime, timezone
from time import monotonic

from ._agent import torchhook
from .feed import FeedError, binary, observed
from .integrations import growth
from .tools import _Tool, _write

LEAK_WAIT = 60.0      # s: a verdict on a long session takes a while
MAX_CHECKS = 10_000   # kept; then every other one goes
MIB = 1 << 20
READINGS = 60         # of those, for a line through them
SURE = 0.95           # of a line that rises faster than the threshold (integrations/growth.py)
PICTURES = (".png", ".svg", ".html")
UNOBSERVED = ("no session observes this process, so neither its steps nor what holds its memory are known: start it "
              "with `memgauge run -- python …`")
NO_THRESHOLD = "; with a threshold (MiB a minute) its growth alone is judged"

log = logging.getLogger("memgauge")


class MemoryLeakDetector(_Tool):
    """Judges whether this process's memory leaks. The verdict is that of `memgauge leak` for the session that observes
    the process (`memgauge run`, or attach). With a threshold (MiB a minute) a slower leak does not count. Without a
    session nothing but growth is known: if it surely exceeds the threshold, that is a leak, else it stays undecided.

    Growth since the start is checked beside that, every check_interval seconds while it monitors and with
    manual_check() anywhere: above warning_threshold_mb and critical_threshold_mb (MB of 2^20 bytes) it warns, once
    each, through the logger `memgauge` or by calling on_warning(check)."""

    def __init__(self, threshold=0.0, check_interval=2.0, devices=None, enable_tracking=False,
                 warning_threshold_mb=500.0, critical_threshold_mb=2000.0, on_warning=None):
        super().__init__(check_interval, devices)
        if not 0 < warning_threshold_mb <= critical_threshold_mb:
            raise ValueError("thresholds are MB above 0, the critical one is the higher")
        self.threshold, self.enable_tracking = threshold, enable_tracking
        self.warning_threshold_mb, self.critical_threshold_mb = warning_threshold_mb, critical_threshold_mb
        self.on_warning = on_warning
        self._thread, self._stop = None, threading.Event()
        self.begin()

    def begin(self):
        """Growth counts from now on."""
        self.checks = []            # the newest last
        self._base, self._told, self._began = _memory(), set(), monotonic()

    # --- the verdict --------------------------------------------------------------------------------------------------

    def start_monitoring(self):
        if self._feed is not None:
            return
        super().start_monitoring()
        self.begin()
        self._stop.clear()
        self._thread = threading.Thread(target=self._watch, name="memgauge-leaks", daemon=True)
        self._thread.start()

    def stop_monitoring(self):
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stop.set()
            thread.join(self.interval)
        super().stop_monitoring()

    def check_for_leaks(self):
        """Returns the present report of `memgauge leak --json` as a dict; without a session one with the same members
        that knows growth alone, and says so (`missing`)."""
        if not observed():
            return self._by_growth()
        command = ["memgauge", str(os.getpid()), "leak", "--json", "--threshold", "%g" % self.threshold]
        for device in self.devices or ():
            command += ["--devices", str(device)]
        if self.enable_tracking:
            command += ["--enable-tracking", "--duration", "%gs" % self.interval]
        done = subprocess.run(command, executable=binary(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=LEAK_WAIT)
        if done.returncode not in (0, 3):   # 3: there is a leak
            raise FeedError(done.stderr.decode("utf-8", "replace").strip())
        return json.loads(done.stdout.decode())

    def _final(self, feed):
        return self.check_for_leaks()

    def _by_growth(self):
        check = self.manual_check()
        checks = self.checks[::-max(1, len(self.checks) // READINGS)][::-1]
        devices, findings = {}, []
        for name in check["memory_mb"]:
            points = {c["time"]: c["memory_mb"][name] for c in checks if name in c["memory_mb"]}
            line = growth.beyond(list(points), list(points.values()), self.threshold / 60) if self.threshold else None
            found = _finding(name, line, check, self._base.get(name), len(points))
            findings.append(found)
            devices[name.rpartition(":")[2]] = {
                "current_memory": int(check["memory_mb"][name] * MIB), "memory_growth": found["growth_bytes"],
                "growth_rate_mb_per_min": found["rate_mb_per_second"] * 60, "growth_rate_mb_per_step": None,
                "leak_detected": line is not None, "samples_count": len(points), "verdict": found["verdict"]}
        return _report(self, check, devices, sorted(findings, key=lambda f: -f["rate_mb_per_second"]))

    # --- growth -------------------------------------------------------------------------------------------------------

    def _watch(self):
        """On a thread of ours: reads files of /proc and counters, nothing that the training works on."""
        while not self._stop.wait(self.interval):
            self.manual_check()

    def manual_check(self):
        """Checks now. Returns {"level": "ok", "warning" or "critical", "time" (s since the start), "growth_mb", and
        by memory, host and cuda:N, "memory_mb"}."""
        now = _memory()
        growth = max((now[name] - self._base.get(name, now[name]) for name in now), default=0) / MIB
        level = "critical" if growth >= self.critical_threshold_mb else \
            "warning" if growth >= self.warning_threshold_mb else "ok"
        check = {"level": level, "time": round(monotonic() - self._began, 3), "growth_mb": round(growth, 2),
                 "memory_mb": {name: round(value / MIB, 2) for name, value in now.items()}}
        self.checks.append(check)
        if len(self.checks) > MAX_CHECKS:
            del self.checks[1::2]
        if level != "ok" and level not in self._told:
            self._told.add(level)
            self._warn(check)
        return check

    def _warn(self, check):
        if self.on_warning is not None:
            self.on_warning(check)
            return
        log.warning("%s: memory has grown by %.0f MB in %.0f s: %s", check["level"], check["growth_mb"], check["time"],
                    "`memgauge %d leak` tells what holds it" % os.getpid() if observed() else
                    "a run with `memgauge run -- python …` tells what holds it")

    def force_cleanup(self):
        """Collects garbage, gives PyTorch's unused device memory and malloc's free memory back. Call it between two
        steps. Returns what each memory has given back, in MB."""
        before = _memory(True)
        gc.collect()
        cuda = torchhook.cuda()
        if cuda is not None:
            cuda.empty_cache()
        try:
            import ctypes
            ctypes.CDLL(None).malloc_trim(0)
        except (ImportError, OSError, AttributeError):      # not glibc
            pass
        after = _memory(True)
        return {name: round((before[name] - after[name]) / MIB, 2) for name in before if name in after}

    def get_summary(self):
        """{"checks", "duration" (s), "start_mb", "current_mb", "peak_mb", "growth_mb" (host), "level"}."""
        last = self.manual_check()
        host = [check["memory_mb"]["host"] for check in self.checks]
        return {"checks": len(self.checks), "duration": last["time"], "start_mb": round(self._base["host"] / MIB, 2),
                "current_mb": host[-1], "peak_mb": max(host), "level": last["level"],
                "growth_mb": round(host[-1] - self._base["host"] / MIB, 2)}

    def generate_report(self, output_file=None):
        """Returns the report as a dict. Into a file it goes as JSON, as text (.txt), or as a picture (.png, .svg,
        .html; while it monitors)."""
        path = os.fspath(output_file) if output_file is not None else ""
        if path.endswith(PICTURES):
            if self._feed is None:
                raise FeedError("a picture is drawn of what is being watched: before stop_monitoring()")
            self._feed.report("profile", path)
            return self.get_status_report()
        if path.endswith(".txt"):
            report = self.get_status_report()
            with open(path, "w") as f:
                f.write(self._text(report))
            return report
        if path:
            report = self.get_status_report()
            _write(path, report)
            return report
        return self.get_status_report()

    def _text(self, report):
        summary = self.get_summary()
        lines = ["verdict: %s" % report["verdict"],
                 "host memory: %(start_mb).0f MB at first, %(current_mb).0f MB now, %(peak_mb).0f MB at most" % summary]
        for finding in report.get("findings", ()):
            if finding["verdict"] == "leak":
                rate, unit = finding["rate_mb_per_step"], "step"
                if rate is None:
                    rate, unit = finding["rate_mb_per_second"], "second"
                lines.append("leak: %s %+.2f MB a %s, held by %s" % (
                    finding["memory"], rate or 0, unit, finding["holder"] or "something unknown"))
        lines += ["do: %s" % advice for advice in report.get("recommendations", ())]
        return "\n".join(lines) + "\n"


def _memory(held=False):
    """Bytes: private memory of this process, and what PyTorch has given out, or holds, on each device."""
    with open("/proc/self/statm") as f:
        fields = f.read().split()
    found = {"host": (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")}
    cuda = torchhook.cuda()
    for device in range(cuda.device_count()) if cuda is not None else ():
        found["cuda:%d" % device] = (cuda.memory_reserved if held else cuda.memory_allocated)(device)
    return found


def _finding(name, line, check, base, readings):
    """Of one memory, by time; line is None unless it surely grows faster than the threshold."""
    grown = int(check["memory_mb"][name] * MIB) - (base if base is not None else 0)
    finding = dict.fromkeys(("device", "rank", "rate_mb_per_step", "rate_low", "rate_high", "site", "holder", "held",
                             "missing", "p", "evidence", "advice", "limit", "time_to_limit_seconds",
                             "time_to_limit_low", "time_to_limit_high", "limit_step", "rule", "load"))
    finding.update({
        "verdict": "undecided" if line is None else "leak", "class": None if line is None else "unknown",
        "memory": "host private memory" if name == "host" else name, "pid": os.getpid(),
        "rate_mb_per_second": grown / MIB / check["time"] if check["time"] else 0.0, "by_time": True, "unit": "second",
        "start_step": 0, "end_step": round(check["time"]), "growth_bytes": grown, "readings": readings,
        "reason": UNOBSERVED if line is None else "it grows faster than the threshold, to the end", "ended": False,
        "limit_met": False})
    if name != "host":
        finding["device"] = int(name.rpartition(":")[2])
    if line is not None:
        finding.update(rate_mb_per_second=line.slope, rate_low=line.low, rate_high=line.high)
    return finding


def _report(detector, check, devices, findings):
    leaks = [f for f in findings if f["verdict"] == "leak"]
    verdict, sure = ("leak", SURE) if leaks else ("undecided", None)
    now = datetime.now(timezone.utc)
    began = datetime.fromtimestamp(now.timestamp() - check["time"], timezone.utc)
    missing = UNOBSERVED + ("" if detector.threshold else NO_THRESHOLD)
    return {
        "schema_version": 1, "timestamp": now.isoformat(), "session": None, "verdict": verdict,
        "class": "unknown" if leaks else None, "confidence": sure, "steps": 0,
        "unit": "second", "missing": missing,
        "steps_missing": None, "seconds": check["time"], "seconds_missing": None,
        "monitoring_summary": {
            "duration_seconds": check["time"], "start_time": began.isoformat(), "end_time": now.isoformat(),
            "live": True, "total_steps": 0, "samples_count": len(detector.checks), "total_devices": len(devices),
            "leaks_detected": len(leaks), "has_leaks": bool(leaks), "confidence": sure or 0,
            "leak_threshold_mb_per_min": detector.threshold, "tracking_enabled": False, "check": False},
        "devices": devices,
        "leak_events": [{
            "timestamp": now.isoformat(), "device_id": "host" if f["device"] is None else str(f["device"]),
            "leak_rate_mb_per_min": f["rate_mb_per_second"] * 60, "memory_increase_mb": f["growth_bytes"] / MIB,
            "severity": "high" if check["level"] == "critical" else "medium", "confidence": SURE,
            "suspected_sources": [],
            "description": "%s %+.3g MiB/s" % (f["memory"], f["rate_mb_per_second"])} for f in leaks],
        "recommendations": ["run it with `memgauge run -- python …`: that tells what holds the memory"] * bool(leaks),
        "findings": findings, "warnings": [], "peaks": []}
