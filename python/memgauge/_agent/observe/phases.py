"""Tells which part of a training made the process's highest memory: saving, an evaluation, compilation, or the first
step. Each is a phase. The highest resident set (ru_maxrss) and PyTorch's highest allocation are read as it begins and
as it ends; where they rose within it, an event `peak` says to what (a), what was the highest before (b), who did it,
and from which line of the program. Events `phase` and `phase over` stand around the phases themselves, so that a
process which was killed within one shows it.

- Functions that save are noticed by their code objects (around.py): for what happens once in many steps. state_dict()
  is where a copy of the weights begins that is saved later in the same step.
- An evaluation lasts from Module.eval() to the first call of a module in training mode: module calls are watched
  meanwhile, and the first one tells whether gradients are on.
- torch.compile calls back before it traces, and after it (torch/_dynamo/callback.py, 2.4 and newer).
"""
import os
import sys
from _thread import get_ident
from types import FunctionType

from .. import state, torchhook
from ..gauges import oom
from ..record._spec import CODE_COMPILATION, CODE_EVALUATION, CODE_FIRST_STEP, CODE_SAVING
from .around import Noticed
from .sampling import SAMPLED

HOST = -1
MATERIAL = 16 << 20     # bytes that a peak must lie above what was the highest before, …
SHARE = 0.02            # … and the share of itself
AGAIN = 1.01            # times the peak that was told: one that is higher by less is the same
MOST = 64               # peaks told of a process, and phases: a saver that is called in each step fills no ring
APART = 20              # steps between two evaluations: what puts a module into that mode more often evaluates nothing
STANDARD = os.__file__.rpartition("/")[0] + "/"
FRAMES = 200            # that are searched for a line of the program

SAVERS = (("torch", "save"), ("safetensors.torch", "save_file"), ("safetensors.torch", "save"),
          ("torch.distributed.checkpoint", "save"), ("torch.distributed.checkpoint", "async_save"))


class Phase:
    __slots__ = ("code", "what", "before", "told")

    def __init__(self, code, what, before):
        self.code, self.what, self.before, self.told = code, what, before, False


