"""Runs a training script for a few steps and writes which memory of a GPU it would take, allocation by allocation.

    recorder.py OUT SETTINGS SCRIPT [ARGUMENT…]       recorder.py OUT SETTINGS -m MODULE [ARGUMENT…]

There need not be a GPU. The script sees one, "cuda:0"; its tensors lie in the host's memory, and each storage that
would lie on the GPU is written down when it is made and when it is freed. SETTINGS is JSON: {"steps": 3, "factor": 1.0
(of the batch size), "shapes": false (leave out arithmetic on large tensors), "mixed": false (autocast around
everything), "fence": what it may not do (memgauge_estimate_fence.py)}.

OUT is text, a line for each event; docs/formats/estimate.md describes it.
"""
import contextlib
import json
import os
import sys
import types
import weakref

if __name__ == "__main__" and json.loads(sys.argv[2]).get("fence"):  # before torch starts threads
    from memgauge_estimate_fence import enclose
    enclose(json.loads(sys.argv[2])["fence"])

import torch
import torch.autograd
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from memgauge_estimate_batch import Batch
from memgauge_estimate_cuda import pretend, redirect

GPU = torch.device("cuda", 0)
HOST = torch.device("cpu")
SKIP_FROM = 4096  # elements; arithmetic on fewer is done even in runs for shapes alone, so that losses are numbers


class Log:
    """The file of events, and the numbers of lines of the program."""

    def __init__(self, path):
        self.file = open(path, "w", buffering=1 << 20, encoding="utf-8", errors="backslashreplace")
        self.pid = os.getpid()
        self.sites = {}
        self.user = {}

    def write(self, *words):
        if os.getpid() == self.pid:  # a child of fork has its parent's buffer, and must not write it
            self.file.write(" ".join(map(str, words)) + "\n")

    def text(self, kind, text):
        self.write(kind, json.dumps(text))

    def site(self):
        """The number of the innermost line of the user's own code; 0 is none."""
        frame = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            own = self.user.get(code)
            if own is None:
                own = self.user[code] = is_user(code.co_filename)
            if own:
                key = (code, frame.f_lineno)
                number = self.sites.get(key)
                if number is None:
                    number = self.sites[key] = len(self.sites) + 1
                    name = os.path.relpath(code.co_filename) if os.path.isabs(code.co_filename) else code.co_filename
                    self.write("site", number, json.dumps("%s:%d %s" % (name, frame.f_lineno, code.co_name)))
                return number
            frame = frame.f_back
        return 0


LIBRARY = (os.path.dirname(os.__file__) + os.sep, os.path.dirname(os.path.dirname(torch.__file__)) + os.sep)


def is_user(name):
    return not (name.startswith(LIBRARY) or name.startswith("<") or name == __file__ or "site-packages" in name)


class Device:
    """What would lie on the GPU: storages by their address in C++, each with its number in the log."""

    def __init__(self, log):
        self.log = log
        self.live = {}   # cdata of the storage → (number, weak reference, bytes)
        self.count = 0
        self.bytes = self.peak = 0
        self._phase = "setup"
        self.marked = set()
        self.force = 0   # > 0: outputs of the next operations lie on the GPU whatever their inputs are
        self.host = 0    # > 0: … on the host

    @property
    def phase(self):
        return self._phase

    @phase.setter
    def phase(self, name):
        if name != self._phase:
            self._phase = name
            self.log.write("phase", name)

    def has(self, tensor):
        try:
            return tensor.untyped_storage()._cdata in self.live
        except (NotImplementedError, RuntimeError):  # no storage: sparse, meta, functional
            return False

    def add(self, tensor):
        try:
            storage = tensor.untyped_storage()
            size, key = storage.nbytes(), storage._cdata
        except (NotImplementedError, RuntimeError):
            return
        if size == 0 or key in self.live or tensor.device.type != "cpu":
            return
        self.count += 1
        number = self.count
        self.live[key] = (number, weakref.ref(storage, lambda _: self.drop(key, number)), size)
        self.bytes += size
        self.peak = max(self.peak, self.bytes)
        self.log.write("a", number, size, str(tensor.dtype)[6:], self.log.site())

    def drop(self, key, number):
        entry = self.live.get(key)
        if entry is None or entry[0] != number:
            return
        del self.live[key]
        self.bytes -= entry[2]
        self.log.write("f", number)

    def mark(self, tensor, category):
        entry = None
        if isinstance(tensor, torch.Tensor):
            with contextlib.suppress(NotImplementedError, RuntimeError):
                entry = self.live.get(tensor.untyped_storage()._cdata)
        if entry is not None and entry[0] not in self.marked:
            self.marked.add(entry[0])
            self.log.write("is", entry[0], category)


