"""What the agent sees of torch: counts steps, opens a window for module rows now and then, keeps to its budget.

Life of a training thread, seen from here. Until two steps have ended all module calls are watched, without rows: the
roots become known, and how often an optimizer steps in a step. Then only the end of optimizer steps is seen, until the
governor opens a window: one plain step is clocked, one is sampled (calls watched, rows written), one plain step is
clocked again. Without an optimizer, root forwards take the place of steps after INFERENCE of them.

Nothing is opened before the first step (or the INFERENCE-th forward): a process that only imports torch stays as it was.
"""
import gc
import itertools
import sys
import traceback
from _thread import allocate_lock, get_ident
from time import monotonic_ns as now
from time import thread_time_ns as cpu_now
from weakref import ref

from .. import life, ranks
from ..record._spec import FLAG_INFERENCE, FLAG_SAMPLED, NOT_TAKEN, POST_STEP, PRE_STEP
from .costs import Costs
from ..gauges.memory import Cuda, Host
from .governor import MAX_STEPS, Governor
from .hooks import Compiles, Door, Dynamo, ModuleCalls, StepEnds, StepStarts, Unsupported
from .modules import Calls, Names
from .steps import Steps

INFERENCE = 20  # root forwards without any optimizer step: a longer look than any warm-up or sanity check takes
SECOND = 1_000_000_000
NEVER = 1 << 62
LOOK_UP = 64  # records between two looks at what records cost
RETRY = 1000  # steps until a ring is asked for again
MAX_ERRORS = 10  # of our own; then we take ourselves off
MAX_OPTIMIZERS = 64
IDLE, BEFORE, SAMPLED, AFTER = range(4)  # where the step that is going on stands towards a sample


