"""What a module is called, and the rows that a watched call writes.

A root is a module that is called from outside of any other and owns parameters; what it contains goes by the names of
its named_modules(). Modules without parameters that are called on their own (a loss, a transform) get rows under their
class name, but no root forward is counted for them.
"""
import sys
from _thread import get_ident
from time import monotonic_ns as now
from weakref import ref

from .. import frames
from ..record._spec import FLAG_OPTIMIZER, FLAG_ROOT, NOT_TAKEN, POST_FORWARD, POST_STEP, PRE_FORWARD, PRE_STEP

MAX_MODULES = 200_000  # entries; at this size the table is cleared, since a sweep may build models for ever
MAX_ROWS = 20_000  # in one sampled step: a third of the ring. A step that never ends (an evaluation) is not watched on
MAX_IDLE = 1000  # calls, 0.4 ms of watching: a training has shown a root by then
HOST = -1


class Entry:
    """A module as rows show it. It does not keep the module alive."""

    __slots__ = ("ref", "name", "flags", "device", "index")

    def __init__(self, module, name, flags, device, index):
        self.ref, self.name, self.flags, self.device, self.index = ref(module), name, flags, device, index


class Names:
    """id of a module -> its Entry. A name of None: seen, but not shown (inside of compiled code, or in no module's
    tree)."""

    def __init__(self):
        self.table = {}
        self.strangers = []  # modules met inside of a root that its tree did not have
        self.roots = set()  # ids; shared with the hook that counts root forwards
        self.intern = None

    def find(self, module):
        entry = self.table.get(id(module))
        return entry if entry is not None and entry.ref() is module else None

    def alone(self, module):
        """The entry of a module that was called from outside of any other and is in no known tree."""
        if len(self.table) > MAX_MODULES:
            self._clear()
        if not _owns_parameters(module):
            return self._enter(module, type(module).__name__, 0, HOST, 0)
        return self.root(module)

    def root(self, module):
        """Enters a whole tree of modules. A root that is found inside of another one is no root any more."""
        entries, compiled = 0, ()
        devices = {"": _first_device(module)}
        for name, child in module.named_modules():
            if compiled and name.startswith(compiled):
                self._enter(child, None, 0, HOST, 0)
                continue
            if name:
                device = _device(child)
                if device is None:  # an activation, a container: it works where what contains it does
                    device = devices.get(name.rpartition(".")[0], HOST)
                devices[name] = device
                self._enter(child, name, 0, device, entries)
                self.roots.discard(id(child))
            entries += 1
            if _is_compiled(child):
                compiled += (name + "." if name else "",)
        for stranger in self.strangers:
            inner = stranger()
            if inner is not None and self.find(inner) is None:
                self._enter(inner, None, 0, HOST, 0)
        self.strangers.clear()
        self.roots.add(id(module))
        return self._enter(module, type(module).__name__, FLAG_ROOT, devices[""], 0)

    def stranger(self, module):
        if len(self.strangers) < 1000:  # more than a model has layers that were added late
            self.strangers.append(ref(module))

    def _enter(self, module, name, flags, device, index):
        number = self.intern(name) if name is not None and self.intern else name
        entry = self.table[id(module)] = Entry(module, number, flags, device, index)
        return entry

    def _clear(self):
        self.table.clear()
        self.roots.clear()
        self.strangers.clear()

    def reset(self, intern):
        """A ring, to whose numbers names are turned; another one than before, or none, starts from nothing."""
        if self.intern is None and intern is not None:
            for entry in self.table.values():
                entry.name = intern(entry.name) if entry.name is not None else None
        else:
            self._clear()
        self.intern = intern


def _owns_parameters(module):
    return next(iter(module.parameters()), None) is not None


def _is_compiled(module):
    """Calls of what is inside don't arrive here, or only while it is being compiled."""
    return module.__dict__.get("_compiled_call_impl") is not None or type(module).__name__ == "OptimizedModule"


def _device(module):
    """Index of the CUDA device of the module's own first parameter; HOST; None when it has none of its own."""
    for parameter in (module.__dict__.get("_parameters") or {}).values():
        if parameter is not None:
            device = parameter.device
            return (device.index or 0) if device.type == "cuda" else HOST
    return None


def _first_device(module):
    parameter = next(iter(module.parameters()), None)
    device = parameter.device if parameter is not None else None
    return (device.index or 0) if device is not None and device.type == "cuda" else HOST


def _inside(frame, code):
    return any(f.f_code is code for f in frames.stack(frame))


