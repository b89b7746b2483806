"""What the callbacks share: events in the session, and memgauge's verdict during the training.

A memgauge process beside the training queries the verdict (`memgauge PID leak --json`), more rarely as the training
gets older. Only at its end the training waits for the verdict. If the training is not observed, the callbacks do
nothing, except that they print once how to have it observed."""
import json
import logging
import os
import subprocess
import tempfile
from time import monotonic

from .. import feed, marks

log = logging.getLogger("memgauge")

FIRST = 20.0        # s until the first verdict is queried: a leak is hardly found sooner
SPREAD = 1.5        # ratio of the training's ages at two verdicts: 12 in half an hour
LAST = 30.0         # s that the end of a training waits for the last verdict
MAX_ANSWER = 16 << 20
NUMBERS = {"healthy": 0.0, "leak": 1.0}     # undecided is none of the two, and has no number

_said = False       # whether say_once has printed


def say_once():
    """Returns whether this process is observed. If it isn't, prints once how to have it observed."""
    global _said
    if feed.observed():
        return True
    if not _said:
        _said = True
        log.warning("memgauge does not observe this process, so its callback does nothing: start it with "
                    "`memgauge run -- python …`, or attach with `memgauge attach %d`", os.getpid())
    return False


class Verdicts:
    """One training's verdicts. `active`: whether this process queries them; one of the ranks is enough."""

    def __init__(self, active=True):
        self.pid = os.getpid()
        self.active = active and say_once()
        self.began = monotonic()
        self.due = self.began + FIRST
        self.report, self.metrics = None, {}
        self.warned = False
        self._child = self._answer = None

    def event(self, name, text, number=0, step=0):
        """Writes to memgauge.events: what (epoch, evaluation, checkpoint), begin or end, its number, and the step."""
        if feed.observed():
            marks.event(name, text, number, step)

    def look(self):
        """The metrics of a verdict that is new since the last call, else None. Mostly costs one reading of the
        clock."""
        if not self.active or self.pid != os.getpid():
            return None
        if self._child is None:
            if monotonic() >= self.due:
                self._ask()
            return None
        if self._child.poll() is None:
            return None
        return self._take()

    def last(self):
        """The metrics of the verdict on the whole training; waits for it. None if there is none."""
        if not self.active or self.pid != os.getpid():
            return None
        if self._child is not None:     # its verdict is older
            self._drop()
        self._ask()
        if self._child is None:
            return None
        try:
            self._child.wait(LAST)
        except subprocess.TimeoutExpired:
            self._drop()
            return None
        return self._take()

    def _ask(self):
        age = monotonic() - self.began
        self.due = self.began + max(SPREAD * age, FIRST)
        environment = {key: value for key, value in os.environ.items() if key != "MEMGAUGE_TARGET"}
        self._answer = tempfile.TemporaryFile()
        try:
            self._child = subprocess.Popen(["memgauge", str(self.pid), "leak", "--json"], executable=feed.binary(),
                                           env=environment, stdin=subprocess.DEVNULL, stdout=self._answer,
                                           stderr=subprocess.DEVNULL, start_new_session=True)
        except (OSError, feed.FeedError) as error:
            self.active = False
            self._drop()
            log.warning("memgauge gives no verdicts: %s", error)

    def _drop(self):
        child, self._child = self._child, None
        if child is not None and child.poll() is None:
            child.kill()
            child.wait()
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.close()

    def _take(self):
        """The child has ended."""
        try:
            self._answer.seek(0)
            report = json.loads(self._answer.read(MAX_ANSWER).decode("utf-8", "replace"))
        except (OSError, ValueError):       # it failed: the next one may not
            report = None
        finally:
            self._drop()
        if report is None or "verdict" not in report:
            return None
        self.report, self.metrics = report, metrics_of(report)
        if report["verdict"] == "leak" and not self.warned:
            self.warned = True
            log.warning("memgauge: %s (memgauge %d leak tells more)", line_of(report), self.pid)
        return self.metrics


def metrics_of(report):
    """Numbers for a logger: whether it leaks (0 or 1; none while undecided), the fastest leak's rate and the time until
    memory is full."""
    out = {"memgauge/undecided": float(report["verdict"] == "undecided")}
    if report["verdict"] in NUMBERS:
        out["memgauge/leak"] = NUMBERS[report["verdict"]]
    leaks = [finding for finding in report["findings"] if finding["verdict"] == "leak"]
    rates = [finding["rate_mb_per_step"] for finding in leaks if finding["rate_mb_per_step"] is not None]
    if rates or report["verdict"] == "healthy":
        out["memgauge/leak_mib_per_step"] = float(max(rates, default=0.0))
    seconds = [finding["time_to_limit_seconds"] for finding in leaks if finding["time_to_limit_seconds"]]
    if seconds:
        out["memgauge/seconds_to_limit"] = float(min(seconds))
    return out


def line_of(report):
    """A leak in a line."""
    finding = next(finding for finding in report["findings"] if finding["verdict"] == "leak")
    rate, unit = finding["rate_mb_per_step"], "step"
    if rate is None:
        rate, unit = finding["rate_mb_per_second"], "s"
    held = finding["holder"] or finding["site"]
    return "LEAK %s +%.3g MiB/%s%s" % (finding["memory"], rate, unit, ", held by %s" % held if held else "")
