"""The guard of a process: looks at its memory at the ends of steps, and does what the policy says, on the thread that
trains and never beside it. With nothing to do it reads a few files and changes nothing. docs/guard.md"""
import os
from time import monotonic, perf_counter, thread_time

from .. import state
from ..record._spec import CODE_HELPED, CODE_HOLDER, CODE_LEFT_OUT, CODE_VAIN
from . import actions
from . import memories as memory
from .ahead import Ahead
from .hooks import Hooks, Saving, of, size
from .lists import Watched
from .policy import from_environment

SETTLED = 10          # steps until growth counts: those before set things up
SHARE = 0.005         # of the training's time may go to looks,
NEAR_SHARE = 0.05     # … and near a limit, where it is a matter of steps
PURSE = 0.02          # s of looks that may be saved up: after an evaluation several steps are looked at
HELPED = 0.01         # of what was used: an action that frees less did not help
HELPED_LEAST = 1 << 20
TRIES = 2             # in vain, then an action is left out
PATIENCE = 4          # looks that `stop` waits for a list that is about to be cleared: lists.REST, and one
RISEN = 0.05          # above what it acted on last: then a rule acts again
URGENT = 1.0          # s until a forecast that actions did not avert is acted on again
SEARCHES = 60.0       # s between two walks over all objects
TEXT = 900            # characters of an event
MAX_EVENTS = 2000     # of a process
MAX_ONCE = 200        # texts that are told once
MAX_CONSOLE = 100     # lines of a process on its console; the events go on


