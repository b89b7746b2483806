"""The arithmetic of the ruler: pure functions over blocks of steps, without a clock.

On a machine that others use, a step's CPU time varies by half from one to the next: their work empties its caches, and
a hypervisor's doing counts as ours. So the cost is put together from parts, each known by the means that suits it:

account   the hook at a step's end is timed in place, in both kinds of blocks. Its sum over that of the steps is a ratio
          of two times that suffer alike.
stirred   steps in which the agent did more, or that follow such a step, are rare and longer by much: they are compared
          with the steps of the blocks beside them, and weigh as much as there are of them.
edge      what else gets slower in all steps, caches above all: the lower edges of the distributions of steps with the
          agent and without it, which no disturbance reaches, lie apart by that.
beside    the process's other threads, which the kernel counts.
"""
import random

PARTS = {"f": "first steps", "r": "module rows", "h": "heap readings", "l": "looks", "c": "beside a census",
         "a": "steps after those"}
FAR = 3.0         # a value further from the median than so many deviations counts as one that far (Huber's mean)
EDGE = 0.05       # quantile of steps that is their lower edge
RESAMPLES = 100
FEW = 8           # values; fewer tell nothing


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def robust(values):
    """The mean of values, none of which counts as further than FAR deviations from the median."""
    centre = median(values)
    spread = 1.4826 * median([abs(v - centre) for v in values]) * FAR
    return sum(min(max(v, centre - spread), centre + spread) for v in values) / len(values)


class Estimate:
    """A share (0.01 is a per cent) with half of its 95 % interval."""

    def __init__(self, value, half):
        self.value, self.half = value, half

    def __str__(self):
        return "%+.2f %% ± %.2f" % (100 * self.value, 100 * self.half)

    def holds(self, truth):
        return abs(self.value - truth) <= self.half

    def __add__(self, other):
        """Of two parts that are measured independently."""
        return Estimate(self.value + other.value, (self.half ** 2 + other.half ** 2) ** 0.5)


NOTHING = Estimate(0.0, 0.0)


def bootstrap(statistic, values):
    """statistic(values) with the interval that resampling gives; None where there are too few values to tell."""
    if len(values) < FEW:
        return None
    draw, value = random.Random(len(values)), statistic(values)
    means = sorted(statistic(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    tail = RESAMPLES * 25 // 1000
    return Estimate(value, max(value - means[tail], means[-1 - tail] - value))


def within(blocks, window):
    return [b for b in blocks if window[0] <= b["age"] < window[1]]


def account(blocks):
    """The timed hook, as a share of the steps, less the empty one's."""
    pairs = [(a, b) if a["on"] else (b, a) for a, b in zip(blocks[::2], blocks[1::2])
             if a["on"] != b["on"] and a["run"] == b["run"]]

    def share(sample):
        on, off = [[sum(map(sum, (p[k][what] for p in sample))) for what in ("hooked", "took")] for k in (0, 1)]
        return (on[0] / (on[1] - on[0]) - off[0] / (off[1] - off[0])) if off[1] and on[1] else 0.0

    return bootstrap(share, pairs)


def stirred(blocks):
    """{part: (Estimate, share of steps)} of the steps that PARTS tells apart, by how much the rest of each was longer
    than steps without the agent beside it."""
    beyond, plain, steps = {part: [] for part in PARTS}, [], 0
    for before, on, after in zip(blocks, blocks[1:], blocks[2:]):
        if not on["on"] or before["on"] or after["on"] or before["run"] != on["run"]:
            continue
        usual = [took - hooked for b in (before, after) for took, hooked in zip(b["took"], b["hooked"])]
        middle = median(usual)
        steps += on["steps"]
        plain += [u / middle - 1 for u in usual]
        for took, hooked, part in zip(on["took"], on["hooked"], on["did"]):
            if part in beyond:
                beyond[part].append((took - hooked) / middle - 1)
    if len(plain) < FEW:
        return {}
    level, out = robust(plain), {}
    for part, values in beyond.items():
        if values:
            e = bootstrap(robust, values) or Estimate(robust(values), 3 * (max(values) - min(values)))
            weight = len(values) / steps
            out[part] = Estimate((e.value - level) * weight, e.half * weight), weight
    return out


def edge(blocks, whole=False):
    """By how much the lower edge of steps in which the agent only counted lies above that of steps without it; the
    hook's own time is left out, but for whole steps."""
    def lower(part, on):
        values = sorted(took - (0 if whole else hooked) for b in part if b["on"] == on
                        for took, hooked, did in zip(b["took"], b["hooked"], b["did"]) if did in ".w")
        return values[int(len(values) * EDGE)] if len(values) >= FEW else None

    def apart(sample):
        part = [b for pair in sample for b in pair]
        on, off = lower(part, 1), lower(part, 0)
        return on / off - 1 if on and off else found

    pairs = [(a, b) for a, b in zip(blocks[::2], blocks[1::2]) if a["on"] != b["on"]]
    found = None     # what a sample with too few plain steps of either kind says
    found = apart(pairs)
    return bootstrap(apart, pairs) if found is not None else None


def beside(blocks):
    """CPU time of the process's other threads, as a share of the training thread's."""
    rest, steps, thread = [0, 0], [0, 0], 0
    for b in blocks:
        rest[b["on"]] += b["process"] - b["thread"]
        steps[b["on"]] += b["steps"]
        thread += 0 if b["on"] else b["thread"]
    if not all(steps) or not thread:
        return 0.0
    return max(0.0, (rest[1] / steps[1] - rest[0] / steps[0]) / (thread / steps[0]))


def by_blocks(blocks, column):
    """Blocks as they are, each against the two beside it, all that happened in them included."""
    shares = []
    for before, here, after in zip(blocks, blocks[1:], blocks[2:]):
        if before["on"] == after["on"] != here["on"] and before["run"] == here["run"] == after["run"]:
            usual = (before[column] / before["steps"] + after[column] / after["steps"]) / 2
            mine = here[column] / here["steps"]
            shares.append(mine / usual - 1 if here["on"] else usual / mine - 1)
    return bootstrap(robust, shares)


def hooks(blocks):
    """{part: (times, median ns of the hook)}; "w" is a record, "." a step that is only counted."""
    times = {}
    for b in blocks:
        if b["on"]:
            for hooked, did in zip(b["hooked"], b["did"]):
                times.setdefault(did, []).append(hooked)
    empty = median([h for b in blocks if not b["on"] for h in b["hooked"]])
    return {did: (len(values), median(values) - empty) for did, values in times.items() if did != "f"}


def by_twins(seconds, column):
    """What the observed one of two twins took more for a step, from [(bare, observed)] of the seconds in which they had
    two cores in turns: the ratios of two seconds that follow each other are averaged."""
    shares = []
    for one, two in zip(seconds[::2], seconds[1::2]):
        ratios = [seen[column] / seen["steps"] / (bare[column] / bare["steps"]) for bare, seen in (one, two)]
        shares.append((ratios[0] * ratios[1]) ** 0.5 - 1)
    return bootstrap(robust, shares)