class Phases:
    """The phases of an observed process."""

    def __init__(self, observer, dynamo):
        self.observer, self.dynamo = observer, dynamo
        self.noticed, self.offs = [], []
        self.handler = None
        self.reset()
        torch = observer.torch
        self._notice(torch.nn.Module, "eval", self._around_eval)
        self._notice(torch.nn.Module, "state_dict", self._around_state_dict)
        self._savers(torch)      # whose import may just be ending
        for name in sorted({module for module, _ in SAVERS} - {"torch"}):
            self.offs.append(torchhook.notice(name, self._savers))
        if hasattr(torch, "compile"):
            self.offs.append(torchhook.notice("torch._dynamo", self._compiler))

    def reset(self):
        """Of a process that has made no step yet."""
        self.stack, self.highest, self.base = [], {}, {}
        self.copies = None      # (step, reading) of a step's first state_dict()
        self.first = None       # reading at the first forward
        self.nested = self.peaks = self.begun = 0
        self.evaluated = -APART

    def _notice(self, owner, name, around):
        function = owner.__dict__.get(name)
        try:
            if isinstance(function, FunctionType) and not any(n.function is function for n in self.noticed):
                self.noticed.append(Noticed(function, owner.__name__, name, around, self.dynamo))
        except Exception:
            state.error("phases: " + name)     # a function that somebody has made in another way: not noticed

    def _savers(self, module):
        for name, function in SAVERS:
            if name == module.__name__:
                self._notice(module, function, self._around_save)

    def _compiler(self, dynamo):
        handler = getattr(dynamo, "callback_handler", None)
        if hasattr(handler, "register_end_callback"):
            self.handler = handler
            handler.register_start_callback(self._compiling)
            handler.register_end_callback(self._compiled)

    def remove(self):
        """After the gate was shut."""
        for off in self.offs:
            off()
        for noticed in self.noticed:
            noticed.off()
        for kind, ours in (("start", self._compiling), ("end", self._compiled)):
            if self.handler is not None and ours in getattr(self.handler, kind + "_callbacks"):
                getattr(self.handler, "remove_%s_callback" % kind)(ours)
        self._watch_no_more()

    # --- readings -------------------------------------------------------------------------------------------------

    def _read(self):
        """{device: (now, highest)}"""
        host, cuda = self.observer.host, self.observer.cuda
        found = {HOST: (host.memory()[0], host.max_resident())}
        if cuda.ready() and not cuda.capturing():
            device = cuda.current()
            found[device] = cuda.read(device)[:2]
        return found

    def _mine(self):
        calls = getattr(self.observer, "calls", None)    # not there yet while torch is being imported
        return calls is not None and get_ident() == calls.owner

    def begin(self, code, what, before=None):
        phase = Phase(code, what, before or self._read())
        self.stack.append(phase)
        if self.begun < MOST:
            self.begun += 1
            phase.told = True
            state.event("phase", what, phase.before[HOST][0], HOST, code=code)

    def end(self):
        """Of the phase that began last."""
        phase = self.stack.pop()
        for device, (_, highest) in self._read().items():
            self._judge(phase, device, highest)
        if phase.told:
            state.event("phase over", phase.what, code=phase.code)

    def _judge(self, phase, device, highest):
        before = phase.before.get(device, (0, 0))[1]
        known = self.highest.get(device, 0)
        if highest <= max(before, known):
            return
        # Where nothing rose since a phase of this kind, its peak is a little higher than the last time.
        base = self.base.get(device)
        low = base[1] if base and base[0] == phase.code and before <= known * AGAIN else before
        if highest < known * AGAIN or highest - low < max(MATERIAL, SHARE * highest) or self.peaks >= MOST:
            return
        self.peaks += 1
        self.highest[device], self.base[device] = highest, (phase.code, low)
        at = " (cuda:%d)" % device if device >= 0 else ""
        state.event("peak", phase.what + at, highest, low, code=phase.code)

    # --- saving ---------------------------------------------------------------------------------------------------

    def _around_state_dict(self, plain, args, kwargs):
        if not self.nested and self._mine():
            try:
                step = self.observer.step
                if self.copies is None or self.copies[0] != step:
                    self.copies = step, self._read()
            except Exception:
                state.error("phases")
        self.nested += 1
        try:
            return plain(*args, **kwargs)
        finally:
            self.nested -= 1

    def _around_save(self, plain, args, kwargs):
        begun = False
        try:
            if self._mine() and not any(phase.code == CODE_SAVING for phase in self.stack):
                step, before = self.copies or (None, None)
                self.begin(CODE_SAVING, _saver(plain, args, kwargs), before if step == self.observer.step else None)
                begun = True
        except Exception:
            state.error("phases")
        try:
            return plain(*args, **kwargs)
        except BaseException as error:
            if begun and oom.is_oom(error):    # its end is not told: memory ran out within it
                begun = False
                self.stack.clear()
            raise
        finally:
            if begun:
                self._safely_end(CODE_SAVING)

    def _safely_end(self, code):
        try:
            while self.stack and any(phase.code == code for phase in self.stack):
                last = self.stack[-1].code
                self.end()
                if last == code:
                    break
        except Exception:
            state.error("phases")

    # --- evaluation -----------------------------------------------------------------------------------------------

    def _around_eval(self, plain, args, kwargs):
        result = plain(*args, **kwargs)
        try:
            if self._mine():
                self._evaluates()
        except Exception:
            state.error("phases")
        return result

    def _evaluates(self):
        step, observer = self.observer.step, self.observer
        soon, self.evaluated = step - self.evaluated < APART, step
        if soon or not step or self.stack or observer.inference or observer.looking or observer.governor.off:
            return
        if observer.phase == SAMPLED or observer.modules.watch("roots"):
            observer.calls.evaluation = self._forward
            self.begin(CODE_EVALUATION, "evaluation, " + _line())

    def _forward(self, module):
        """A root forward begins, in an evaluation."""
        phase = next((p for p in self.stack if p.code == CODE_EVALUATION), None)
        if phase is None:
            self._watch_no_more()
        elif module.__dict__.get("training"):
            self._safely_end(CODE_EVALUATION)
            self._watch_no_more()
        elif ", gradients " not in phase.what:
            on = "on" if self.observer.torch.is_grad_enabled() else "off"
            phase.what = phase.what.replace(",", ", gradients %s," % on, 1)

    def _watch_no_more(self):
        observer = self.observer
        if observer.modules and observer.calls.evaluation is not None:
            observer.calls.evaluation = None
            if observer.phase != SAMPLED and not observer.looking:
                observer.modules.watch("roots" if observer.inference else None)

    # --- the first step, and compilation --------------------------------------------------------------------------

    def first_forward(self):
        if not state.came_later():
            self.first = self._read()

    def step_ended(self, step):
        """A phase whose end was not seen says nothing: the step's own peak would be taken for its."""
        if not self._mine():
            return
        while self.stack:
            phase = self.stack.pop()
            if phase.told:
                state.event("phase over", phase.what, code=phase.code)
        self._watch_no_more()
        if step == 1 and self.first is not None:
            self.stack.append(Phase(CODE_FIRST_STEP, "the first step", self.first))
            self.end()

    def _compiling(self, *_):
        try:
            if self._mine() and not self.stack:
                self.begin(CODE_COMPILATION, "torch.compile, " + _line())
        except Exception:
            state.error("phases")

    def _compiled(self, *_):
        if self._mine():
            self._safely_end(CODE_COMPILATION)


def _saver(function, args, kwargs):
    """What saves, where to if not to a file, and the line of the program."""
    module = function.__module__ or ""
    name = "torch.save" if module == "torch.serialization" else (
        module.partition(".")[0] if module.startswith("safetensors") else "torch.distributed.checkpoint")
    if name != "torch.save":
        name += "." + function.__name__
    else:
        to = type(args[1] if len(args) > 1 else kwargs.get("f")).__name__
        if to == "BytesIO":
            name += " to io.BytesIO"
    return name + ", " + _line()


def _line():
    """file:line of the innermost frame that is the program's; "no line of the program" where none is."""
    frame, left = sys._getframe(2), FRAMES
    while frame is not None and left:
        name = frame.f_code.co_filename
        if not (name.startswith((STANDARD, state.PACKAGE, "<")) or "-packages/" in name):
            return "%s:%d" % (name, frame.f_lineno)
        frame, left = frame.f_back, left - 1
    return "no line of the program"
