"""Classes for programs that watch themselves: MemoryDebugger, MemoryProfiler, OOMDetector and others.

They do what the commands profile, oom, fragment, monitor and leak do, with the same reports. A memgauge process that
they start does the work, from outside (feed.py). In an observed process they see its session, otherwise this
machine."""
import enum
import inspect
import json
import os
from datetime import datetime

from .feed import Feed, FeedError

BLOCKS = "30s"      # between two counts of the holes, where that is not what a class is for

class RiskLevel(enum.Enum):
    """The level of OOM risk in a prediction."""
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class OOMPrediction:
    """The argument of a callback. Sizes are MiB, times seconds, usage percent of the limit.

    device_id, risk_level, confidence, current_usage (current_usage_percent), growth_rate (growth_rate_mb_per_sec),
    predicted_oom_time (predicted_oom_time_seconds; None: no OOM in sight), predicted_oom_interval (low, high),
    recommendation, recommendations, timestamp, text; details is the whole risk assessment."""

    def __init__(self, device, risk, text=""):
        self.device_id = int(device) if device.isdigit() else device
        self.risk_level = RiskLevel(risk["risk_level"])
        self.confidence = risk["confidence"]
        self.current_usage = self.current_usage_percent = risk["current_usage_percent"]
        self.growth_rate = self.growth_rate_mb_per_sec = risk["growth_rate_mb_per_sec"]
        self.predicted_oom_time = self.predicted_oom_time_seconds = risk["predicted_oom_time_seconds"]
        self.predicted_oom_interval = risk["predicted_oom_low_seconds"], risk["predicted_oom_high_seconds"]
        self.recommendation, self.recommendations = risk["recommendation"], risk["recommendations"]
        self.timestamp, self.text, self.details = datetime.now(), text, risk

    def __repr__(self):
        return "OOMPrediction(device_id=%r, risk_level=%r, current_usage=%.1f, predicted_oom_time=%r)" % (
            self.device_id, self.risk_level.value, self.current_usage, self.predicted_oom_time)


class _Tool:
    """The methods that the classes share: start_monitoring, stop_monitoring, generate_report, get_status_report."""

    _report = "monitor"
    _command = "feed"
    _tell_blocks = False

    def __init__(self, interval, devices):
        if not interval > 0:
            raise ValueError("interval %r: more than 0 seconds" % (interval,))
        self.interval, self.devices = interval, devices
        self._feed, self._last = None, None

    def _arguments(self):
        arguments = ["--interval", "%gs" % self.interval]
        for device in self.devices or ():
            arguments += ["--devices", str(device)]
        return arguments

    def start_monitoring(self):
        """Starts to watch, from outside this process. Does nothing if it watches already."""
        if self._feed is None:
            self._feed = Feed(self._arguments(), self._warning, self._tell_blocks, self._command)

    def stop_monitoring(self):
        """Stops watching. Reports then cover what was seen until now."""
        feed, self._feed = self._feed, None
        if feed is None:
            return
        try:
            self._last = self._final(feed)
        finally:
            feed.close()

    def _final(self, feed):
        if self._tell_blocks:
            feed.blocks()
        return feed.report(self._report)

    def _warning(self, message):
        pass

    @property
    def is_monitoring(self):
        return self._feed is not None

    def get_status_report(self):
        """Returns the report as a dict: the present one while it watches, else the last one."""
        if self._feed is not None:
            self._last = self._final(self._feed)
        if self._last is None:
            raise FeedError("nothing was watched yet: call start_monitoring() first")
        return self._last

    def generate_report(self, output_file=None):
        """Returns the report as a dict; with a file's name, also writes it there as JSON."""
        report = self.get_status_report()
        if output_file is not None:
            _write(output_file, report)
        return report

    def __enter__(self):
        self.start_monitoring()
        return self

    def __exit__(self, *_):
        self.stop_monitoring()

    def __del__(self):
        feed = getattr(self, "_feed", None)
        if feed is not None:
            try:
                feed.close()
            except Exception:   # the interpreter may be ending
                pass


class MemoryProfiler(_Tool):
    """Records the memory of the host and the GPUs, and now and then how fragmented this process's is."""

    _report = "profile"
    _tell_blocks = True

    def __init__(self, sampling_interval=0.1, devices=None, max_snapshots=10000):
        super().__init__(sampling_interval, devices)
        self.max_snapshots = max_snapshots

    def _arguments(self):
        return super()._arguments() + ["--blocks", BLOCKS, "--max-snapshots", str(self.max_snapshots)]


