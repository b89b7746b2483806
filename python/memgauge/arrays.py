"""Small tensors of float32 on memgauge's devices: enough to try the allocator with, and to share memory with numpy.

This is no library for arithmetic. On a CUDA device the operands are copied to the host, and the result back.
"""
import ctypes
import os

from . import allocator

ITEM = 4  # bytes of a float32
IN, OUT = 1, 2  # directions of a copy: host to device, device to host
_seed = ctypes.c_uint64(int.from_bytes(os.urandom(8), "little"))


class Storage:
    """Device memory that is freed with the last tensor on it."""

    __slots__ = ("device", "address", "size", "__weakref__")

    def __init__(self, device, size):
        self.device, self.address, self.size = device, 0, size
        self.address = device.allocate(size)

    def __del__(self):
        address, self.address = self.address, 0
        try:
            if address:
                self.device.free(address)
        except Exception:  # at the interpreter's end modules are half gone
            pass


class Tensor:
    """A row-major or transposed view of float32 on a Storage."""

    def __init__(self, storage, shape, strides=None):
        self._storage = storage
        self.shape = tuple(shape)
        self.strides = tuple(strides) if strides is not None else _row_major(self.shape)  # in elements

    dtype = "float32"
    ndim = property(lambda self: len(self.shape))
    device = property(lambda self: self._storage.device)
    nbytes = property(lambda self: self.numel() * ITEM)
    T = property(lambda self: Tensor(self._storage, self.shape[::-1], self.strides[::-1]))

    def numel(self):
        """The number of elements."""
        return _count(self.shape)

    def data_ptr(self):
        """The address of the first element, on the tensor's device."""
        return self._storage.address

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of a tensor without dimensions")
        return self.shape[0]

    def __repr__(self):
        return "memgauge.Tensor(shape=%s, device=%r)" % (self.shape, str(self.device))

    def _interface(self):
        return {"shape": self.shape, "typestr": "<f4", "data": (self.data_ptr(), False), "version": 3,
                "strides": tuple(n * ITEM for n in self.strides)}

    @property
    def __array_interface__(self):
        """numpy.asarray(tensor) shares the memory, without a copy. On the host only."""
        if self.device.type != "cpu":
            raise AttributeError("a tensor on %s has no host memory; use .cpu()" % self.device)
        return self._interface()

    @property
    def __cuda_array_interface__(self):
        """cupy, numba and torch.as_tensor share the memory."""
        if self.device.type != "cuda":
            raise AttributeError("a tensor on %s has no CUDA memory" % self.device)
        return self._interface()

    def is_contiguous(self):
        """Whether the elements lie in row-major order without gaps."""
        return self.strides == _row_major(self.shape)

    def tolist(self):
        """The values as nested lists; a float for a tensor without dimensions."""
        address, keep = _on_host(self)
        flat = (ctypes.c_float * self.numel()).from_address(address) if self.numel() else ()
        return _nest(flat, self.shape, self.strides, 0)

    def cpu(self):
        """This tensor if it is on the host, else a copy there."""
        return self.to("cpu")

    def to(self, device):
        """This tensor if it is on that device, else a copy there. ValueError to or from a fake device."""
        target = allocator.device(device)
        if target == self.device:
            return self
        if "fake" in (target.type, self.device.type):
            raise ValueError("no copy from %s to %s" % (self.device, target))
        out = Tensor(Storage(target, self._storage.size), self.shape, self.strides)
        here, there = (self.device, OUT) if target.type == "cpu" else (target, IN)
        _copy(here, out.data_ptr(), self.data_ptr(), self._storage.size, there)
        return out

    def __add__(self, other):
        return _binary(self, other, "+")

    def __sub__(self, other):
        return _binary(self, other, "-")

    def __mul__(self, other):
        return _binary(self, other, "*")

    def __truediv__(self, other):
        return _binary(self, other, "/")

    def __matmul__(self, other):
        return matmul(self, other)


def _count(shape):
    n = 1
    for size in shape:
        n *= size
    return n


def _row_major(shape):
    strides, n = [], 1
    for size in reversed(shape):
        strides.append(n)
        n *= size
    return tuple(reversed(strides))


def _nest(flat, shape, strides, at):
    if not shape:
        return flat[at]
    return [_nest(flat, shape[1:], strides[1:], at + i * strides[0]) for i in range(shape[0])]


def _copy(device, to, source, size, direction):
    if size:
        device.copy(to, source, size, direction)


def _shape(sizes):
    if len(sizes) == 1 and not isinstance(sizes[0], int):
        if not isinstance(sizes[0], (tuple, list)):
            raise ValueError("shape %r: sizes are whole numbers from 0" % (sizes[0],))
        sizes = tuple(sizes[0])
    if any(not isinstance(n, int) or n < 0 for n in sizes):
        raise ValueError("shape %r: sizes are whole numbers from 0" % (sizes,))
    return tuple(sizes)


def empty(*sizes, device="cuda"):
    """Returns a tensor with undefined values."""
    shape = _shape(sizes)
    return Tensor(Storage(allocator.device(device), _count(shape) * ITEM), shape)


