"""The process's ring: opened when it is first needed, the large one in place of the small when torch is there."""
from . import state, workers

OPENING = 0.05       # s that a thread waits for another one that is just opening the ring; it takes about 1 ms
MAX_FAILURES = 3     # rings that could not be opened: a full disk may have room again when torch is imported


def ring(large=False, wait=OPENING):
    """The open ring; opens one, or the large one in place of the small, where that is possible. None: unobserved.
    wait: s that another thread's opening may take."""
    s = state.current
    if s is None:
        return None
    current = s.ring
    if current is not None and (current.large or not large):
        return current
    if s.over or s.failures >= MAX_FAILURES or not s.opening.acquire(True, wait):
        return current
    try:
        if s.busy:      # a signal handler interrupted the opening in this very thread
            return s.ring
        s.busy = True
        if s.ring is None or large > s.ring.large:
            _open(s, large)
        return s.ring
    except Exception:
        s.failures += 1
        return s.ring
    finally:
        s.busy = False
        s.opening.release()


def _open(s, large):
    from .record import header
    from .record.ring import Ring
    old = s.ring
    # A large ring is never generation 0: that is how others tell a process with torch.
    new = Ring(s.runtime + "/rings", old.generation + 1 if old else int(large), bool(large),
               header.lines(s, state.agent_hash()))
    _begin(s, new, old)


def _begin(s, new, old):
    new.set_rank(s.rank, s.world)
    if old is None:
        new.event(s.birth, "what happened before is not known" if s.birth == "attach" else "", a=s.parent)
        if state.at_exit is not None:   # else an attach is under way, which does it itself
            workers.watch(state.at_exit)
    s.ring = new
    while s.early:
        new.event(*s.early.pop(0))
    if old is not None:
        old.close()


def adopt(fd):
    """A ring whose file was made by the one who attached, since we can't see his directory. Closes fd."""
    from .record import header
    from .record.ring import Ring
    s = state.current
    new = Ring(fd, 1, True, header.lines(s, state.agent_hash()), s.door.identity)
    _begin(s, new, None)
    if state.observer is not None:
        state.observer.settings_changed()   # it may have asked in vain before