def tensors(tree):
    """The tensors in arguments or results: tuples, lists and dicts of them."""
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, (tuple, list)):
        for leaf in tree:
            yield from tensors(leaf)
    elif isinstance(tree, dict):
        for leaf in tree.values():
            yield from tensors(leaf)


MATRIX = ("mm", "addmm", "bmm", "baddbmm", "linear", "matmul")
SAME_STORAGE = ("detach", "alias", "lift_fresh", "set_", "_unsafe_view")  # done: they compute nothing
# Their results' shapes depend on values, so they are computed even in runs for shapes alone.
BY_VALUE = ("nonzero", "masked_select", "unique", "_unique2", "unique_dim", "unique_consecutive", "_local_scalar_dense",
            "repeat_interleave", "bincount", "equal", "is_nonzero", "item")


class Operations(TorchDispatchMode):
    """Sees every operation of the program, those of backward and of optimizers too."""

    def __init__(self, device, shapes):
        super().__init__()
        self.on = device
        self.shapes = shapes
        self.said = set()

    def __torch_dispatch__(self, func, kinds, args=(), kwargs=None):
        kwargs = kwargs or {}
        given = list(tensors(args)) + list(tensors(kwargs))
        ours = self.on.force > 0 or (self.on.host == 0 and any(self.on.has(t) for t in given))
        if ours:
            self.say(func)
        out = self.skipped(func, given, args, kwargs) if self.shapes else NotImplemented
        if out is NotImplemented:
            out = func(*args, **kwargs)
        if ours:
            for t in tensors(out):
                self.on.add(t)
        return out

    def say(self, func):
        """Tells of operations that make CUDA's libraries take workspaces: once in each phase, before the result."""
        name = func._overloadpacket.__name__
        kind = "matrix" if name in MATRIX else "convolution" if name.startswith("convolution") else ""
        if kind:
            backward = self.on.phase == "backward"
            if (kind, backward) not in self.said:
                self.said.add((kind, backward))
                self.on.log.write("uses", kind, "backward" if backward else "forward")

    def skipped(self, func, given, args, kwargs):
        """The result of an operation on large floating-point tensors by its shape alone."""
        name = func._overloadpacket.__name__
        if name in BY_VALUE or func.is_view or name in SAME_STORAGE:
            return NotImplemented
        large = [t for t in given if t.numel() >= SKIP_FROM]
        changed = written(func, args, kwargs)
        if changed is not None:  # in place, or into out=
            if any(t.is_floating_point() and t.numel() >= SKIP_FROM for t in tensors(changed)):
                return returned(func, args, kwargs)
            return NotImplemented
        if not large or not any(t.is_floating_point() for t in large):
            return NotImplemented
        if any(t.dtype == torch.bool and t.numel() >= 1 for t in given) and name.startswith("index"):
            return NotImplemented
        if name == "_scaled_dot_product_flash_attention_for_cpu":
            return attention_by_shape(*args[:3])
        return by_shape(func, args, kwargs)


