"""A census: what holds the memory, taken by the control thread in slices. docs/census.md

Without a request it costs nothing. A running census is a job of the control socket's loop: each tick() works for SLICE
at most and returns when the next one is due. A fork ends the thread between two ticks; afterwards the parent continues
the census, and the child forgets it. Its time is taken from a purse, into which a share of the budget flows. So all
censuses together stay within the budget, however many are requested.
"""
import _thread
import sys
from time import monotonic, monotonic_ns, thread_time_ns

from .. import mainthread, state, torchhook
from . import evidence, graphs_garbage, interactive, introspect, libraries, roots, sites, tensors, unseen, walk
from .memory import SHARE, WINDOW, Memory

SLICE = 1_500_000        # ns of our thread's CPU time: the longest time for which it may hold the GIL
PATIENT = 3_000_000      # … for an object that takes longer than a slice
PAUSE = 0.006            # s between two slices: the trainer has four fifths of the time
STUCK = 40               # slices spent on one object before it is left out
LIBRARY_VISITS = 150_000  # objects of libraries' globals
CROWDED = 5              # times the CPU time of a census at a process's end may go by until it is written
WALKING = 0.5            # share of the time at a process's end that is for the walk; the rest is for writing rows

_memory = Memory()


def after_fork():
    global _memory
    _memory, state.census, state.followed = Memory(), None, False


def request(deep, finished, unasked=False):
    """Starts a census, or joins the one that runs. finished(census) is called at its end. Raises ValueError with a text
    for the user when the budget doesn't allow one yet. Who asks may have half a purse in advance."""
    running = _memory.running
    if running is not None and running.outcome is None:
        running.listeners.append(finished)
        return running, False
    budget = state.settings.budget
    level = _memory.purse.look(budget)
    wanted = _memory.wanted(budget)
    advance = 0 if unasked else budget * SHARE * WINDOW / 2
    if level + advance < wanted and not deep:
        raise ValueError("the last census took %.0f ms of the training's time, and the budget of %g%% allows the next "
                         "one in %.0f s"
                         % (_memory.last_cost / 1e6, budget * 100,
                            _memory.purse.wait(wanted - advance, budget) + 1))
    _memory.running = state.census = census = Census(_memory, deep, max(level + advance, wanted))
    census.listeners.append(finished)
    return census, True


def memory_of():
    """What this process remembers of its censuses."""
    return _memory


def last_look(limit):
    """At the process's end, in its main thread: writes what a running census has found, or else begins a census.
    It takes `limit` ns at most, regardless of the budget: there are no more steps that it could delay."""
    job = _memory.running
    if job is None or job.outcome is not None:
        job = _memory.running = state.census = Census(_memory, False, limit)
    job.finish(limit)


