"""When a training takes a census by itself, so that short runs have some, and old ones a few to compare.

The process itself notices growth earlier than any observer outside, and after a run of three seconds nothing is left to
examine. So the control thread reads the private memory now and then. The first census is due half a second after the
first step; earlier where FIRST_STEPS have been made, since a run of short steps is half over by then, and if memory has
grown meanwhile. The next is due when the training is SPREAD times as old as at the previous one, or has made SPREAD
times as many steps: where the first steps took long, or the machine was busy then, the clock alone would let most of
them go unseen. If memory has grown, it begins as soon as the purse allows it; else only if the purse holds PLENTY. The
last census is taken at the process's end, if what has grown is still there: then no step waits for it. Between two of
them the containers that the last one found are counted. docs/census.md

A worker of multiprocessing makes no steps. Its age counts from its start, and it has no census at its end: where each
epoch has workers of its own, the training waits for that.
"""
from time import monotonic

from .. import state, workers

FIRST = 0.6              # s after the first step: the warm-up and half a second of short steps
FIRST_STEPS = 100        # as good as that: what a leak keeps has many items by then, and the warm-up is over
EARLY = 0.1              # s until memory and steps are read again, before the first census of what makes steps
FIRST_OF_WORKER = 2.0    # s after a worker's start: some have a whole epoch's life before them, and some no more
SPREAD = 1.4             # ratio of the training's ages at two censuses: 24 censuses in half an hour
STEPS = 50               # at least, between two that are due by their number
MOST = 24                # of a process; a collector may ask for more
AGAIN = 0.25             # s until memory is read again; later a tenth of the training's age
MATERIAL = 512 << 10     # bytes: growth that is worth a census
PLENTY = 3               # times what a census needs must be in the purse if nothing grows
LAST_LOOK = 40_000_000   # ns of the census at the process's end; nobody notices a delay of twice that
OLD = 0.15               # share of the training's time that must have passed since the previous census

_course = _counts = None


class Course:
    """The schedule of one process's censuses."""

    def __init__(self, process, began, worker=False):
        self.process = process             # a forked child begins anew
        self.worker = worker               # it makes no steps
        self.next = FIRST_OF_WORKER if worker else FIRST
        self.began, self.due = began, began + (self.next if worker else EARLY)
        self.taken = 0
        self.next_step = FIRST_STEPS
        self.base = self.looked = None     # private memory, and age, at the census before

    def tick(self, now, anon, step=0, period=0):
        """step: the last that has ended; period: s that one takes now, 0 unknown. When to be called again, None for
        never. Begins a census when one is due."""
        if self.base is None:
            self.base = anon
        if now < self.due:
            return self.due
        if state.census is not None:
            return now + 1
        age, grown = now - self.began, anon - self.base >= MATERIAL
        early = not self.taken and age < FIRST
        timely = age >= self.next or not self.worker and step >= self.next_step and (early or age >= FIRST)
        if early and not (timely and grown):
            self.due = min(now + EARLY, self.began + FIRST)
            return self.due
        from . import census, counting     # not before: their modules take some milliseconds
        memory = census.memory_of()
        wanted, level = memory.purse_for(state.settings.budget)
        if self.taken < MOST and timely and level >= wanted * (1 if grown else PLENTY):
            try:
                census.request(False, _nobody, True)
            except ValueError:
                return now + AGAIN
            self.taken += 1
            self.base, self.looked = anon, age
            self.next = SPREAD * max(age, FIRST)
            self.next_step = max(SPREAD * step, step + STEPS)
        elif memory.followed and level > -wanted:
            counting.count(memory, state.observer.step)
        self.due = now + max(AGAIN, min(age, step * period or age) / 10)
        return self.due

    def over(self, now, anon):
        """Whether to take a census at the process's end: much time has passed since the previous one, and what has
        grown is still there."""
        age = now - self.began
        new = self.looked is None or age - self.looked >= OLD * age
        return not self.worker and age >= FIRST / 2 and new and self.base is not None and anon - self.base >= MATERIAL


class Counts:
    """When a process that takes no censuses by itself counts what one that was requested has found."""

    def __init__(self, process, began):
        self.process, self.began, self.due = process, began, 0

    def tick(self, now):
        from . import census, counting
        memory = census.memory_of()
        if not memory.followed:
            return None                    # a census wakes us
        if now < self.due:
            return self.due
        if state.census is None and memory.purse.look(state.settings.budget) > -memory.last_cost:
            counting.count(memory, 0)
        self.due = now + max(AGAIN, (now - self.began) / 10)
        return self.due


def tick():
    global _course, _counts
    observer = state.observer
    steps = observer is not None and observer.ring is not None and observer.step > 0
    if not steps and (observer is None or not workers.is_one()):
        if not state.followed:
            return None                    # the first step wakes us
        if _counts is None or _counts.process is not state.current:
            _counts = Counts(state.current, monotonic())
        return _counts.tick(monotonic())
    if _course is None or _course.process is not state.current or _course.worker == steps:
        _course = Course(state.current, monotonic(), not steps)
    return _course.tick(monotonic(), observer.host.memory()[1], observer.step, observer.governor.period.value / 1e9)


def at_exit():
    """In the main thread, as the process ends."""
    if state.current.thread is not None:   # the control thread could not be stopped: it is at work
        return
    observer = state.observer
    if state.census is not None or _course is not None and _course.process is state.current and observer is not None \
            and _course.over(monotonic(), observer.host.memory()[1]):
        from . import census
        census.last_look(LAST_LOOK)


def _nobody(job):
    pass