def attention_by_shape(query, key, value):
    """The layout of CUDA's kernels: (batch, length, heads, width), and sums that are padded to 32 (attention.cu)."""
    b, h, n, _ = query.shape
    out = torch.empty(b, n, h, value.shape[-1], dtype=query.dtype).transpose(1, 2)
    return out, torch.empty(b, h, (n + 31) // 32 * 32, dtype=torch.float32)


def written(func, args, kwargs):
    """What an operation writes to; None: nothing."""
    out = []
    for i, a in enumerate(func._schema.arguments):
        if a.alias_info is not None and a.alias_info.is_write:
            value = args[i] if i < len(args) else kwargs.get(a.name)
            out.append(value)
    return out or None


def returned(func, args, kwargs):
    """The result of an operation that returns what it writes to, without its being done."""
    names = {}
    for i, a in enumerate(func._schema.arguments):
        if a.alias_info is not None and a.alias_info.is_write:
            for alias in a.alias_info.before_set:
                names[alias] = args[i] if i < len(args) else kwargs.get(a.name)
    out = []
    for r in func._schema.returns:
        if r.alias_info is None or not r.alias_info.is_write:
            return NotImplemented  # it returns something new as well: do it
        out.extend(names.get(alias) for alias in r.alias_info.before_set)
    return None if not out else out[0] if len(out) == 1 else tuple(out)


def by_shape(func, args, kwargs):
    def meta(value):
        if isinstance(value, torch.Tensor):
            with torch.no_grad():
                return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
        if isinstance(value, (tuple, list)):
            return type(value)(map(meta, value)) if not hasattr(value, "_fields") else value
        return torch.device("meta") if isinstance(value, torch.device) else value

    def real(value):
        if isinstance(value, torch.Tensor):
            if value.numel() < SKIP_FROM:
                return torch.zeros(value.size(), dtype=value.dtype)
            return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype)
        if isinstance(value, (tuple, list)):
            return type(value)(map(real, value))
        return value
    try:
        out = func(*meta(args), **{k: meta(v) for k, v in kwargs.items()})
    except (NotImplementedError, RuntimeError, TypeError):
        return NotImplemented  # no shape function: the operation is done
    return real(out)


def on_gpu(value):
    """Whether a device argument names a GPU."""
    if isinstance(value, str):
        return value.split(":")[0] == "cuda"
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, int) and not isinstance(value, bool)


