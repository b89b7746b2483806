"""How often and how much is observed, so that observing stays within its budget.

A sampled step costs 3 to 5 times what the hooks' own clock adds up (measured: 456 → 1860 µs, 123 → 352, 42 → 208): they
push the trainer's data out of the caches. So a sampled step is also compared with the plain steps before and after
it, in CPU time of the training thread, which preemption and other threads don't touch; the larger figure counts.

The governor aims at half of the budget: the other half is for costs that can't be measured here or arise elsewhere.
Gaps vary by a fixed sequence, without randomness, so that sampling can't lock on to a period of the training. Samples
come in bursts: who asks for the last ten steps that were sampled finds several within so many steps.
It is pure arithmetic without a clock: the caller passes every figure. Times are ns.
"""
from collections import deque

from ..gauges.memory import HEAP_SHARE

AIM = 0.5  # share of the budget that the governor aims at
COLD_TICK = 1500  # what counting a step costs in a step whose working set fills the caches (0.05 µs in a hot loop)
SHORT = 1_000_000  # steps shorter than this share a record
RECORD_SHARE = 0.15  # of the aim, at most, goes to step records
LOOK_SHARE = 0.3  # … and so much to the readings in some of them, with the governor's own arithmetic
MIN_GAP = 4  # three steps make one comparison; between two there must be a step of the training's own
MAX_GAP = 1 << 20
MAX_STEPS = 60_000  # a record counts its steps in 16 bits
MAX_STRETCH = 1_000_000_000  # ns of steps in one record: a query should see what happened a second ago
SPARSE = 400  # a gap above it: sample fewer modules at a time, oftener
DENSE = 8  # a gap below it: all modules fit in
COMPARED = 5  # comparisons before the difference is used, …
FACTOR = 4  # … until then a sample is assumed to cost so many times what its own clock shows
MOST = 10  # and never more than so many times, twice the highest measured: more is noise of a crowded machine
BURST = (3, 4)  # from a sample's comparison to the next sample of its burst: three samples lie within ten steps
PATIENCE = 60_000_000_000  # ns at most from burst to burst, where a burst takes less than …
SMALL = 0.1  # … this share of the aim in that time: noise may make a sample look dear, and only samples correct that
EARLY = 6  # first samples, taken regardless of cost, to have measurements


