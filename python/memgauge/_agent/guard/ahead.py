"""Whether a memory is about to meet its limit: told as late as it can be told safely, so that what is healthy has every
chance to show it. A sawtooth comes down, a warm-up ends, an evaluation's peak goes: all before the last few steps.

Levels are those at the ends of steps. What a step takes beyond them (its activations, an evaluation) is the amplitude,
learned from the kernel's and the allocator's high-water marks."""
from collections import deque

LOOKS = 64            # levels remembered
LEAST = 6             # of them before anything is told: a training's first steps set things up
RESERVE = 0.02        # of the limit: what a checkpoint takes, and what the counters lag behind
LEAST_RESERVE = 16 << 20
NOISE = 2e-4          # of the limit: smaller rises count as none
RECENT = 4            # looks whose pace counts
HASTE = 1.25          # times that pace is reckoned with
NEAR = 8              # of the largest recent rises: closer than that is near
TREND = 8             # looks in each of the parts of a trend
STEADY = 0.4          # of its rise is in each half
PEAKS = 8             # risen high-water marks remembered
LEAP = 0.01           # of the limit: a large rise between two looks
RISES = 16            # of them are remembered
JUMPS = 2             # rises alike that make one expect the next
RELEASE = 0.2         # of what has grown comes down: a level from which memory has come down by itself