class Pretence(TorchFunctionMode):
    """Turns what the program says of CUDA devices into the host's, and what it asks of tensors into CUDA's."""

    def __init__(self, device):
        super().__init__()
        self.on = device
        T = torch.Tensor
        self.special = {T.to: self.to, T.cuda: self.cuda, T.cpu: self.cpu, T.pin_memory: lambda s, *a, **k: s,
                        T.is_pinned: lambda *a, **k: False, T.record_stream: lambda *a, **k: None,
                        T.get_device: lambda t: 0 if device.has(t) else -1,
                        T.numpy: self.to_host(T.numpy), T.tolist: self.to_host(T.tolist),
                        torch.dropout: self.dropout, T.backward: self.backward}
        self.plain = {name: getattr(torch.nn.functional, name) for name in
                      ("dropout", "linear", "scaled_dot_product_attention")}
        self.getters = {T.device.__get__: lambda t: GPU, T.is_cuda.__get__: lambda t: True,
                        T.is_cpu.__get__: lambda t: False}

    def __torch_function__(self, func, kinds, args=(), kwargs=None):
        kwargs = kwargs or {}
        getter = self.getters.get(func)
        if getter is not None:
            return getter(args[0]) if self.on.has(args[0]) else func(*args, **kwargs)
        special = self.special.get(func)
        if special is not None:
            return special(*args, **kwargs)
        if kwargs.get("device") is None:
            return func(*args, **kwargs)
        device = kwargs["device"]
        kwargs = dict(kwargs, device=HOST if on_gpu(device) else device)
        kwargs.pop("pin_memory", None)
        with self.placed(on_gpu(device)):
            out = func(*args, **kwargs)
            if on_gpu(device):  # torch.tensor makes its result past the dispatcher
                for t in tensors(out):
                    self.on.add(t)
        return out

    @contextlib.contextmanager
    def placed(self, gpu):
        name = "force" if gpu else "host"
        setattr(self.on, name, getattr(self.on, name) + 1)
        try:
            yield
        finally:
            setattr(self.on, name, getattr(self.on, name) - 1)

    def to(self, tensor, *args, **kwargs):
        device, rest = kwargs.pop("device", None), list(args)
        if device is None and rest and isinstance(rest[0], (str, torch.device, int)) and not isinstance(rest[0], bool):
            device = rest.pop(0)
        elif device is None and rest and isinstance(rest[0], torch.Tensor):  # to(other)
            other = rest.pop(0)
            device, kwargs = GPU if self.on.has(other) else HOST, dict(kwargs, dtype=other.dtype)
        if device is None:
            return torch.Tensor.to(tensor, *rest, **kwargs)
        return self.moved(tensor, on_gpu(device), rest, kwargs)

    def cuda(self, tensor, device=None, non_blocking=False, **kwargs):
        return self.moved(tensor, True, [], kwargs)

    def cpu(self, tensor, **kwargs):
        return self.moved(tensor, False, [], kwargs)

    def moved(self, tensor, gpu, rest, kwargs):
        if gpu == self.on.has(tensor):
            return torch.Tensor.to(tensor, HOST, *rest, **kwargs)
        with self.placed(gpu):
            out = torch.Tensor.to(tensor, HOST, *rest, **kwargs)
            if out.untyped_storage()._cdata == tensor.untyped_storage()._cdata:
                out = out.clone()
        return out

    def to_host(self, func):
        def call(tensor, *args, **kwargs):
            with self.placed(False):
                return func(tensor, *args, **kwargs)
        return call

    def dropout(self, input, p=0.5, training=True, inplace=False, **kwargs):
        """As on a GPU: a mask has a byte for each element (aten/src/ATen/native/Dropout.cpp:
        is_fused_kernel_acceptable)."""
        training = kwargs.get("train", training)
        if inplace or not training or not 0 < p < 1 or not self.on.has(input):
            return self.plain["dropout"](input, p, training, inplace)
        return torch.native_dropout(input, p, True)[0]

    def linear(self, input, weight, bias=None):
        """With the bias added in place, as without a dispatch mode: aten/src/ATen/native/Linear.cpp asks for one
        (isTensorSubclassLike) and then adds out of place."""
        if bias is None or input.dim() == 2 or (input.dim() == 3 and input.is_contiguous()) or not self.on.has(input):
            return self.plain["linear"](input, weight, bias)
        return torch.matmul(input, weight.t()).add_(bias)

    def attention(self, query, key, value, attn_mask=None, dropout_p=0.0, *args, **kwargs):
        """Without dropout, which the CPU's kernel can't do: on a GPU it costs no memory to speak of."""
        return self.plain["scaled_dot_product_attention"](query, key, value, attn_mask, 0.0, *args, **kwargs)

    def patch(self):
        """Replaces functions in torch.nn.functional: a mode is off while another of its functions runs."""
        for name, ours in (("dropout", self.dropout), ("linear", self.linear),
                           ("scaled_dot_product_attention", self.attention)):
            setattr(torch.nn.functional, name, ours)

    def backward(self, tensor, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        """With this mode on, which checkpointed forwards within need."""
        with self:
            return torch.autograd.backward(tensor, gradient, retain_graph, create_graph, inputs=inputs)


class Steps:
    """Follows the program from phase to phase, and ends it after the last step that is wanted."""

    def __init__(self, device, wanted):
        self.on = device
        self.wanted = wanted
        self.counts = {}
        self.roots = set()
        self.stepping = 0

    def install(self):
        import importlib
        optimizer = importlib.import_module("torch.optim.optimizer")
        optimizer.register_optimizer_step_pre_hook(lambda o, a, k: self.before(o))
        optimizer.register_optimizer_step_post_hook(lambda o, a, k: self.after(o))
        torch.nn.modules.module.register_module_forward_pre_hook(lambda m, a: self.forward(m))
        backward, grad = torch.autograd.backward, torch.autograd.grad

        def whole(original):
            def call(*args, **kwargs):
                before, self.on.phase = self.on.phase, "backward"
                try:
                    with no_autocast():
                        return original(*args, **kwargs)
                finally:
                    self.on.phase = "optimizer" if self.stepping else before
            return call
        torch.autograd.backward, torch.autograd.grad = whole(backward), whole(grad)

    def forward(self, module):
        if self.on.phase != "backward":  # there it is activation checkpointing that computes again
            self.on.phase = "forward"
        if id(module) in self.roots or len(self.roots) > 10000:
            return
        self.roots.update(id(m) for m in module.modules())
        for p in module.parameters():
            self.on.mark(p, "parameter")
        for b in module.buffers():
            self.on.mark(b, "buffer")

    def before(self, optimizer):
        self.stepping += 1
        self.on.phase = "optimizer"
        self.classify(optimizer)

    def after(self, optimizer):
        self.stepping -= 1
        self.classify(optimizer)
        self.on.phase = "between"
        n = self.counts[id(optimizer)] = self.counts.get(id(optimizer), 0) + 1
        if n == max(self.counts.values()) and n > getattr(self, "told", 0):
            self.told = n
            self.on.log.write("step", n)
        if n >= self.wanted and min(self.counts.values()) >= self.wanted or n >= self.wanted + 3:
            finish(self.on.log)  # no exception: programs catch those, and what they free then is no part of it

    def classify(self, optimizer):
        for group in optimizer.param_groups:
            for p in group["params"]:
                self.on.mark(p, "parameter")
                self.on.mark(p.grad, "gradient")
        for state in optimizer.state.values():
            if isinstance(state, dict):
                for value in state.values():
                    self.on.mark(value, "optimizer")


@contextlib.contextmanager
def no_autocast():
    with torch.autocast("cpu", enabled=False):
        yield


def finish(log):
    log.write("end")
    log.file.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def program(argv, batch):
    """The script's code object and the globals that it runs with."""
    if argv[0] == "-m":
        import importlib.util
        sys.path.insert(0, os.getcwd())
        spec = importlib.util.find_spec(argv[1])
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(argv[1] + ".__main__")
        if spec is None or not spec.origin:
            raise SystemExit("no module named %s" % argv[1])
        path, package, rest = spec.origin, spec.parent, argv[2:]
    else:
        path, package, rest = argv[0], None, argv[1:]
        sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    with open(path, "rb") as f:
        tree = batch.tree(f.read(), path)
    literal, batch.found = batch.found, []
    sys.argv = [path] + batch.arguments(rest)
    batch.said = bool(batch.found)
    batch.found += literal  # what the command line says counts first
    batch.names = bool(batch.found)
    batch.tell()
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __package__=package, __builtins__=__builtins__, __cached__=None)
    sys.modules["__main__"] = module
    return compile(tree, path, "exec"), module.__dict__


def main():
    out, settings, argv = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]
    log = Log(out)
    log.write("memgauge-estimate", 1)
    log.text("torch", torch.__version__)
    device = Device(log)
    pretend(device, settings.get("capability", [8, 0]))
    redirect()
    sys.path.pop(0)  # of this file: the program's own directory takes its place
    batch = Batch(log, settings.get("factor", 1.0))
    batch.loaders()
    Steps(device, settings.get("steps", 3)).install()
    code, names = program(argv, batch)
    mixed = torch.autocast("cpu", dtype=torch.bfloat16) if settings.get("mixed") else contextlib.nullcontext()
    try:
        pretence = Pretence(device)
        pretence.patch()
        with pretence, Operations(device, settings.get("shapes", False)), mixed:
            exec(code, names)
    except SystemExit as e:
        if e.code not in (None, 0):
            raise
    finish(log)


if __name__ == "__main__":
    main()