def _filled(shape, device, fill):
    """Returns a tensor with the values that fill(library, address, count) writes on the host; on a fake device, without
    values."""
    out = empty(shape, device=device)
    if out.device.type == "fake" or not out.numel():
        return out
    lib = out.device.lib
    if out.device.type == "cpu":
        fill(lib, out.data_ptr(), out.numel())
        return out
    host = (ctypes.c_float * out.numel())()
    fill(lib, ctypes.addressof(host), out.numel())
    _copy(out.device, out.data_ptr(), ctypes.addressof(host), out.nbytes, IN)
    return out


def full(*sizes, value, device="cuda"):
    """A tensor of that shape, full(2, 3, value=0.5), with the value in every element."""
    return _filled(_shape(sizes), device, lambda lib, to, n: lib.memgauge_fill_f32(to, n, value))


def zeros(*sizes, device="cuda"):
    """A tensor of that shape, filled with 0."""
    return full(*sizes, value=0.0, device=device)


def ones(*sizes, device="cuda"):
    """A tensor of that shape, filled with 1."""
    return full(*sizes, value=1.0, device=device)


def rand(*sizes, device="cuda"):
    """Uniform numbers from [0, 1)."""
    return _filled(_shape(sizes), device, lambda lib, to, n: lib.memgauge_rand_f32(to, n, ctypes.addressof(_seed)))


def manual_seed(seed):
    """Makes rand() give the same numbers again."""
    _seed.value = seed & 0xFFFFFFFFFFFFFFFF


def from_buffer(source, device="cpu"):
    """A copy of a C-contiguous buffer of float32 (numpy array, array.array("f"), memoryview)."""
    view = memoryview(source)
    if view.format != "f" or not view.c_contiguous:
        raise ValueError("want a contiguous buffer of float32, got format %r" % view.format)
    data = view.cast("B") if view.nbytes else view
    host = (ctypes.c_char * view.nbytes).from_buffer_copy(data) if view.nbytes else None
    out = empty(tuple(view.shape), device=device)
    if out.device.type == "fake" or not view.nbytes:
        return out
    _copy(out.device, out.data_ptr(), ctypes.addressof(host), view.nbytes, IN)
    return out


def _same(a, b):
    if not isinstance(b, Tensor) or a.device != b.device:
        raise ValueError("operands must be tensors on the same device")


def _on_host(tensor):
    """Returns (address of the tensor's values on the host, the object that keeps them alive). On a CUDA device they are
    copied, without our accounting: the statistics of "cpu" count only what the program itself requested."""
    if tensor.device.type == "cpu":
        return tensor.data_ptr(), tensor._storage
    if tensor.device.type != "cuda":
        raise ValueError("a tensor on %s has no values" % tensor.device)
    host = (ctypes.c_float * max(1, tensor._storage.size // ITEM))()
    _copy(tensor.device, ctypes.addressof(host), tensor.data_ptr(), tensor._storage.size, OUT)
    return ctypes.addressof(host), host


def _computed(shape, device, compute):
    """Returns a tensor that compute(library, address) fills on the host; on a fake device, without values."""
    return _filled(shape, device, lambda lib, to, _: compute(lib, to))


def _rows(tensor):
    """Returns (address of the values in row-major order, the object that keeps them alive). Each row of a transposed
    tensor is copied by a multiplication with a matrix of one 1."""
    address, keep = _on_host(tensor)
    if tensor.is_contiguous() or tensor.ndim != 2:
        return address, keep
    one, (m, n) = (ctypes.c_float * 1)(1.0), tensor.shape
    out = (ctypes.c_float * (m * n))()
    for i in range(m):
        tensor.device.lib.memgauge_matmul_f32(ctypes.addressof(out) + i * n * ITEM,
                                              address + i * tensor.strides[0] * ITEM,
                                              ctypes.addressof(one), n, 1, 1, tensor.strides[1], 1, 1, 1)
    return ctypes.addressof(out), out


def _binary(a, b, op):
    if isinstance(b, (int, float)):
        b = full(a.shape, value=float(b), device=a.device)
    _same(a, b)
    if a.shape != b.shape:
        raise ValueError("shapes %s and %s differ" % (a.shape, b.shape))

    def compute(lib, to):
        (x, keep_x), (y, keep_y) = _rows(a), _rows(b)
        lib.memgauge_binary_f32(to, x, y, a.numel(), ord(op))

    return _computed(a.shape, a.device, compute)


def matmul(a, b):
    """The product of two matrices."""
    _same(a, b)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError("matmul of shapes %s and %s" % (a.shape, b.shape))

    def compute(lib, to):
        (x, keep_x), (y, keep_y) = _on_host(a), _on_host(b)
        lib.memgauge_matmul_f32(to, x, y, a.shape[0], b.shape[1], a.shape[1], a.strides[0], a.strides[1], b.strides[0],
                                b.strides[1])

    return _computed((a.shape[0], b.shape[1]), a.device, compute)
