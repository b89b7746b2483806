"""A plugin for pytest: limits on memory as marks, and the heaviest tests. docs/pytest.md

    pytest --memgauge

    @pytest.mark.limit_peak("2 GiB")
    @pytest.mark.limit_leak("10 KiB/step", steps=300)
"""
import gc
import tracemalloc
from collections import Counter

import pytest

from . import growth, sizes
from .gauges import Memory, Peak, collect

READINGS = 30        # of a test that is repeated, each after a garbage collection: enough for a line with an interval
LEAST_STEPS = 50     # a line over fewer steps tells a leak of some pages from nothing
WARM_UP = 5          # one step in so many is warming up
TRACED = 40          # steps that are repeated once more to see which lines allocate what stays
FRAMES = 5           # of each of those
SURE = 0.9           # objects a step that count as one more each step
LINES = 10           # that are shown
TOP = 10             # tests in the summary
PROPERTY = "memgauge"
PEAK, LEAK = "memgauge-peak", "memgauge-leak"     # titles of sections

_PEAK, _LEAK = pytest.StashKey(), pytest.StashKey()


def pytest_addoption(parser):
    group = parser.getgroup("memgauge", "memory of tests")
    group.addoption("--memgauge", action="store_true", help="measure every test's memory and list the heaviest")
    group.addoption("--memgauge-top", type=int, default=TOP, metavar="N",
                    help="how many tests to list (default: %d)" % TOP)


def pytest_configure(config):
    config.addinivalue_line("markers", 'limit_peak("2 GiB", device="host"): fail the test if its memory rises by more')
    config.addinivalue_line("markers", 'limit_leak("10 KiB/step", steps=300): run the test so many times, and fail it '
                                       "if memory grows by more each time")
    config.pluginmanager.register(_Measuring(config), "memgauge-measuring")


class _Limit:
    """A mark's arguments; ValueError says what is wrong with them."""

    def __init__(self, mark, **defaults):
        self.name, self.more = mark.name, dict(defaults, **mark.kwargs)
        unknown = sorted(set(mark.kwargs) - set(defaults))
        if unknown or len(mark.args) != 1:
            raise ValueError('%s takes a size%s' % (mark.name, "".join(", %s=…" % name for name in defaults)))
        self.bytes = sizes.parse(mark.args[0])


def _limit(item, name, **defaults):
    mark = item.get_closest_marker(name)
    return None if mark is None else _Limit(mark, **defaults)


def _limits(item):
    leak, peak = _limit(item, "limit_leak", steps=300), _limit(item, "limit_peak", device="host")
    if leak is not None:
        steps = leak.more["steps"]
        if not isinstance(steps, int) or steps < LEAST_STEPS:
            raise ValueError("limit_leak: steps=%r: at least %d, in which growth can be told from noise"
                             % (steps, LEAST_STEPS))
        if not isinstance(item, pytest.Function) or getattr(item, "_testcase", None) is not None or \
                item.cls is not None and hasattr(item.cls, "runTest"):
            raise ValueError("limit_leak: only a test function can be run again and again, not a unittest.TestCase's")
    return leak, peak


class _Measuring:
    """The hooks around tests."""

    def __init__(self, config):
        self.all, self.top = config.getoption("memgauge"), config.getoption("memgauge_top")
        self.memory, self.measured = Memory(), []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        wrong = ""
        try:
            _limits(item)
        except ValueError as error:
            wrong = str(error)
        if wrong:       # not within the except: pytest would show both
            pytest.fail(wrong, pytrace=False)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item):
        _, limit = _limits(item)
        if limit is None and not self.all:
            yield
            return
        collect()
        before, peak = self.memory.resident(), Peak(self.memory)
        peak.start()
        yield
        rose = peak.stop()
        gc.collect()
        item.stash[_PEAK] = dict(rose, kept=self.memory.resident() - before)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        limit, _ = _limits(pyfuncitem)
        if limit is None:
            return None
        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

        def step():
            result = pyfuncitem.obj(**arguments)
            if hasattr(result, "__await__") or hasattr(result, "__aiter__"):
                pytest.fail("limit_leak: the test is a coroutine: run its loop in a plain function", pytrace=False)

        pyfuncitem.stash[_LEAK] = _repeat(step, limit, self.memory)
        return True

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        outcome = yield
        report = outcome.get_result()
        if call.when != "call" or report.skipped:
            return
        rose, leak = item.stash.get(_PEAK, None), item.stash.get(_LEAK, None)
        if rose is not None and self.all:
            report.user_properties.append((PROPERTY, rose))
        if not report.passed:
            return
        _, limit = _limits(item)
        if leak is not None:
            _fail(report, leak.message(), LEAK, leak.section())
        elif limit is not None:
            _check_peak(report, limit, rose)

    # Under xdist these two run where the reports arrive.

    def pytest_runtest_logreport(self, report):
        self.measured += [(report.nodeid, value) for name, value in report.user_properties
                          if name == PROPERTY and report.when == "call"]

    def pytest_terminal_summary(self, terminalreporter):
        if not self.all or not self.measured:
            return
        heaviest = sorted(self.measured, key=lambda entry: -_heaviest(entry[1]))[:max(0, self.top)]
        terminalreporter.section("memgauge: the heaviest of %d tests" % len(self.measured))
        terminalreporter.write_line("%11s  %11s  test" % ("peak", "kept"))
        for nodeid, rose in heaviest:
            devices = "".join(", %s %s" % (name, sizes.show(size)) for name, size in sorted(rose.items())
                              if name not in ("host", "kept"))
            terminalreporter.write_line("%11s  %11s  %s%s" % (
                sizes.show(rose["host"]), sizes.show(rose["kept"]), nodeid, devices))

    def pytest_unconfigure(self):
        self.memory.close()


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report):
    """Reports tests that failed only for their memory as such, like pytest-memray."""
    if report.when == "call" and report.failed and any(title in (PEAK, LEAK) for title, _ in report.sections):
        return "failed", "M", "MEMORY PROBLEMS"
    return None