class OOMDetector(_Tool):
    """Warns before memory runs out. Callbacks run on a thread of ours: warning_callback(prediction), or, added later,
    callback(device_id, prediction); the number of parameters decides which form is used. Without callbacks, the warning
    is printed."""

    _report = "oom"

    def __init__(self, threshold=85.0, critical_threshold=95.0, prediction_window=30.0, check_interval=2.0,
                 devices=None, warning_callback=None):
        super().__init__(check_interval, devices)
        if not 0 <= threshold <= critical_threshold <= 100:
            raise ValueError("thresholds are percentages, the critical one is the higher")
        self.threshold, self.critical_threshold = threshold, critical_threshold
        self.prediction_window = prediction_window
        self._callbacks = []
        if warning_callback is not None:
            self._callbacks.append((warning_callback, _arity(warning_callback, 1)))

    def _arguments(self):
        return super()._arguments() + ["--threshold", "%g" % self.threshold, "--critical",
                                       "%g" % self.critical_threshold,
                                       "--window", "%gs" % self.prediction_window]

    def add_warning_callback(self, callback):
        """Adds callback(device_id, prediction), or callback(prediction) if it takes one argument."""
        self._callbacks.append((callback, _arity(callback, 2)))

    def remove_warning_callback(self, callback):
        """Removes a callback; does nothing if it was not added."""
        self._callbacks = [c for c in self._callbacks if c[0] is not callback]

    def get_predictions(self):
        """Returns a prediction for each device, by its id."""
        report = self.get_status_report()
        return {p.device_id: p for p in (OOMPrediction(d, r["risk_assessment"]) for d, r in report["devices"].items()
                                         if r["risk_assessment"])}

    def _warning(self, message):
        if not self._callbacks:
            print(message["text"], end="", flush=True)
            return
        prediction = OOMPrediction(message["device"], message["risk"], message["text"])
        failed = None
        for callback, arity in list(self._callbacks):
            try:
                callback(*((prediction.device_id, prediction) if arity == 2 else (prediction,)))
            except Exception as error:   # the others still get theirs
                failed = error
        if failed is not None:
            raise failed


class FragmentationAnalyzer(_Tool):
    """Counts the holes in this process's heap and in PyTorch's memory on GPUs. Each count stops the allocator for
    about 1 µs for each hole."""

    _report = "fragment"
    _tell_blocks = True

    def __init__(self, sampling_interval=2.0, max_history=1000, devices=None):
        super().__init__(sampling_interval, devices)
        self.max_history = max_history

    def _arguments(self):
        return super()._arguments() + ["--blocks", "%gs" % self.interval, "--max-snapshots", str(self.max_history)]

    analyze = _Tool.get_status_report


class MemoryDebugger(_Tool):
    """Combines the others: memory, OOM risk (warnings are printed, or passed to warning_callback) and fragmentation.
    report["leak"] is what MemoryLeakDetector says."""

    _tell_blocks = True

    def __init__(self, sampling_interval=1.0, devices=None, oom_threshold=85.0, oom_critical_threshold=95.0,
                 warning_callback=None, max_snapshots=10000):
        super().__init__(sampling_interval, devices)
        from .leaks import MemoryLeakDetector
        self.max_snapshots = max_snapshots
        self._oom = OOMDetector(oom_threshold, oom_critical_threshold, warning_callback=warning_callback)
        self._leaks = MemoryLeakDetector()

    def start_monitoring(self):
        if not self.is_monitoring:
            super().start_monitoring()
            self._leaks.begin()

    def _arguments(self):
        return super()._arguments() + ["--threshold", "%g" % self._oom.threshold, "--critical",
                                       "%g" % self._oom.critical_threshold,
                                       "--blocks", BLOCKS, "--max-snapshots", str(self.max_snapshots)]

    def _final(self, feed):
        report = super()._final(feed)
        report["leak"] = self._leaks.check_for_leaks()
        return report

    def add_warning_callback(self, callback):
        """As OOMDetector.add_warning_callback."""
        self._oom.add_warning_callback(callback)

    def _warning(self, message):
        self._oom._warning(message)


class DistributedMemoryMonitor(_Tool):
    """Watches the memory of several machines, as `memgauge distributed` does. The master listens on port, watches its
    own machine and asks the workers; its report has cluster_info, node_details, memory_analysis, oom_events and
    recommendations. A worker answers the master; its own report has its machine alone.

    A worker proves itself with the master's token: token_file, else MEMGAUGE_TOKEN_FILE, else hub/join.token in
    MEMGAUGE_HOME. node_name is the machine's name in reports, by default the host's."""

    _report = "distributed"
    _command = "distributed"

    def __init__(self, role="master", master_host="localhost", port=29500, sampling_interval=3.0, devices=None,
                 token_file=None, node_name=None):
        super().__init__(sampling_interval, devices)
        if role not in ("master", "worker"):
            raise ValueError("role %r: master or worker" % (role,))
        self.role, self.master_host, self.port = role, master_host, int(port)
        self.token_file, self.node_name = token_file, node_name

    def _arguments(self):
        arguments = super()._arguments() + ["--feed", "--role", self.role, "--master-host", self.master_host,
                                            "--port", str(self.port)]
        if self.token_file is not None:
            arguments += ["--token-file", os.fspath(self.token_file)]
        if self.node_name is not None:
            arguments += ["--name", self.node_name]
        return arguments


def _arity(callback, default):
    """Returns how many arguments a callback takes, 1 or 2; the default if that is unknown or both work."""
    try:
        parameters = inspect.signature(callback).parameters.values()
    except (TypeError, ValueError):
        return default
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if any(p.kind == p.VAR_POSITIONAL for p in parameters):
        return default
    needed = len([p for p in positional if p.default is p.empty])
    return default if needed <= default <= len(positional) else (2 if len(positional) >= 2 else 1)


def _write(path, report):
    """Replaces the old file in one step, so that no reader sees half of the new one."""
    path = os.fspath(path)
    beside = "%s.%d.tmp" % (path, os.getpid())
    try:
        with open(beside, "x") as f:    # fails on a link that somebody has put there
            json.dump(report, f, indent=2)
            f.write("\n")
        os.replace(beside, path)
    except BaseException:
        try:
            os.unlink(beside)
        except OSError:
            pass
        raise