class Counter:
    """Optimizer steps, counted and recorded. `hook` is all that runs in most steps: with one optimizer, a comparison, an
    addition and, where a record is due, the clock and the record. Looking up variables of an outer function is the
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
            """A record without gauges. If the control thread is at it just now, the next step will do."""
            nonlocal recorded, last, record_at
            if acquire(False):
                try:
                    at = now()
                    number = count - offset
                    write(0, number - recorded, number, cost, at - last, NOT_TAKEN, NOT_TAKEN, NOT_TAKEN, at)
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


class Observer:
    """One process's observation of torch. Everything runs on the thread that trains, except flush(), settings_changed() and
    remove()."""

    def __init__(self, torch):
        self.torch = torch
        self.lock = allocate_lock()  # only ever tried, never waited for
        self.holder = 0
        self.errors = 0
        self.removed = False
        self.ring = None
        self.visit = None  # what moment.py has called, once, at the end of the step
        self.trains_on = 0  # ident of the thread that made the last step that was looked at
        self.host, self.cuda = Host(), Cuda(torch)
        self.dynamo = Dynamo(torch)
        self.ends = StepEnds(torch)
        self.door = Door()
        self.starts = StepStarts(self.before_step, self.door)
        self.names = Names()
        try:
            self.modules = ModuleCalls(torch, self.door)
        except Unsupported as why:
            self.modules = None
            life.event("error", "no module rows: %s" % why)
        self.compiles = Compiles(torch, self._guarded)
        self._start()

    def _start(self):
        """The state of a process that has made no step yet."""
        self.governor = Governor(life.settings.budget, life.settings.trace)
        self.steps = Steps()
        self.optimizers = {}  # id -> (weak reference, number): an id may be given again, a number is not
        self.numbers = itertools.count(1)
        self.changed = False  # settings
        self.dead = False  # there is no ring to be had
        self.compiled = False  # optimizers run compiled: their classes are left alone
        self.inference = self.looking = False
        self.forwards = 0
        self.offset = 0  # what the counter stood at when steps were counted anew
        self.tail = 0  # ns of ours that no record has told yet
        self.phase, self.next_sample, self.last_sample = IDLE, 2, 0
        self.cpu = self.cpu_before = self.cpu_sampled = None
        self.heap_cost = self.heap_cpu = self.look_cost = self.gauged = 0  # ns, of the last look, and whether it took the gauges
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
            if life.came_later():
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
        if not self.modules:
            return
        self.modules.watch(None)
        self.modules.guarded = True
        life.event("note", "no module rows: torch.compile guards Module.__call__, which %s calls" % name)

    @property
    def watching(self):
        return self.looking or self.phase == SAMPLED and self.modules is not None and not self.governor.off

    def _forward(self):
        """A root forward begins."""
        self.steps.forward()
        self.forwards += 1
        if self.inference or self.steps.events:
            return
        if self.forwards == INFERENCE or self.governor.all and self.forwards == 1:
            self.inference = self.forwards == INFERENCE or self.inference
            self._open()
            if self.ring and self.inference:
                for _ in range(INFERENCE - 1):  # this one adds itself as it ends
                    self.counter.add()
                self.calls.forward_end = self._forward_end
                self._stop_looking()
            elif self.ring:
                self._begin_sample()

    def _forward_end(self):
        if self.counter.add():
            self._due()

    # --- optimizer events -----------------------------------------------------------------------------------------

    def _other(self, optimizer):
        """An optimizer stepped, and it is not plain that this ends a step."""
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
        known, number = self.optimizers.get(id(optimizer), _NOBODY)
        if known() is not optimizer:
            for key in [key for key, (other, _) in self.optimizers.items() if other() is None]:
                self.steps.gone(self.optimizers.pop(key)[1])
            if len(self.optimizers) >= MAX_OPTIMIZERS:
                self.optimizers.clear()
            number = next(self.numbers)
            self.optimizers[id(optimizer)] = ref(optimizer), number
            # frames: this, _other, the hook, the wrapper of step() or what torch.compile made of it
            self.compiled = self.compiled or self.starts.compiled(optimizer, sys._getframe(3))
        if self.modules and not self.calls.owner:
            self.calls.owner = get_ident()
        if self.inference:
            self._end_inference()
        return number

    def _solo(self):
        """id of the only optimizer, where each of its events ends a step."""
        number = self.steps.solo
        for key, (known, other) in self.optimizers.items() if number else ():
            if other == number and known() is not None:
                return key
        return None

    def _end_inference(self):
        """The forwards were not inference, but what came before the training: steps count from 1."""
        at = now()
        self._record(at, flush=True)
        self.inference = False
        self.governor = Governor(self.governor.budget, self.governor.trace)  # a forward's length says nothing of a step's
        self.costs.governor = self.governor
        self.calls.forward_end = None
        self.offset = self.counter.get()
        self.counter.told(0, 0, 0, self.offset)  # the first step began at some forward before this: its length is unknown
        self.steps.forwards = max(1, self.steps.forwards)
        self.phase, self.next_sample = IDLE, 2
        self.calls.end()
        self.modules.watch(None)

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
        """A step ended, and the plan said to look up. Never waits: if the control thread is at it, the next step will do."""
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

    def _open(self):
        if self.ring is None:
            self.ring = life.ring(large=True)
            if self.ring is None:
                self.dead = True  # nowhere to write to: not observed
                if self.modules and self.looking:
                    self._stop_looking()
                return False
            self.dead = False
            self.names.reset(self.ring.name)
            self.counter.into(self.ring.step)
            self.host.memory(), self.host.max_resident(), self.host.mallinfo()  # opens and imports: not what readings cost
            self.costs.since = now()
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

    def _record_due(self, steps):
        if steps <= 0:
            return False
        return self.phase in (BEFORE, SAMPLED) or self.governor.all or steps >= self.governor.steps_per_record

    def _record(self, at, flush=False):
        """The step record, and what precedes it. Gives what writing it cost."""
        recorded, last = self.counter.recorded()
        steps, number = self.step - recorded, self.step
        if steps <= 0 or self.ring is None:
            return 0
        rss = anon = peak = NOT_TAKEN
        self.gauged = number >= self.gauges_at or flush
        if self.gauged:
            self.gauges_at = number + self.governor.gauge_gap * self.governor.steps_per_record
            rss, anon = self.host.memory()
            highest = self.host.max_resident()
            if highest > self.max_resident:
                peak, self.max_resident = highest, highest
            if self.cuda.ready() and not self.cuda.capturing():
                self._devices(number, at)
        # Not in a window, where it would count as the sample's cost, nor at a flush: at exit half of the memory is gone.
        if not flush and (self.phase == IDLE or self.governor.all):
            self._heap(at, number)
        wrote = now()
        flags = (FLAG_SAMPLED if self.phase == SAMPLED and self.modules else 0) | (FLAG_INFERENCE if self.inference else 0)
        duration = at - last if last else NOT_TAKEN
        while steps > 0:
            part = min(steps, MAX_STEPS)
            self.ring.step(flags, part, number - steps + part, min(self.tail, 0xFFFFFFFF), duration, rss, anon, peak, at)
            steps -= part
            duration = 0
        took = now() - wrote
        self.tail = 0
        self.counter.told(number, at, took, self.offset)
        return took

    def _devices(self, number, at):
        devices = self.calls.devices if self.modules else set()
        devices.add(self.cuda.current())
        for device in devices:
            self.ring.device(0, 0, device, number, 0, *self.cuda.read(device), ts=at)
            failures = self.cuda.failures(device)
            if failures:
                from ..gauges import oom
                oom.caught(device, failures)

    def _heap(self, at, number):
        begin, cpu = now(), cpu_now()
        reading = self.host.heap(at, self.governor.budget, 0 if self.gauged else self.governor.look.value)
        if reading is None:
            return
        in_use, held, blocks, cost = reading
        counts = [generation["collections"] for generation in gc.get_stats()]
        full, self.gc_full = counts[-1] - self.gc_full, counts[-1]
        self.ring.heap(0, min(full, 0xFFFF), number, sum(counts) & 0xFFFFFFFF, in_use, held, blocks, cost, ts=at)
        self.heap_cost, self.heap_cpu = now() - begin, cpu_now() - cpu
        self.costs.add("heap", self.heap_cost)

    # --- samples --------------------------------------------------------------------------------------------------

    def _window(self, cpu):
        """Where the step that begins now stands towards a sample. `cpu`: CPU time of this thread as the last one ended."""
        if self.governor.off or not self.modules:
            return
        if self.phase == BEFORE:
            self.cpu_before = cpu - self.cpu
            self._begin_sample()
        elif self.phase == SAMPLED:
            self.cpu_sampled = cpu - self.cpu if self.cpu is not None else None
            self.phase = AFTER
            if self.governor.all:
                self._sample_over(None)
        elif self.phase == AFTER:
            self._sample_over(cpu - self.cpu)
        if self.phase == IDLE and self.step >= self.next_sample - 2:
            if self.governor.all or self.step == self.next_sample - 1:
                self.cpu_before = None
                self._begin_sample()
            else:
                self.phase = BEFORE
        self.cpu = cpu

    def _begin_sample(self):
        if self._profiled():
            self.next_sample = self.step + 3
            self.phase = IDLE
            return
        for optimizer in [known() for known, _ in self.optimizers.values()] if not self.compiled else ():
            if optimizer is not None:
                self.starts.add(optimizer)
        self.compiles.listen()
        got = self.modules.watch("all")
        if not got:
            if self.removed or got is None:
                return
            if not self.modules.guarded:
                life.event("error", "no module rows: somebody else exchanged Module.__call__'s code")
            self.governor.trace = "off"
            return
        self.calls.begin(self.ring, self.step + 1, self.governor.stride, self.governor.samples)
        self.phase = SAMPLED

    def _end_sample(self):
        self.calls.end()
        self.starts.remove()
        keep = self.governor.all or self.looking and self.step < 2
        self.looking = False
        if not keep:
            self.modules.watch("roots" if self.inference else None)
        self.tail += self.calls.own
        rank = ranks.from_torch()
        if rank:
            life.set_rank(*rank)

    def _sample_over(self, cpu_after):
        governor = self.governor
        modules = len(self.names.table)
        on_device = bool(self.calls.devices)  # its work is not in the thread's CPU time
        governor.after_sample(self.calls.own, self.cpu_before, self.cpu_sampled, cpu_after, modules)
        if on_device:
            governor.cpu.values.clear()
        self.costs.add("module hooks", governor.cost(), self.calls.rows)
        self.phase = IDLE
        self.last_sample = self.step
        self.next_sample = self.step + governor.next_sample(self.step)
        self.costs.tell_budget(modules)

    def _profiled(self):
        """torch.profiler takes Module.__call__'s code object for a mark the first time it runs: don't hide it then."""
        enabled = getattr(self.torch._C._autograd, "_profiler_enabled", None)
        return bool(enabled and enabled())

    def _plan(self):
        """When to look up next, and whether one optimizer's steps need no looking at until then."""
        at, governor = self.step, self.governor
        if self.looking and at >= 2 and self.phase != SAMPLED:
            self._stop_looking()
        each = governor.steps_per_record
        if self.dead:
            due = at + RETRY
        elif self.phase != IDLE or governor.all or self.inference or not self.counter.recorded()[1]:
            due = at + 1
        else:
            gauges = min(self.gauges_at, self.host.heap_step(at, governor.period.value))
            due = min(max(gauges, self.counter.recorded()[0] + each), at + LOOK_UP * each)
            if not governor.off and self.modules:
                due = min(due, self.next_sample - 2)
        solo = None if self.watching or self.inference else self._solo()
        self.counter.plan(max(due, at + 1) + self.offset, solo, each)

    # --- telling --------------------------------------------------------------------------------------------------

    def _error(self):
        """An exception of ours, on its way to the user. It ends here; the tenth one ends the observation."""
        self.errors += 1
        try:
            if self.errors <= MAX_ERRORS:
                life.event("error", traceback.format_exc()[-1800:])
            if self.errors == MAX_ERRORS:
                self.remove()
        except Exception:
            pass  # nobody is left to tell

    # --- from outside ---------------------------------------------------------------------------------------------

    def flush(self):
        """Writes the record of the steps that have none yet. From any thread; does nothing while the trainer is at it."""
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
        self.governor.budget, self.governor.trace = life.settings.budget, life.settings.trace
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
        """Off, and everything in torch as it was found."""
        if self.removed:
            return
        self.removed = True
        self.door.shut()
        self.flush()
        self.ends.remove()
        self.compiles.remove()
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
        self.door.lock = allocate_lock()
        self.host.close()
        self.ring = None
        if self.modules:
            self.calls.end()
            self.starts.remove()
            self.modules.watch(None)
        self.names.reset(None)
        self._start()


_NOBODY = type(None), 0  # called, it gives None, like the weak reference to an optimizer that is no more


def _release(lock):
    try:
        lock.release()
    except RuntimeError:
        pass  # an exit handler that interrupted the holder released it


_observer = None


def install(torch):
    global _observer
    try:
        _observer = _observer or Observer(torch)
    except Unsupported as why:
        life.event("error", "torch is not observed: %s" % why)


def uninstall():
    global _observer
    observer, _observer = _observer, None
    if observer is not None:
        observer.remove()


def _ask(method):
    return lambda: getattr(_observer, method)() if _observer is not None else None


after_fork, settings_changed, flush = map(_ask, ("after_fork", "settings_changed", "flush"))