class Median:
    """The median of the last few values. It must not be read before the first value."""

    def __init__(self, size=15):
        self.values = deque(maxlen=size)
        self.value = 0
        self.noise = 0  # standard error, by the median deviation

    def add(self, value):
        self.values.append(value)
        ordered = sorted(self.values)
        self.value = ordered[len(ordered) // 2]
        deviations = sorted(abs(v - self.value) for v in ordered)
        self.noise = deviations[len(deviations) // 2] / len(ordered) ** 0.5


class Typical:
    """The typical value of a figure, at the cost of an addition: a moving average that limits the weight of an
    outlier."""

    def __init__(self):
        self.value = 0

    def add(self, value):
        usual = self.value
        if usual:
            self.value = usual + (min(value, 4 * usual) - usual) // 8
        else:
            self.value = value


class Governor:
    """after_step() and after_sample() feed it; gap, stride, steps_per_record and gauge_gap are its decisions."""

    def __init__(self, budget=0.01, trace="auto"):
        self.budget = budget
        self.trace = trace
        self.samples = 0
        self.gap = MIN_GAP
        self.most = MAX_GAP  # steps from burst to burst
        self.stride = 1  # one module in so many gets rows in a sample
        self.steps_per_record = 1
        self.gauge_gap = 1  # one step record in so many carries the gauges
        self.period = Typical()  # wall time of a step
        self.cpu = Median()  # CPU time of the training thread in a plain step
        self.extra = Median()  # by which a sampled step was longer than its neighbours
        self.own = Median()  # what the hooks' own clock said
        self.record = Typical()  # writing a step record
        self.look = Typical()  # all that is done at a step whose record carries the gauges, but for the heap

    @property
    def all(self):
        return self.trace == "all"

    @property
    def off(self):
        return self.trace == "off"

    def step_length(self):
        """What costs are shares of. Wall time is longer than the thread's CPU time where the GPU works or others do:
        the shorter one is the safe one on a host; the caller feeds no CPU time where a GPU does the work."""
        known = [figure.value for figure in (self.period, self.cpu) if figure.value]
        return max(1, min(known)) if known else SHORT

    def after_record(self, steps, wall, record, look):
        """A record of `steps` steps was written, which took `wall` (0: not typical); writing took `record`, looking up
        in all, the last time, `look` (0: not known)."""
        if wall:
            self.period.add(wall // steps)
        self.record.add(record)
        if look:
            self.look.add(look)
        length, aim = self.step_length(), self.budget * AIM
        if self.period.value >= SHORT or not self.period.value:
            self.steps_per_record = 1
        else:
            wanted = self.record.value / max(aim * RECORD_SHARE * length, 1)
            most = max(1, MAX_STRETCH // max(1, self.period.value))
            self.steps_per_record = int(max(1, min(wanted + 1, most, MAX_STEPS)))
        each = max(aim * LOOK_SHARE * length * self.steps_per_record, 1)
        self.gauge_gap = int(max(1, min(self.look.value / each + 0.5, 1000)))
        if self.samples:
            self._set_gap()

    def after_sample(self, own, before, sampled, after, modules):
        """A sampled step ended, and the plain one after it. CPU times; before is None when it was not clocked."""
        self.samples += 1
        self.own.add(own)
        if sampled is not None and after is not None:
            base = after if before is None else min(before, after)
            self.cpu.add(base)
            # Taking the hooks off falls into the step after. Both are compared with the step before, and not with the
            # shorter one, or else noise alone would look like cost. The early samples have no neighbour before, and
            # their own warm-up would count as ours.
            if before is not None:
                self.extra.add(sampled + after - 2 * before)
        self._decide(modules)

    def cost(self):
        """ns of one sampled step."""
        if len(self.extra.values) < COMPARED:
            return max(self.own.value * FACTOR, 1)
        measured = self.extra.value if self.extra.value > 2 * self.extra.noise else 0
        return max(self.own.value, min(measured, MOST * self.own.value), 1)

    def _decide(self, modules):
        gap = self._set_gap()
        if len(self.extra.values) < COMPARED:
            return
        if gap > SPARSE and modules // self.stride > 4:
            self._restride(self.stride * 2)
        elif gap < DENSE and self.stride > 1:
            self._restride(self.stride // 2)

    def _set_gap(self):
        length, aim = self.step_length(), self.budget * AIM
        toll = COLD_TICK + (self.record.value + self.look.value / self.gauge_gap) / self.steps_per_record
        left = max(0.2 * aim, aim - toll / length - self.budget * HEAP_SHARE)
        cost = self.cost()
        gap = cost / (left * length)
        self.gap = int(min(max(MIN_GAP, gap), MAX_GAP))
        cheap = (len(BURST) + 1) * cost <= SMALL * aim * PATIENCE
        self.most = PATIENCE // self.period.value if cheap and self.period.value else MAX_GAP
        return gap

    def _restride(self, stride):
        """Changes the number of modules in a sample. The costs of earlier samples then say little about the next
        ones."""
        scale = self.stride / stride
        self.stride = stride
        for median in (self.extra, self.own):
            median.values = deque((int(v * scale) for v in median.values), maxlen=median.values.maxlen)

    def next_sample(self, step):
        """Steps from this one to the next sampled one."""
        if self.all:
            return 1
        if self.samples < EARLY:
            return 2
        inside = (self.samples - EARLY) % (len(BURST) + 1)
        if inside < len(BURST) and self.gap > BURST[inside]:
            return BURST[inside]
        gap = max(self.gap, (len(BURST) + 1) * self.gap - sum(BURST))
        gap = max(MIN_GAP, min(gap, self.most))
        return gap + (step * 2654435761 >> 7) % max(1, gap // 4)  # Knuth's multiplicative hash
