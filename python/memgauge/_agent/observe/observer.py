"""The observer of torch: counts steps, samples modules now and then, and keeps to its budget.

Phases of a training. Until two steps have ended, all module calls are watched, without rows. That finds the roots, and
how often an optimizer steps in one step. Afterwards only the ends of optimizer steps are observed, until the governor
opens a window: one plain step is timed, one is sampled (calls watched, rows written), and one more plain step is
timed. Without an optimizer, root forwards take the place of steps after INFERENCE of them.

Nothing is opened before the first step (or the INFERENCE-th forward): a process that only imports torch stays as it
was."""
import sys
import traceback
from _thread import allocate_lock, get_ident
from time import monotonic_ns as now
from time import thread_time_ns as cpu_now

from .. import recording, state
from ..gauges.memory import Cuda, Host
from ..record._spec import POST_STEP, PRE_STEP
from .costs import Costs
from .counter import Counter
from .governor import Governor
from .hooks import Compiles, Dynamo, Gate, ModuleCalls, StepEnds, StepStarts, Unsupported
from .inference import INFERENCE, Forwards
from .modules import Calls, Names
from .optimizers import Optimizers
from .phases import Phases
from .sampling import IDLE, SAMPLED, Sampling
from .steprecords import StepRecords
from .steps import Steps

SECOND = 1_000_000_000
LOOK_UP = 64  # records between two measurements of what records cost
RETRY = 1000  # steps at most until opening a ring is tried again
MAX_ERRORS = 10  # of our own; then all hooks are removed