class Calls:
    """Observes module calls of the training thread. The exchanged code calls watched()."""

    def __init__(self, plain, names, host, cuda, on_error):
        self.plain, self.names, self.host, self.cuda, self.on_error = plain, names, host, cuda, on_error
        self.owner = 0  # thread
        # threads that were inside of a module when we came, and the code of the calls that they are in
        self.unseen = None
        self.depth = 0
        self.forward = None  # called as a root forward begins
        self.forward_end = None  # … and after it ended, if set
        self.evaluation = None  # called with the root whose forward begins, in an evaluation (phases.py)
        self.sampling = False
        self.own = self.rows = self.idle = 0
        self.on_idle = None  # called after MAX_IDLE calls that belong to no training
        self.devices = set()

    def begin(self, ring, step, stride, phase):
        """From here on calls write rows."""
        self.trace, self.step, self.stride, self.phase = ring.trace, step, stride, phase
        self.own = self.rows = 0
        self.max_resident = self.host.max_resident()
        self.sampling = True

    def end(self):
        self.sampling = False

    def begin_within(self, code):
        """For an attach to a running program: threads may be inside of a model whose call we did not see, and modules
        that they call there are no roots. `code` is the code object of such calls."""
        within = {ident for ident, frame in frames.innermost().items() if _inside(frame, code)}
        self.unseen = (within, code) if within else None

    def _still_within(self):
        within, code = self.unseen
        if get_ident() in within:
            if _inside(sys._getframe(2), code):
                return True
            within.discard(get_ident())
            if not within:
                self.unseen = None
        return False

    def watched(self, module, args, kwargs):
        if self.unseen is not None and self._still_within():
            return self.plain(module, *args, **kwargs)
        if get_ident() != self.owner:
            if self.owner:
                return self.plain(module, *args, **kwargs)
            self.owner = get_ident()
        entry = self.before(module)
        self.depth += 1
        try:
            result = self.plain(module, *args, **kwargs)
        finally:
            self.depth -= 1
        if entry is not None:
            self.after(entry)
        return result

    def before(self, module):
        """The entry if there is something to do after the call."""
        try:
            start = now()
            entry = self.names.find(module)
            if entry is None or (self.names.strangers and not self.depth and entry.flags):
                entry = self._meet(module)
            if entry is None or entry.name is None:
                return None
            root = entry.flags and not self.depth
            if root:
                self._root(module, entry)
            if self.sampling and (root or not (entry.index + self.phase) % self.stride):
                self._row(PRE_FORWARD, FLAG_ROOT if root else 0, entry.device, entry.name, start)
                return entry
            if root:
                return entry if self.forward_end else None
            return self._idle()
        except Exception:
            self.on_error()
            return None

    def _idle(self):
        """A call belonged to no training. If none ever does (transforms in a data loader), watching ends."""
        if self.on_idle and not self.depth:
            self.idle += 1
            if self.idle >= MAX_IDLE:
                self.on_idle()

    def after(self, entry):
        try:
            root = entry.flags and not self.depth
            if self.sampling:
                self._row(POST_FORWARD, FLAG_ROOT if root else 0, entry.device, entry.name, now())
            if root and self.forward_end:
                self.forward_end()
        except Exception:
            self.on_error()

    def _meet(self, module):
        if not self.depth:
            entry = self.names.find(module)
            return self.names.root(module) if entry is not None else self.names.alone(module)
        self.names.stranger(module)
        return None

    def _root(self, module, entry):
        if self.cuda.ready():
            if self.cuda.capturing():
                self.sampling = False  # a graph is being recorded: not a step like others, and nothing may disturb it
            elif self.sampling and entry.device != _first_device(module):
                self.names.root(module)  # it was moved since
        if self.evaluation:
            self.evaluation(module)
        if self.forward:
            self.forward()

    def optimizer(self, stage, optimizer):
        """A row for an optimizer's stage."""
        start = now()
        device = self.cuda.current() if self.cuda.ready() else HOST
        if device >= 0 and self.cuda.capturing():
            return
        name = self.names.intern(type(optimizer).__name__)
        self._row(POST_STEP if stage == POST_STEP else PRE_STEP, FLAG_OPTIMIZER, device, name, start)

    def _row(self, stage, flags, device, name, start):
        if device >= 0 and self.cuda.ready():
            self.devices.add(device)
            self.trace(stage, flags, device, name, self.step, *self._on_device(device), start)
        else:
            resident, private = self.host.memory()
            peak = private_peak = NOT_TAKEN
            if flags and stage & 1:  # the ends of roots and optimizers: getrusage costs as much as the rest of the row
                highest = self.host.max_resident()
                if highest > self.max_resident:
                    peak, private_peak = highest, max(0, highest - (resident - private))
            self.trace(stage, flags, HOST, name, self.step, private, private_peak, resident, peak, start)
        self.rows += 1
        if self.rows >= MAX_ROWS:
            self.sampling = False
        self.own += now() - start

    def _on_device(self, device):
        allocated, peak, reserved, reserved_peak = self.cuda.read(device)
        return allocated, peak, reserved, reserved_peak