class Ahead:
    """One memory's."""

    def __init__(self):
        self.looks = deque(maxlen=LOOKS)       # (step, bytes)
        self.floor = self.top = None
        self.rises = deque(maxlen=RISES)       # (step, bytes): the large ones
        self.safe = 0                          # the highest level from which it has come down by itself
        self.amplitude = 0
        self.peaks = deque(maxlen=PEAKS)       # (step, bytes) where the high-water mark rose
        self.alarmed = None                    # the level of the last risk
        self.danger = None                     # a level at which memory was about to run out, and we have lowered it

    def add(self, step, reading):
        level = reading.used
        if self.looks and self.top is not None and self.top - level > RELEASE * max(self.top - self.floor, 1):
            if self.top - level > NOISE * (reading.limit or level or 1) * 10:
                self.safe = max(self.safe, self.top)
                self.top = level
        self.amplitude = max(self.amplitude, reading.peak - max(level, self.looks[-1][1] if self.looks else level))
        if reading.peak > level and (not self.peaks or reading.peak > self.peaks[-1][1]):
            self.peaks.append((step, reading.peak))
        self.floor = level if self.floor is None else min(self.floor, level)
        self.top = level if self.top is None else max(self.top, level)
        self._rise(step, level, reading.limit or level)
        self.looks.append((step, level))

    def _rise(self, step, level, limit):
        """Remembers leaps for longer than looks; what comes down by itself was none."""
        rise = level - self.looks[-1][1] if self.looks else 0
        if rise > LEAP * limit:
            self.rises.append((step, rise))
        elif self.rises and -rise > max(r for _, r in self.rises) / 2:
            self.rises.clear()

    def freed(self, level):
        """An action of ours has changed the level within a step: what was before it is shifted by as much, so that the
        program's own pace stays known."""
        if not self.looks or level >= self.looks[-1][1]:
            return
        less = self.looks[-1][1] - level
        for n, (step, before) in enumerate(self.looks):
            self.looks[n] = step, before - less
        self.top, self.floor = self.top - less, self.floor - less
        if self.alarmed is not None:
            # peaks below the high-water mark can't be seen: the next time the level alone must tell
            before = self.alarmed if less > RELEASE * LEAST_RESERVE else None
            self.danger, self.alarmed = before if self.danger is None else min(self.danger, before or self.danger), None
            self.peaks.clear()
            self.amplitude = 0

    def near(self, limit):
        """Whether the next looks may be the last: then it is looked at every step."""
        if not limit or len(self.looks) < 2:
            return False
        looks = list(self.looks)[-LEAST:]
        most = max(after[1] - before[1] for before, after in zip(looks, looks[1:]))
        return most > 0 and limit * (1 - RESERVE) - self.amplitude - looks[-1][1] < NEAR * most

    def risk(self, limit, within):
        """Why memory runs out within so many steps, in words; None if nothing says so."""
        if len(self.looks) < LEAST or not limit:
            return None
        (step, level), before = self.looks[-1], self.looks[-2]
        room = limit - max(RESERVE * limit, LEAST_RESERVE) - self.amplitude - level
        within = max(within, 1.5 * (step - before[0]))        # the next look comes that much later
        if level <= self.safe and room > 0:
            return None
        why = self._again(level) or self._growth(limit, room, within) or self._jump(limit, room, within) \
            or self._trend(room, within) or self._peak(limit, step, within)
        if why:
            self.alarmed = level
        return why

    def _again(self, level):
        if self.danger is None or level < self.danger:
            return None
        return "is where it was when it was about to run out before"

    def _peak(self, limit, step, within):
        """What is taken within steps, or by an evaluation, grows from time to time."""
        if len(self.peaks) <= JUMPS:
            return None
        (first, a), (second, b), (third, c) = list(self.peaks)[-3:]
        gap = max(second - first, third - second)
        if min(b - a, c - b) <= NOISE * limit or third + gap - step > max(within, gap) or step - third > 2 * gap:
            return None
        expected = c + (c - b) * min(1.0, (c - b) / (b - a))      # rises that shrink end
        if expected <= limit - max(RESERVE * limit, LEAST_RESERVE):
            return None
        return "peaked at %.0f MiB, then %.0f and %.0f: the next, within %d steps, is too high" % (
            a / 2**20, b / 2**20, c / 2**20, max(1, third + gap - step))

    def _growth(self, limit, room, within):
        looks = list(self.looks)[-LEAST:]
        rises = [after[1] - before[1] for before, after in zip(looks, looks[1:])]
        if sum(rise > NOISE * limit for rise in rises) < len(rises) - 1 or rises[-1] <= 0 and rises[-2] <= 0:
            return None
        first, last = self.looks[-RECENT], self.looks[-1]
        pace = (last[1] - first[1]) / max(1, last[0] - first[0])
        if pace <= 0:
            return None
        left = max(0.0, room / (pace * HASTE))
        if left > within:
            return None
        return "grows by %.1f MiB a step, %.0f steps of room are left" % (pace / 2**20, left)

    def _trend(self, room, within):
        """Growth that noise hides from look to look: the middles of three parts rise, and the highest of the last is
        taken for what the next ones may reach."""
        count = len(self.looks) // 3
        if count < TREND:
            return None
        looks = list(self.looks)[-3 * count:]
        (a, first), (b, second), (c, third) = (_middle(looks[n * count:(n + 1) * count]) for n in range(3))
        if min(second - first, third - second) < (third - first) * STEADY or c <= a or third <= first:
            return None
        pace = (third - second) / max(1, c - b)
        spread = max(level for _, level in looks[2 * count:]) - looks[-1][1]
        if third - first < spread or room - spread > pace * HASTE * within:
            return None
        return "grows by %.1f MiB a step on average, %.0f MiB are left" % (pace / 2**20, max(0, room) / 2**20)

    def _jump(self, limit, room, within):
        """Memory that grows by leaps: an evaluation that keeps what it made."""
        most = max((rise for _, rise in self.rises), default=0)
        leaps = [at for at, rise in self.rises if rise > most / 2]
        if len(leaps) < JUMPS or most < room:
            return None
        gap = max(b - a for a, b in zip(leaps, leaps[1:]))
        left = leaps[-1] + gap - self.looks[-1][0]
        if left > max(within, gap / 2) or left < -gap:        # far off, or it has not come
            return None
        return "leaps by %.0f MiB every %d steps, and %.0f MiB are left" % (most / 2**20, gap, max(0, room) / 2**20)


def _middle(looks):
    """Its middle step, and the median of its levels."""
    return looks[len(looks) // 2][0], sorted(level for _, level in looks)[len(looks) // 2]
