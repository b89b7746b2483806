"""What the program, or a framework's callback, has told the guard, and how a checkpoint is saved and the training
stopped."""
from time import monotonic, perf_counter

from .. import state
from ..record._spec import CODE_FAILED, CODE_STOPPED, CODE_WARNED, CODE_WEBHOOK
from . import actions, weights
from .lists import function

NO_CHECKPOINT = "no function that saves a checkpoint is known (memgauge.guard(checkpoint=…), or " \
                "`checkpoint: MODULE:FUNCTION` in the policy)"
RESCUE_AGAIN = 60.0   # s until the weights are saved again: each time takes as long as writing them
STOP_CODE = 75        # EX_TEMPFAIL (sysexits.h): start it again


class GuardStop(SystemExit):
    """Ends the training after its checkpoint was saved: exit code 75."""

    def __init__(self):
        super().__init__(STOP_CODE)

    def __str__(self):
        return "stopped by memgauge's guard before memory ran out"


class Hooks:
    """What the program, or a framework's callback, has told the guard."""

    def __init__(self):
        self.checkpoint = None       # a function
        self.framework = ""          # whose callback takes requests: nothing is saved within an optimizer's step there
        self.requests = []           # (verb, why)
        self.asked_to_stop = False
        self.polled = False          # the loop asks whether it should stop
        self.stop_with = GuardStop
        self.on_action = None        # a function that is told what was done, as text

    def request(self, verb, why):
        if verb == "stop":
            self.asked_to_stop = True
        if verb not in [v for v, _ in self.requests]:
            self.requests.append((verb, why))

    def taken(self):
        requests, self.requests = self.requests, []
        return requests


class Saving:
    """The part of a Guard that tells, saves and stops."""

    rescued = None        # when the weights were saved last

    def _say(self, verb, rule, why, step):
        text = "%s: %s, step %d" % (rule, why, step)
        if verb == "warn":
            actions.warn(text)
        elif verb == "log":
            actions.log(text)
        self._tell("%s: %s: %s" % (rule, verb, why), step,
                   code={"warn": CODE_WARNED, "webhook": CODE_WEBHOOK}.get(verb, 0))
        return "done"

    def _save(self, verb, rule, why, step):
        """A checkpoint, and for `stop` the end of the training after it."""
        if verb == "stop" and (self.hooks.asked_to_stop or state.rank()[1] > 1 and not self.hooks.framework):
            if not self.hooks.asked_to_stop:
                self._once("%s: stop: not done, other ranks would wait for this one for ever" % rule, step)
                return "unfit"
            return "later"
        hook = self.hooks.checkpoint or self._named()
        if hook is None and verb == "stop" and self.hooks.polled:
            self.stop(rule, why, step)      # the loop asks, and saves what it wants
            return "done"
        if hook is None:
            self._once("%s: %s: NOT DONE, %s" % (rule, verb, NO_CHECKPOINT), step, code=CODE_FAILED, console=True)
            self._second_way(rule, step)
            return "unfit"
        if self.hooks.framework:
            self.hooks.request(verb, "%s: %s" % (rule, why))
            self._tell("%s: %s is asked of %s (%s)" % (rule, verb, self.hooks.framework, why), step)
            return "done"
        if not self._saved(hook, rule, why, step):
            self._second_way(rule, step)
            return "failed"
        if verb == "stop":
            self.stop(rule, why, step)
        return "done"

    def warn_of_no_checkpoint(self, step):
        """Early: later there may be no time to do something about it."""
        saves = any(action[0] in ("checkpoint", "stop") for rule in self.policy.rules for action in rule.do)
        if saves and not (self.hooks.checkpoint or self.hooks.polled or self._named()):
            self._once("if memory runs out, this training can't be stopped with a checkpoint: %s" % NO_CHECKPOINT, step,
                       code=CODE_WARNED, console=True)

    def _second_way(self, rule, step):
        """The weights alone, where they can be written: better than nothing, and no reason to stop."""
        now = monotonic()
        if self.rescued is not None and now - self.rescued < RESCUE_AGAIN:
            return
        self.rescued = now
        try:
            path = weights.save()
        except Exception as error:
            self._tell("%s: the weights could not be saved either: %r" % (rule, error), step, code=CODE_FAILED,
                       console=True)
            return
        self._tell("%s: the weights alone are saved in %s" % (rule, path), step, console=True)

    def _named(self):
        if not self.policy.checkpoint:
            return None
        try:
            return function(self.policy.checkpoint)
        except LookupError as why:
            self._once("checkpoint: %s" % why, 0)
            return None

    def _saved(self, hook, rule, why, step):
        began = perf_counter()
        try:
            hook()
        except Exception as error:
            self._tell("%s: THE CHECKPOINT FAILED: %r" % (rule, error), step, code=CODE_FAILED, console=True)
            return False
        self._tell("%s: checkpoint saved in %.1f s (%s)" % (rule, perf_counter() - began, why), step, console=True)
        return True

    def stop(self, rule, why, step):
        self.hooks.asked_to_stop = True
        self._tell("%s: stopped with a checkpoint: %s" % (rule, why), step, code=CODE_STOPPED)
        actions.warn("stopped with a checkpoint before memory ran out: %s, step %d" % (why, step))
        if not self.hooks.polled:
            raise self.hooks.stop_with()


def size(n):
    """As internal/base/units writes it, roughly."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if n >= 1 << shift:
            return "%.4g %s" % (n / (1 << shift), unit)
    return "%d B" % n


def of(limit):
    return " of %s" % size(limit) if limit else ""
