"""When a training takes a census of itself, unasked: so that short runs have some, and old ones a few that can be
compared.

Nobody who looks from outside knows of a growth as early as the process itself, and what a run of three seconds holds is
gone when it has ended. So the control thread looks at the private memory now and then; a census comes when the training
is some times older than at the one before, and its purse allows it: at once where memory has grown, else only where the
purse holds plenty. The last one comes as the process ends, where what has grown is still there: then no step waits for
it. docs/census.md
"""
from time import monotonic

from .. import state

FIRST = 0.6              # s after the first step: half a second of short steps, after warming up
SPREAD = 1.4             # times as old is the training at the next one: 24 censuses in half an hour
MOST = 24                # of a process; a collector may ask for more
AGAIN = 0.25             # s until it is asked again whether memory has grown, or a tenth of the training's age
MATERIAL = 512 << 10     # bytes: growth that is worth a look
PLENTY = 3               # times what a census needs: where nothing grows
LAST_LOOK = 40_000_000   # ns at the process's end; twice that is what anybody notices
OLD = 0.15               # share of the training's time that a last look must tell of

_course = None


class Course:
    """Of a training, by the clock."""

    def __init__(self, process, began):
        self.process = process             # a forked child begins anew
        self.began, self.due, self.next = began, began + FIRST, FIRST
        self.taken = 0
        self.base = self.looked = None     # private memory, and age, at the census before

    def tick(self, now, anon):
        """When to be called again, None for never. Begins a census when one is due."""
        if self.base is None:
            self.base = anon
        if now < self.due:
            return self.due
        if state.census is not None or self.taken >= MOST:
            return now + 1 if self.taken < MOST else None
        from . import census     # not before: its modules take some milliseconds
        wanted, level = census.memory_of().purse_for(state.settings.budget)
        age = now - self.began
        if age >= self.next and level >= wanted * (1 if anon - self.base >= MATERIAL else PLENTY):
            try:
                census.request(False, _nobody, True)
            except ValueError:
                return now + AGAIN
            self.taken += 1
            self.base, self.looked = anon, age
            self.next = SPREAD * age
        self.due = now + max(AGAIN, age / 10)
        return self.due

    def over(self, now, anon):
        """Whether the process's end is worth a census: much has happened since the one before, and what has grown is
        still there."""
        age = now - self.began
        new = self.looked is None or age - self.looked >= OLD * age
        return age >= FIRST / 2 and new and self.base is not None and anon - self.base >= MATERIAL


def tick():
    global _course
    observer = state.observer
    if observer is None or observer.ring is None or observer.step <= 0:
        return None                        # the first step wakes us
    if _course is None or _course.process is not state.current:
        _course = Course(state.current, monotonic())
    return _course.tick(monotonic(), observer.host.memory()[1])


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
