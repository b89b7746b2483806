"""Counting optimizer steps: what runs in every step of a training."""
from time import monotonic_ns as now

NEVER = 1 << 62


class Counter:
    """Optimizer steps, counted and recorded. `hook` is all that runs in most steps: with one optimizer, a comparison,
    an addition and, where a record is due, the clock and the record. Looking up variables of an outer function is the
    cheapest that Python has; with caches emptied by the training, every attribute costs a tenth of a microsecond more.

    `due()` is called when the count has reached what plan() said, `other(optimizer)` for events of which it has to be
    found out whether they end a step."""

    def __init__(self, due, other, lock):
        count, target, solo = 0, 1, 0
        record_at, every, write, offset, recorded, last, cost = NEVER, 1, None, 0, 0, 0, 0
        acquire, release = lock.acquire, lock.release

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
            """Writes a record without gauges. If the control thread is writing one just now, the next step's record
            will do."""
            nonlocal recorded, last, record_at
            if acquire(False):
                try:
                    at = now()
                    number = count - offset
                    write(0, number - recorded, number, cost, at - last, None, at)
                    recorded, last, record_at = number, at, count + every
                finally:
                    release()

        def add(steps=1):
            nonlocal count
            count += steps
            return count >= target

        def plan(at, key, k):
            nonlocal target, solo, record_at, every
            target, solo, every = at, key or 0, k
            record_at = recorded + offset + k if write and last else NEVER

        def told(number, at, agent_ns, base):
            nonlocal recorded, last, cost, offset
            recorded, last, cost, offset = number, at, agent_ns, base

        def into(step):
            nonlocal write
            write = step

        self.hook, self.add, self.plan, self.told, self.into = _optimizer_step_code, add, plan, told, into
        self.get = lambda: count
        self.recorded = lambda: (recorded, last)