def _heaviest(rose):
    return max(size for name, size in rose.items() if name != "kept")


def _fail(report, message, title, section):
    report.outcome, report.longrepr = "failed", message
    report.sections.append((title, section))


def _check_peak(report, limit, rose):
    device = limit.more["device"]
    device = "cuda:0" if device == "cuda" else "host" if device == "cpu" else device
    size = rose.get(device)
    if size is None:
        report.outcome, report.longrepr = "failed", "limit_peak: the test did not use %s" % device
    elif size > limit.bytes:
        _fail(report, "Test was limited to a peak of %s but its memory rose by %s (%s)"
              % (sizes.show(limit.bytes), sizes.show(size), device), PEAK,
              "\n".join("%-8s rose by %s" % (name, sizes.show(value)) for name, value in sorted(rose.items())
                        if name != "kept") + "\n%-8s holds %s more than before the test"
              % ("host", sizes.show(rose["kept"])))


# --- a test that is repeated ------------------------------------------------------------------------------------------

class _Leak:
    """What grew faster than allowed, and the lines that allocate it."""

    def __init__(self, memory, line, first, last, limit):
        self.memory, self.line, self.first, self.last, self.limit = memory, line, first, last, limit
        self.lines, self.types, self.traced, self.trouble = [], [], 0, ""

    def message(self):
        return "Test was limited to %s/step but its %s grew by %s/step (%s to %s), from step %d to %d" % (
            sizes.show(self.limit), self.memory, sizes.show(self.line.slope), sizes.show(self.line.low),
            sizes.show(self.line.high), self.first, self.last)

    def section(self):
        if self.trouble:
            return "What allocates it could not be seen: " + self.trouble
        out = ["List of allocations that stayed, in %d more steps:" % self.traced]
        for size, blocks, frames in self.lines[:LINES]:
            out.append("    - %s/step in %.3g blocks/step allocated here:" % (sizes.show(size), blocks))
            out += ["        %s:%d" % frame for frame in frames]
        if len(self.lines) > LINES:
            out.append("    ...and %d more" % (len(self.lines) - LINES))
        seen = sum(size for size, _, _ in self.lines)
        if seen < self.line.slope / 2:
            out.append("    Python's allocators explain %s/step of %s: the rest is a library's own memory"
                       % (sizes.show(seen), sizes.show(self.line.slope)))
        out += ["    +%.3g %s/step" % (rate, name) for name, rate in self.types]
        return "\n".join(out)


def _repeat(step, limit, memory):
    """Runs the steps; gives what leaked, or None."""
    steps = limit.more["steps"]
    every = max(1, steps * (WARM_UP - 1) // WARM_UP // READINGS)
    xs, series = [], {}
    for number in range(1, steps + 1):
        step()
        if number > steps // WARM_UP and (steps - number) % every == 0:
            gc.collect()
            xs.append(number)
            for name, size in memory.read().items():
                series.setdefault(name, []).append(size)
    worst = None
    for name, ys in series.items():
        line = growth.beyond(xs, ys, limit.bytes) if len(ys) == len(xs) else None
        if line is not None and (worst is None or line.slope > worst.line.slope):
            worst = _Leak(name, line, xs[0], xs[-1], limit.bytes)
    if worst is not None:
        try:
            _trace(step, worst)
        except Exception as error:      # the test can't be repeated any further
            worst.trouble = "%s: %s" % (type(error).__name__, error)
    return worst


def _trace(step, leak):
    """Repeats some steps with tracemalloc on, and says what stayed of what they allocated. Objects are counted apart:
    a snapshot has some of its own."""
    mine = not tracemalloc.is_tracing()
    if mine:
        tracemalloc.start(FRAMES)
    try:
        step()
        gc.collect()
        before = tracemalloc.take_snapshot()
        for _ in range(TRACED):
            step()
        gc.collect()
        after = tracemalloc.take_snapshot()
    finally:
        if mine:
            tracemalloc.stop()
    leak.traced = TRACED
    types = _types()
    for _ in range(TRACED):
        step()
    gc.collect()
    grown = _types()
    grown.subtract(types)
    leak.types = [(name, count / TRACED) for name, count in grown.most_common(5)
                  if count >= SURE * TRACED]
    for entry in after.filter_traces((tracemalloc.Filter(False, tracemalloc.__file__),
                                      tracemalloc.Filter(False, __file__))).compare_to(
            before.filter_traces((tracemalloc.Filter(False, tracemalloc.__file__),)), "traceback"):
        if entry.size_diff / TRACED >= leak.line.slope / 50 and entry.count_diff > 0:
            frames = [(frame.filename, frame.lineno) for frame in reversed(entry.traceback)]
            leak.lines.append((entry.size_diff / TRACED, entry.count_diff / TRACED, _own(frames)))
    leak.lines.sort(key=lambda line: -line[0])


def _own(frames):
    """Innermost first, down to the test's own call."""
    return [frame for frame in frames if frame[0] != __file__ and "/_pytest/" not in frame[0]
            and "/pluggy/" not in frame[0]]


def _types():
    return Counter("%s.%s" % (type(o).__module__, type(o).__qualname__) for o in gc.get_objects())