class Observer(Forwards, Sampling, StepRecords):
    """One process's observation of torch, on the thread that trains, but for flush(), settings_changed(), remove()."""

    def __init__(self, torch):
        self.torch = torch
        self.lock, self.holder = allocate_lock(), 0  # only ever tried, never waited for
        self.errors = 0
        self.removed = False
        self.ring = None
        self.visit = None  # what moment.py has called, once, at the end of the step
        self.trains_on = 0  # ident of the thread that made the last step at which _due ran
        self.host, self.cuda = Host(), Cuda(torch)
        self.dynamo = Dynamo(torch)
        self.ends = StepEnds(torch)
        self.gate = Gate()
        self.starts = StepStarts(self.before_step, self.gate)
        self.names = Names()
        try:
            self.modules = ModuleCalls(torch, self.gate)
        except Unsupported as why:
            self.modules = None
            state.event("error", "no module rows: %s" % why)
        self.compiles = Compiles(torch, self._guarded)
        self.phases = Phases(self, self.dynamo)
        self._start()

    def _start(self):
        """The state of a process that has made no step yet."""
        self.governor = Governor(state.settings.budget, state.settings.trace)
        self.steps = Steps()
        self.optimizers = Optimizers()
        self.changed = False  # settings
        self.dead = False  # no ring can be opened
        self.compiled = False  # optimizers run compiled: their classes are left alone
        self.inference = self.looking = False
        self.forwards, self.infers_at = 0, INFERENCE
        self.offset = 0  # what the counter stood at when steps were counted anew
        self.tail = 0  # ns of our own cost that no record contains yet
        self.phase, self.next_sample, self.last_sample = IDLE, 2, 0
        self.cpu = self.cpu_before = self.cpu_sampled = None
        # ns, of the last look, and whether it took the gauges
        self.heap_cost = self.heap_cpu = self.look_cost = self.gauged = 0
        self.gauges_at = 0  # step whose record carries gauges again
        self.max_resident = self.gc_full = 0
        self.costs = Costs(self.governor)
        self.counter = Counter(self._due, self._other, self.lock)
        self.dynamo.skip(self.counter.hook)
        if self.modules:
            self.names.roots = self.modules.roots
            self.calls = Calls(self.modules.plain, self.names, self.host, self.cuda, self._error)
            self.calls.forward = self._forward
            self.calls.on_idle = self._stop_looking
            self.modules.prepare(self.calls.watched, self.dynamo)
            self.dynamo.skip(Calls.watched, nested=False)
            for function in (Calls.before, Calls.after):
                self.dynamo.skip(function)
            if state.came_later():
                self.calls.begin_within(self.modules.original)
        self.ends.put(self.counter.hook)
        self._look()

    # --- watching -------------------------------------------------------------------------------------------------

    def _look(self):
        """Watches all module calls, without rows."""
        self.looking = bool(self.modules and not self.governor.off and self.modules.watch("all"))

    def _stop_looking(self):
        self.looking = False
        self.calls.on_idle = None
        if self.phase != SAMPLED:
            self.modules.watch("roots" if self.inference else None)
        self.steps.unwatched()

    def _guarded(self, name):
        """Compiled code is about to depend on Module.__call__'s code, which from now on stays torch's own."""
        if self.modules:
            self.modules.watch(None)
            self.modules.guarded = True
            state.event("note", "no module rows: torch.compile guards Module.__call__, which %s calls" % name)

    @property
    def watching(self):
        return self.looking or self.phase == SAMPLED and self.modules is not None and not self.governor.off

    # --- optimizer events -----------------------------------------------------------------------------------------

    def _other(self, optimizer):
        """An optimizer stepped, and it must be found out whether that ends a step."""
        try:
            number = self._first_event(optimizer)
            if self.phase == SAMPLED and self.ring and self.modules:
                self._optimizer_row(optimizer)
            ends = self.steps.event(number, self.watching)
            if ends and self.counter.add(ends):
                self._due()
            elif self.steps.solo:
                self._plan()
        except Exception:
            self._error()

    def _first_event(self, optimizer):
        """The optimizer's number; what there is to do when one steps that was not seen before."""
        number = self.optimizers.number(optimizer)
        if not number:
            self._trains()
            number = self.optimizers.enter(optimizer)
            # frames: this, _other, the hook, the wrapper of step() or what torch.compile made of it
            self.compiled = self.compiled or self.starts.compiled(optimizer, sys._getframe(3))
        if self.modules and not self.calls.owner:
            self.calls.owner = get_ident()
        if self.inference:
            self._end_inference()
        return number

    def _optimizer_row(self, optimizer):
        if self.calls.sampling:
            self.compiled = self.compiled or self.starts.compiled(optimizer, sys._getframe(3))
            self.calls.optimizer(POST_STEP, optimizer)

    def before_step(self, args):
        """step() of an optimizer begins, in a sampled step."""
        try:
            if args and self.calls.sampling and get_ident() == self.calls.owner:
                self.calls.optimizer(PRE_STEP, args[0])
        except Exception:
            self._error()

    # --- the end of a step ----------------------------------------------------------------------------------------

    step = property(lambda self: self.counter.get() - self.offset)  # steps ended

    def _due(self):
        """A step ended, and the plan said to look up. Never waits: if the control thread is at it, the next step will
        do."""
        start, cpu = now(), cpu_now()
        mine = get_ident()
        if not self.lock.acquire(False) and self.holder != mine:  # ours already: a signal handler that trains
            return
        self.holder = mine
        try:
            if self._open():
                self._end(start, cpu)
            if self.changed:
                self._settle()
            self._plan()
        except Exception:
            self._error()
        finally:
            self.holder = 0
            _release(self.lock)
        visit, self.visit, self.trains_on = self.visit, None, mine
        if visit is not None:
            visit()  # what a signal handler raises meanwhile is the program's
        state.guard is None or state.guard.step_ended(self.step)  # may end the training, as its policy says

    def _open(self):
        if self.ring is None:
            self.ring = recording.ring(large=True)
            self.dead = self.ring is None  # nowhere to write to: not observed
            if self.dead:
                if self.modules and self.looking:
                    self._stop_looking()
                return False
            self.names.reset(self.ring.name)
            self.counter.into(self.ring.step)
            # opens and imports: not what readings cost
            self.host.memory(), self.host.max_resident(), self.host.mallinfo()
            self.costs.since = now()
            state.training_begins()
        return True

    def _end(self, start, cpu):
        phase, self.heap_cost, self.heap_cpu, self.gauged = self.phase, 0, 0, False
        if phase == SAMPLED:
            self._end_sample()
        recorded, last = self.counter.recorded()
        steps = self.step - recorded
        if self._record_due(steps):
            writing = self._record(start)
            # the step after a sample starts with the heap's reading and the like, so it stands for no other
            plain = phase == IDLE and last
            self.governor.after_record(steps, start - last if plain else 0, writing, self.look_cost)
            if plain and self.governor.samples:  # what was thought right at the last sample may be more than it takes
                self.next_sample = min(self.next_sample, self.last_sample + self.governor.next_sample(self.last_sample))
        self._window(cpu)
        if start - self.costs.since > SECOND:
            self.costs.tell(self.ring, self.step, start)
        cost = now() - start
        # in CPU time: a look in which others had the core is not dearer, and one such would end the looking
        self.look_cost = cpu_now() - cpu - self.heap_cpu if self.gauged and phase == self.phase == IDLE else 0
        self.tail += cost
        self.costs.add("step hook", cost - self.heap_cost)

    def _plan(self):
        """Plans the next call of _due, and whether one optimizer's steps can simply be counted until then."""
        at, governor = self.step, self.governor
        if self.looking and at >= 2 and self.phase != SAMPLED:
            self._stop_looking()
        each = governor.steps_per_record
        if self.dead:
            due = at + min(RETRY, max(1, at))  # it may only have been busy: sooner at first
        elif self.phase != IDLE or governor.all or self.inference or not self.counter.recorded()[1]:
            due = at + 1
        else:
            gauges = min(self.gauges_at, self.host.heap_step(at, governor.period.value))
            due = min(max(gauges, self.counter.recorded()[0] + each), at + LOOK_UP * each)
            if not governor.off and self.modules:
                due = min(due, self.next_sample - 2)
        due = due if state.guard is None else min(due, state.guard.due(at))
        solo = None if self.watching or self.inference else self.optimizers.key(self.steps.solo)
        self.counter.plan(max(due, at + 1) + self.offset, solo, each)

    # --- telling --------------------------------------------------------------------------------------------------

    def _error(self):
        """An exception of our own, which doesn't reach the user. The tenth one ends the observation."""
        self.errors += 1
        try:
            if self.errors <= MAX_ERRORS:
                state.event("error", traceback.format_exc()[-1800:])
            if self.errors == MAX_ERRORS:
                self.remove()
        except Exception:
            pass  # there is no place left to report it

    # --- from outside ---------------------------------------------------------------------------------------------

    def flush(self):
        """Writes the record of the steps that have none yet. From any thread; does nothing while the trainer is at
        it."""
        if self.ring is None or not self.lock.acquire(False):
            return
        self.holder = get_ident()
        try:
            at = now()
            self._record(at, flush=True)
            self.costs.tell(self.ring, self.step, at)
        except Exception:
            self._error()
        finally:
            self.holder = 0
            _release(self.lock)

    def settings_changed(self):
        """From any thread; the training's own follows at the end of its next step."""
        self.changed = True
        self.counter.plan(0, None, 1)

    def _settle(self):
        self.changed = False
        self.governor.budget, self.governor.trace = state.settings.budget, state.settings.trace
        if self.modules and self.governor.off:
            self.phase, self.looking = IDLE, False
            self.calls.end()
            self.starts.remove()
            self.modules.watch(None)
            self.steps.unwatched()
        elif self.modules and self.inference and self.phase == IDLE:
            self.modules.watch("roots")
        self.next_sample = self.step + 2

    def remove(self):
        """Removes all hooks and restores torch."""
        if self.removed:
            return
        self.removed = True
        self.gate.shut()
        self.flush()
        self.ends.remove()
        self.compiles.remove()
        self.phases.remove()
        self.starts.forget()
        if self.modules:
            self.calls.end()
            self.modules.remove()
        self.host.close()

    def after_fork(self):
        """In the child: no step made, nothing open, hooks in."""
        if self.removed:
            return
        self.lock, self.holder = allocate_lock(), 0
        self.gate.lock = allocate_lock()
        self.host.close()
        self.ring = None
        if self.modules:
            self.calls.end()
            self.starts.remove()
            self.modules.watch(None)
        self.names.reset(None)
        self._start()
        self.phases.reset()


def _release(lock):
    try:
        lock.release()
    except RuntimeError:
        pass  # an exit handler that interrupted the holder released it


def install(torch):
    try:
        state.observer = state.observer or Observer(torch)
    except Unsupported as why:
        state.event("error", "torch is not observed: %s" % why)


def uninstall():
    observer, state.observer = state.observer, None
    if observer is not None:
        observer.remove()