class Census(graphs_garbage.GraphsGarbage, libraries.Libraries, unseen.Unseen, evidence.Telling):
    """A job of Control: tick() until `outcome` is set ("done" or "interrupted")."""

    def __init__(self, memory, deep, allowance):
        self.memory, self.deep, self.allowance = memory, deep, allowance
        self.outcome, self.listeners = None, []
        self.number = memory.number + 1
        self.compared = memory.number > 0
        self.step = evidence.steps()
        self.began = monotonic_ns()
        self.spent = self.longest = self.slice_began = self.beside = 0
        self.limit = SLICE
        self.notes = []
        self.rows = 0
        self.graph_rows = {}     # place -> [nodes of a graph at most, longest chain]
        self.graphs_looked = {}  # place -> how many graphs were measured
        self.homes = {}          # a root's label -> the file that it belongs to
        self.libraries = {}      # label of a root that a library has -> file:line of its running function, or its file
        self.torch = None
        self.until = None        # ns, of this thread's CPU time: when an ending process needs the rows
        self.late = 0            # ns, CLOCK_MONOTONIC: when it needs them however little of the machine it had
        self.out = []            # rows, not yet written
        self.anon = _private()
        self._work = self._phases()

    # ------------------------------------------------------------ time

    def over(self):
        return thread_time_ns() - self.slice_began > self.limit

    def exhausted(self):
        if self.until is not None:
            return thread_time_ns() > self.until or monotonic_ns() > self.late
        return self.spent > self.allowance * (1 - evidence.RESERVE)

    def affords(self, ns):
        """Whether `ns` may be spent on an optional part."""
        return self.until is None and self.spent + ns < self.allowance * (1 - evidence.RESERVE)

    def tick(self):
        """Works for a slice. Returns when the next one is due, or None at the end."""
        if self.outcome is not None:
            return None
        self.slice_began = thread_time_ns()
        try:
            if self.torch is not None and self.torch.found:
                with self.torch.quiet():
                    next(self._work)
            else:
                next(self._work)
            due = monotonic() + PAUSE
        except StopIteration:
            due = None
        except Exception:
            state.error("census")
            self.notes.append("it failed: memgauge.events tells why")
            due = None
        self._release_frames()
        took = thread_time_ns() - self.slice_began
        self.spent += took
        self.longest = max(self.longest, took)
        if due is None:
            self._end("done")
        return due

    def interrupt(self):
        if self.outcome is None:
            self._end("interrupted")

    def finish(self, limit):
        """Continues the walk for a while, then writes what was found, all within `limit` ns of CPU time. Where others
        want the cores, that takes longer, CROWDED times at most."""
        end, late = thread_time_ns() + limit, monotonic_ns() + CROWDED * limit
        self.until, self.late = end - int(limit * (1 - WALKING)), late - int(limit * (1 - WALKING))
        self.allowance = self.spent + limit
        self.notes.append("the process ended: not everything was looked at")
        while self.outcome is None and thread_time_ns() < end and monotonic_ns() < late:
            self.tick()
        if self.outcome is None:
            self._write()
            self._end("done")

    def _end(self, outcome):
        self.outcome = outcome
        self._work = self.walk = None
        memory = self.memory
        memory.purse.look(state.settings.budget)
        memory.purse.level -= self.spent
        # what libraries took need not be, where the purse holds less
        memory.last_cost, memory.running, state.census = max(self.spent - self.beside, 5_000_000), None, None
        listeners, self.listeners = self.listeners, []
        for finished in listeners:
            finished(self)

    def _release_frames(self):
        frames = self.walk.frames if self.walk is not None else None
        if frames:
            mainthread.release(frames[:])
            del frames[:]

    walk = None

    def summary(self):
        """[(key, value)] as docs/formats/control.md lists them."""
        return [("census", self.number), ("step", self.step), ("visited", int(self.visited)),
                ("tensors", int(self.seen)),
                ("rows", self.rows), ("cpu_ns", self.spent), ("longest_ns", self.longest),
                ("wall_ns", monotonic_ns() - self.began), ("complete", int(not self.notes)),
                ("note", "; ".join(self.notes))]

    visited = seen = 0

    # ------------------------------------------------------------ phases. Nothing of the program's may be in a local
    # variable of a generator while it yields.

    def _phases(self):
        self.torch = torch = tensors.Torch()
        numpy = torchhook.loaded("numpy")
        self.kinds = introspect.Kinds(torch.tensor, torch.parameter, torch.module, torch.optimizer,
                                      getattr(numpy, "ndarray", None))
        del numpy
        self.memory.marks.step = max(1, self.step)
        self.walk = walk.Walk(torch, self.kinds, self.over, self.memory.marks)
        self.roots = roots.Roots(_thread.get_ident())
        yield
        self._pass_by_globals()
        yield
        yield from self._walk()
        spent = self.spent
        yield from self._unreached()
        self.beside += self.spent - spent
        self.visited, self.seen = self.walk.visited, self.walk.tensors
        yield from self._graphs()
        yield from self._cycles()
        yield from self._report()
        for seen in (self.walk.done, self.walk.queued):
            for part in seen:
                part.clear()
                if self.over():
                    yield

    def _unit(self, work, *args):
        """Runs a piece of work, which begins again in the next slice if the slice's time is up before its end."""
        tries, before = 0, -1
        while not self.exhausted():
            del self.walk.unfinished[:]
            try:
                work(*args)
                break
            except walk.Pause:
                progress = self.walk.done.count() + self.walk.queued.count()
            tries = tries + 1 if progress == before else 0
            before = progress
            if tries > STUCK:
                self.walk.left_out += 1
                break
            self.limit = SLICE if tries < 4 else PATIENT
            yield
            self.limit = SLICE
        for place in self.walk.unfinished:       # of what was given up; what ended has none
            self.walk.cut[place] = 1
        if self.over():
            yield

    def _walk(self):
        """Walks the program's own objects first: if the process ends meanwhile, or the budget allows no more, most of
        what matters has been visited. What runs and __main__ are known at once, other modules are not."""
        self._pass_by_loggers()
        yield from self._unit(self._managed)
        self._managed_counted()
        frames = self.roots.frames()
        for root in frames:
            if root[3]:
                yield from self._unit(self._frame, root)
        yield from self._unit(self._module, libraries.MAIN)
        yield from self._queue(walk.MAX_VISITED)
        yield from self._graphs()
        if not self.exhausted():
            yield from self._names()
        for name in self.own_names:
            if name != libraries.MAIN:
                yield from self._unit(self._module, name)
        yield from self._queue(walk.MAX_VISITED)
        yield from self._graphs()
        for root in frames:
            if not root[3]:
                yield from self._unit(self._frame, root)
        yield from self._unit(self._tables)
        yield from self._queue(walk.MAX_VISITED)
        yield from self._unit(self._finalizers)
        yield from self._queue(walk.MAX_VISITED)
        spent = self.spent
        yield from self._libraries()
        yield from self._queue(self.walk.visited + LIBRARY_VISITS)
        self.beside = self.spent - spent
        if self.exhausted() and self.until is None:
            self.notes.append("it ended early, having used up what the budget allows: %d objects were seen"
                              % self.walk.visited)

    def _queue(self, limit):
        """Visits everything in the queue; objects that can't be visited are dropped."""
        queue = self.walk.queue
        while (queue or self.walk.late) and not self.exhausted() and self.walk.visited < limit:
            size = len(queue)
            yield from self._unit(self._drain, limit)
            if len(queue) == size and queue:
                self.walk.skip()
        if queue and not self.exhausted():
            self.notes.append("it ended after %d objects" % self.walk.visited)
        self.walk.drop()

    def _drain(self, limit):
        while self.walk.visited < limit and self.walk.next():
            self.walk.tick()

    def _frame(self, root):
        frame = self.roots.find(*root)
        if frame is None:
            return
        values = roots.frame_values(frame, self.walk)
        function = "%s()." % introspect.code_name(frame.f_code)
        home = frame.f_code.co_filename
        foreign = "" if introspect.is_user_file(home) else sites.where(frame.f_code, frame.f_code.co_firstlineno)
        for name in list(values):
            if type(name) is str and not name.startswith(("@", ".")) and not (name[:2] == name[-2:] == "__"):
                try:
                    value = values[name]
                except KeyError:
                    continue
                if foreign and function + name not in self.homes:     # the program's own functions came before
                    self.libraries[function + name] = foreign
                self.homes[function + name] = home
                self.walk.start(value, function + name)
        if not introspect.is_user_file(frame.f_code.co_filename):
            return
        module = frame.f_globals
        if sys.modules.get(module.get("__name__")) is None:      # run by exec or runpy
            self._globals(module, "<%s>" % frame.f_code.co_filename.rpartition("/")[2])

    def _module(self, name):
        module = sys.modules.get(name)
        if module is not None:
            self._globals(introspect.module_dict(module), name)

    def _globals(self, values, name):
        home = values.get("__file__")
        for key, value in list(values.items()):
            if type(key) is str and not (key.startswith("__") and key.endswith("__")):
                if name == libraries.MAIN and key in state.evaluated and state.evaluated[key] == id(value):
                    continue     # the user's question made it
                if name == libraries.MAIN and interactive.is_shells(key, values):
                    continue     # results of cells: they come after the user's own names
                self.homes["%s.%s" % (name, key)] = home
                self.walk.start(value, "%s.%s" % (name, key))


def _private():
    """Bytes of private memory, where an observer of torch reads it; else 0."""
    observer = state.observer
    return max(0, observer.host.memory()[1]) if observer is not None else 0
