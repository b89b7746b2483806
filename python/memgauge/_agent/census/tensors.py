"""Properties of tensors, read without running any code of the program.

Only the getters of torch._C.TensorBase are used (torch/csrc/autograd/python_variable.cpp), with __torch_function__
switched off for our thread. A storage is identified by the address of its StorageImpl (`_cdata`), because data_ptr()
would make a real storage of a copy-on-write one. Gradients are never read: the engine writes them, and `p.grad = None`
frees them, without holding the GIL. Reading one meanwhile gives a freed tensor (one training of ten crashed that way).
Saved tensors of a graph are not unpacked, because that runs the program's hooks, and with activation checkpointing the
whole forward pass. is_leaf, which only compares a pointer, tells whether a tensor has a graph. Only a few nodes are
fetched, since an in-place operation replaces them without the GIL. docs/agent.md, "Beside C++"
"""
import sys

from .. import torchhook
from . import introspect

MAX_NODES = 1000     # of a graph visited without a pause, about 2 ms: nothing of it may be held during a pause
MAX_CHAIN = 5000     # nodes followed towards the oldest one, 0.5 ms; of a graph that grows by two a step 2,500 steps


class Torch:
    """This process's torch, if it is imported already (`found`)."""

    def __init__(self):
        torch = torchhook.loaded("torch")
        raw = getattr(torch, "_C", None)
        base = getattr(raw, "TensorBase", None) or getattr(raw, "_TensorBase", None)
        self.found = base is not None and getattr(torch, "Tensor", None) is not None and hasattr(torch, "nn")
        self.tensor = self.parameter = self.module = self.optimizer = None
        if not self.found:
            return
        own = base.__dict__
        self.tensor = torch.Tensor
        self.parameter = getattr(getattr(torch.nn, "parameter", None), "Parameter", None)
        self.module = getattr(torch.nn, "Module", None)
        optim = sys.modules.get("torch.optim.optimizer")
        self.optimizer = getattr(optim, "Optimizer", None)
        self.quiet = getattr(raw, "DisableTorchFunctionSubclass", None) or raw.DisableTorchFunction
        get = {name: own[name].__get__ for name in ("shape", "dtype", "device", "grad_fn", "is_leaf")}
        self.shape, self.dtype, self.device = get["shape"], get["dtype"], get["device"]
        self.grad_fn, self.is_leaf = get["grad_fn"], get["is_leaf"]
        self.storage = own.get("untyped_storage") or own["_storage"]
        self._function = raw._FunctionBase
        self._next_of_python = raw._FunctionBase.__dict__["next_functions"].__get__
        self._number_of_python = raw._FunctionBase.__dict__.get("_sequence_nr")    # not in 1.13
        self._python = {}    # id of a node's class -> whether it derives from autograd.Function

    def measure(self, t):
        """(StorageImpl's address, bytes). A tensor without storage (sparse, nested …) is 0, 0."""
        try:
            storage = self.storage(t)
            return storage._cdata, storage.nbytes()
        except Exception:    # torch's own: RuntimeError, NotImplementedError
            return 0, 0

    def describe(self, t):
        """(shape, dtype, device) as text."""
        try:
            shape = tuple(map(int, self.shape(t)))
            return ("(%d,)" % shape if len(shape) == 1 else "(%s)" % ", ".join(map(str, shape)),
                    self._text(self.dtype(t)).replace("torch.", ""), self._text(self.device(t)))
        except Exception:
            return "?", "?", "?"

    def _text(self, value):
        text = str(value)
        return sys.intern(text)

    def _next(self, node):
        """A class that the program derives from Function could answer by itself; torch's own nodes are classes in C."""
        if self._is_python(node):
            return self._next_of_python(node)
        return node.next_functions

    def _is_python(self, node):
        cls = type(node)
        known = self._python.get(id(cls))
        if known is None:
            known = self._python[id(cls)] = any(base is self._function for base in introspect.mro(cls))
        return known

    def _number(self, node):
        if self._is_python(node):
            return self._number_of_python(node)
        return node._sequence_nr()

    def nodes(self, node):
        """The number of nodes that are reachable from a node, including itself; bounded by MAX_NODES."""
        seen, waiting = {id(node): node}, [node]     # it keeps them, or their ids would be given again
        while waiting and len(seen) < MAX_NODES:
            for other, _ in self._next(waiting.pop()):
                if other is not None and id(other) not in seen:
                    seen[id(other)] = other
                    waiting.append(other)
        return len(seen)

    def chain(self, node):
        """Length of the chain towards the oldest node; bounded. Autograd numbers nodes as they are made; among those
        that a node leads to, the oldest that leads on is followed. 1.13 doesn't tell the numbers: there the first one
        that leads on is taken, which for `total = total + loss` is the same."""
        length = 1
        while length < MAX_CHAIN:
            ahead = [other for other, _ in self._next(node) if other is not None]
            if not ahead:
                break
            node = self._oldest(ahead)
            length += 1
        return length

    def _oldest(self, nodes):
        if len(nodes) == 1:
            return nodes[0]
        inner = [n for n in nodes if introspect.short_name(type(n)) != "AccumulateGrad"] or nodes
        try:
            return min(inner, key=self._number)
        except (AttributeError, TypeError):
            return inner[0]