class Guard(Saving):
    def __init__(self, policy, observer):
        self.policy, self.observer = policy, observer
        self.memories = memory.Memories(observer)
        self.lists, self.searched, self.searching = {}, -SEARCHES, 0.0
        self.actions = actions.Actions(observer, self._watched, self._held)
        self.ahead = {}             # name of a memory -> Ahead
        self.base = {}              # and what it held when the training had settled
        self.failures = {}          # (rule, number of the action) -> tries in vain; None: left out
        self.next, self.looked, self.purse, self.near = 0, monotonic(), PURSE, False
        self.steps_looked = 0
        self.events = 0
        self.hooks = state.guard_hooks or Hooks()
        self.done = []              # texts of what was done, for who asks
        self.told = set()           # texts that are told once
        self.holders = set()        # names of what was cleared
        self.lines = 0              # on the console
        self.readings = {}          # of the last look
        for name in self._names():
            self._watched(name)

    def _names(self):
        names = list(self.policy.clear) + [name for name, _ in self.policy.cap]
        for rule in self.policy.rules:
            for action in rule.do:
                names += action[1] if action[0] == "clear" else action[1:2] if action[0] == "cap" else []
        return names

    def _watched(self, name):
        if name not in self.lists:
            self.lists[name] = Watched(name)
        return self.lists[name]

    # --- looking ----------------------------------------------------------------------------------------------------

    def due(self, step):
        """The step at whose end it wants to look again."""
        wait, period = self.next - monotonic(), self.observer.governor.period.value
        return step + max(1, int(wait * 1e9 / period)) if wait > 0 and period else step + 1

    def step_ended(self, step):
        """GuardStop, and what a signal handler or a function of the program's raises, leave it."""
        now = monotonic()
        if now < self.next or self.observer.inference or state.current is None:
            return
        began = thread_time()
        self.purse = min(PURSE, self.purse + (now - self.looked) * (NEAR_SHARE if self.near else SHARE))
        self.looked = now
        try:
            readings = self.memories.read(now)
            self._note(step, readings)
        except Exception:
            state.error("guard")
            self.next = now + 1
            return
        cost = thread_time() - began
        looking, self.searching = cost - self.searching, 0.0
        self.near = any(name in self.ahead and self.ahead[name].near(r.limit) for name, r in readings.items())
        self.purse -= looking
        broke = -self.purse / (NEAR_SHARE if self.near else SHARE)
        self.next = now + max(0 if self.near else self.policy.every, broke)
        self.observer.costs.add("guard", int(cost * 1e9))
        if readings:
            if self.steps_looked == SETTLED:
                self.warn_of_no_checkpoint(step)
            self._judge(step, now, readings)

    def _note(self, step, readings):
        self.steps_looked += 1
        for name, reading in readings.items():
            if step >= SETTLED or self.steps_looked >= SETTLED:
                self.base.setdefault(name, reading.used)
            if reading.limit:
                self.ahead.setdefault(name, Ahead()).add(step, reading)
        self._search()
        for watched in self.lists.values():
            watched.look(step)

    def _search(self):
        """For the owners of lists; not before the first steps, when not all of them are made."""
        now = monotonic()
        if self.lists and self.steps_looked >= 3 and now - self.searched >= SEARCHES:
            self.searched, began = now, thread_time()
            for watched in self.lists.values():
                watched.search()
            self.searching = thread_time() - began   # SEARCHES bounds it: looks don't wait until it is paid for

    # --- judging ----------------------------------------------------------------------------------------------------

    def _judge(self, step, now, readings):
        for name, length in self.policy.cap:
            if any(len(c) > length for _, c in self._watched(name).containers()):
                self._alone(("cap", name, length), "cap", step)
        if any(self._watched(name).filled(step)[0] for name in self.policy.clear):
            self._alone(("clear", self.policy.clear), "clear", step)
        for rule in self.policy.rules:
            held, rule.held = rule.held, False
            found = self._holds(rule, step, readings)
            if found is None:
                continue
            rule.held = True
            name, why = found
            self.readings = readings
            used = readings[name].used if name else 0
            pending, rule.pending = rule.pending if held and rule.waited <= PATIENCE else (), ()
            if held and not pending and self._rests(rule, now, used):
                continue
            self._act(rule, step, now, name, why, pending)
            readings = self.memories.read(monotonic())
            if not readings:
                return

    def _rests(self, rule, now, used):
        """A condition that lasts is acted on again after a while, or when memory has risen further."""
        if rule.kind == "steps" or rule.acted is None:
            return False
        if rule.kind == "oom_within":
            return now - rule.acted < URGENT
        return now - rule.acted < rule.again and used <= rule.level * (1 + RISEN)

    def _of(self, rule, readings):
        """The names of the memories that a rule is about."""
        if rule.memory == "limit":
            name = memory.tightest(readings)
            return [name] if name else []
        if rule.memory == "device":
            return sorted(n for n in readings if n.startswith("device:"))
        if rule.memory:
            return [rule.memory] if rule.memory in readings else []
        return [n for n in sorted(readings) if readings[n].limit]

    def _holds(self, rule, step, readings):
        """(memory, why) or None."""
        if rule.kind == "steps":
            due = rule.acted is None or step - rule.level >= rule.steps
            return ("", "every %d steps" % rule.steps) if due and step >= rule.steps else None
        for name in self._of(rule, readings):
            why = self._condition(rule, name, readings[name])
            if why:
                return name, why
        return None

    def _condition(self, rule, name, reading):
        if rule.kind == "above":
            least = rule.bytes or (rule.share * reading.limit if reading.limit else 0)
            if least and reading.used >= least:
                return "%s is at %s%s" % (name, size(reading.used), of(reading.limit))
        elif rule.kind == "grown":
            grown = reading.used - self.base.get(name, reading.used)
            if grown >= rule.bytes:
                return "%s has grown by %s to %s" % (name, size(grown), size(reading.used))
        elif rule.kind == "unused":
            unused = reading.held - reading.used
            if reading.held and unused > rule.share * reading.held and unused > 64 * HELPED_LEAST:
                return "%s: %s of the %s that PyTorch holds are unused" % (name, size(unused), size(reading.held))
        elif rule.kind == "oom_within":
            return self._ahead(rule, name, reading)
        return None

    def _ahead(self, rule, name, reading):
        within = rule.steps
        if not within:
            period = self.observer.governor.period.value
            within = rule.within * 1e9 / period if period else 1
        why = self.ahead[name].risk(reading.limit, within) if name in self.ahead else None
        return why and "%s is at %s%s and %s" % (name, size(reading.used), of(reading.limit), why)

    # --- acting -----------------------------------------------------------------------------------------------------

    def _act(self, rule, step, now, name, why, pending):
        """A rule's actions in their order, until its condition holds no more; of one that acted at the last look, those
        that could not be done then, and what comes after them."""
        rule.acted, later = now, []
        rule.waited = rule.waited + 1 if pending else 0
        for number, action in enumerate(rule.do):
            tries = self.failures.get((rule.name, number), 0)
            if tries is None or pending and number < pending[0]:
                continue
            if later and action[0] == "stop" and rule.waited < PATIENCE:
                break       # a list is full whose end is not sure yet
            outcome = self._one(rule.name, action, step, name, why)
            self._count(rule, number, action, outcome, tries, step)
            if outcome == "later":
                later.append(number)
            if outcome in ("helped", "vain") and not self._lasts(rule, name):
                rule.held, later = False, []
                break
        if later:
            rule.pending, self.next = later, 0
        reading = self.memories.read(monotonic()).get(name)
        rule.level = step if rule.kind == "steps" else reading.used if reading else 0

    def _lasts(self, rule, name):
        """Whether the condition still holds after an action, which may have lowered every memory."""
        readings = self.memories.read(monotonic())
        for known, reading in readings.items():
            if known in self.ahead:
                self.ahead[known].freed(reading.used)
        return rule.kind == "steps" or name in readings and bool(self._condition(rule, name, readings[name]))

    def _count(self, rule, number, action, outcome, tries, step):
        key = rule.name, number
        if outcome in ("vain", "failed") and action[0] not in ("checkpoint", "stop"):   # these are tried to the end
            self.failures[key] = tries + 1
            if tries + 1 >= TRIES:
                self.failures[key] = None
                self._tell("%s: %s is left out from now on, it did not help %d times" % (rule.name, action[0], TRIES),
                           step, code=CODE_LEFT_OUT, console=True)
        elif outcome == "helped":
            self.failures.pop(key, None)

    def _alone(self, action, name, step):
        """What a policy has done whatever memory is like."""
        self._one(name, action, step, "process", "", ordered=True)

    def _one(self, rule, action, step, name, why, ordered=False):
        """helped, vain, done, unfit, failed, later."""
        verb = action[0]
        if not ordered and verb in actions.TOUCHING and self._roomy(name):
            self._once("%s: %s: not done, memory is below %.0f %% of its limit" % (rule, verb, 100 * self.policy.floor),
                       step)
            return "unfit"
        if self.policy.dry_run:
            self._tell("%s: would %s (%s)" % (rule, verb, why or name), step)
            return "done"
        if verb in ("warn", "log", "webhook"):
            return self._say(verb, rule, why, step)
        if verb in ("checkpoint", "stop"):
            return self._save(verb, rule, why, step)
        before, began = self._used(name, verb), perf_counter()
        try:
            said = self.actions.run(action, step)
        except actions.NotYet:
            return "later"
        except actions.Unfit as no:
            self._once("%s: %s: not done, %s" % (rule, verb, no), step)
            return "unfit"
        except Exception as error:       # of a function that the policy names
            self._tell("%s: %s failed: %r" % (rule, verb, error), step, console=True)
            return "failed"
        took = perf_counter() - began
        return self._judged(rule, verb, said, (before, self._used(name, verb), took, name), step)

    def _judged(self, rule, verb, said, measured, step):
        (before, heap), (after, heap_after), took, name = measured
        outcome, what = "done", "%s: %s%s" % (rule, verb, " " + said if said else "")
        if verb in actions.FREEING and before:
            freed = max(before - after, heap - heap_after)
            outcome = "helped" if freed >= max(HELPED_LEAST, HELPED * before) else "vain"
            verdict = "helped" if outcome == "helped" else "no help"
            inside = " inside malloc" if freed > before - after else ""
            what += ", %s %s%s (%s %s → %s), %s" % (
                "freed" if freed >= 0 else "rose by", size(abs(freed)), inside, name, size(before), size(after),
                verdict)
        self._tell("%s, %.1f ms" % (what, took * 1e3), step, before, after,
                   {"helped": CODE_HELPED, "vain": CODE_VAIN}.get(outcome, 0), console=True)
        return outcome

    def _roomy(self, name):
        """Whether a memory, or the tightest where it has no limit of its own, is so far from its limit that nothing of
        the program's is touched."""
        reading = self.readings.get(name)
        if reading is None or not reading.limit:
            reading = self.readings.get(memory.tightest(self.readings))
        return reading is None or max(reading.used, reading.held or 0) < self.policy.floor * reading.limit

    def _held(self, name):
        """Something of that name was cleared: it holds what leaks."""
        if name not in self.holders and len(self.holders) < MAX_ONCE:
            self.holders.add(name)
            state.event("guard", name[:TEXT], 0, 0, code=CODE_HOLDER)

    def _used(self, name, verb):
        """What tells whether an action helped: of a device what PyTorch holds, else what is used; and beside it what
        malloc has given out, since what it gets back it keeps until a trim."""
        reading = self.memories.read(monotonic()).get(name or "process")
        if reading is None:
            return 0, 0
        if reading.held:
            return reading.held, 0
        info = self.observer.host.mallinfo() if verb in actions.INSIDE else None
        info = info and info()
        return reading.used, info.uordblks + info.hblkhd if info else 0

    def _once(self, text, step, code=0, console=False):
        if text not in self.told and len(self.told) < MAX_ONCE:
            self.told.add(text)
            self._tell(text, step, code=code, console=console)

    def _tell(self, text, step, a=0, b=0, code=0, console=False):
        if console and self.lines <= MAX_CONSOLE:
            self.lines += 1
            actions.warn("guard: %s, step %d" % (text, step) if self.lines <= MAX_CONSOLE else
                         "guard: what more is done is told in memgauge.events only")
        text = ("%s, step %d" % (text, step))[:TEXT]
        self.events += 1
        if self.events <= MAX_EVENTS:
            state.event("guard", text, a or 0, b or 0, code=code)
        del self.done[:-99]
        self.done.append(text)
        if self.hooks.on_action is not None:
            try:
                self.hooks.on_action(text)
            except Exception:
                state.error("guard: on_action")


def install(policy=None):
    """The guard of this process, made if there is none; None without a policy, or where no step has ended yet."""
    if state.guard is None and state.observer is not None and state.current is not None \
            and state.current.pid == os.getpid():
        policy = policy or from_environment()
        if policy is not None:
            state.guard = Guard(policy, state.observer)
            state.event("guard", "policy %s: %d rules%s" % (policy.name, len(policy.rules),
                                                           ", dry run" if policy.dry_run else ""))
    return state.guard
