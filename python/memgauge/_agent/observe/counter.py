"""Counting optimizer steps: what runs in every step of a training."""
from time import monotonic_ns as now

NEVER = 1 << 62
HELD = 16  # records that wait to be written together, …
STRETCH = 40_000_000  # … for so many ns: what a killed process loses of its last steps


class Counter:
    """Optimizer steps, counted and recorded. `hook` is all that runs in most steps: with one optimizer, a comparison,
    an addition and, where a record is due, the clock and the record. Looking up variables of an outer function is the
    cheapest that Python has; with caches emptied by the training, every attribute costs a tenth of a microsecond more.

    To write a record takes 1 µs in a loop, and ten to thirty where a step has emptied the caches; a second one right
    after it takes one. So records wait for each other for STRETCH, and what is kept of a step meanwhile are its number
    and its end. settle() writes what waits; its caller holds the lock.

    `due()` is called when the count has reached what plan() said, `other(optimizer)` for events of which it has to be
    found out whether they end a step."""

    def __init__(self, due, other, lock):
        count, target, solo = 0, 1, 0
        record_at, every, write, offset, recorded, last, cost = NEVER, 1, None, 0, 0, 0, 0
        acquire, release = lock.acquire, lock.release
        held = []  # number of a step, and its end, one after the other
        hold, since = held.append, 0

        def _optimizer_step_code(self):
            nonlocal count
            if id(self) == solo:
                count += 1
                if count >= target:
                    due()
                elif count >= record_at:
                    record()
            else:
                other(self)

        def record():
            """A record without gauges. If the control thread is writing one just now, the next step's record will
            do."""
            nonlocal record_at, since
            if acquire(False):
                try:
                    at = now()
                    if not held:
                        since = last
                    hold(count - offset)
                    hold(at)
                    record_at = count + every
                    if at - since >= STRETCH or len(held) >= 2 * HELD:
                        settle()
                finally:
                    release()

        def settle():
            nonlocal recorded, last
            try:
                for i in range(0, len(held), 2):
                    number, at = held[i], held[i + 1]
                    write(0, number - recorded, number, cost, at - last, None, at)
                    recorded, last = number, at
            finally:
                held.clear()

        def add(steps=1):
            nonlocal count
            count += steps
            return count >= target

        def plan(at, key, k):
            nonlocal target, solo, record_at, every
            target, solo, every = at, key or 0, k
            record_at = (held[-2] if held else recorded) + offset + k if write and last else NEVER

        def told(number, at, agent_ns, base):
            """The last record is that of step `number`, which ended `at`; what was held before is not written."""
            nonlocal recorded, last, cost, offset
            held.clear()
            recorded, last, cost, offset = number, at, agent_ns, base

        def into(step):
            nonlocal write
            write = step

        self.hook, self.add, self.plan, self.told, self.into = _optimizer_step_code, add, plan, told, into
        self.settle = settle
        self.get = lambda: count
        self.recorded = lambda: (recorded, last)
