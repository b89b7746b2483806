"""install_allocator against each version of PyTorch from 2.0 on: a stub of what they have of pluggable allocators,
whose setters take addresses of functions. These are then called as PyTorch would call them, on a driver of the tests'
own."""
import os
import subprocess
import sys
import unittest

import alloclib
import lane

COMMON = ("set_init_fn", "set_reset_fn", "set_memory_fraction_fn", "set_base_alloc_fn", "set_record_stream_fn",
          "set_release_pool")
BY_STREAM = COMMON + ("set_begin_allocate_stream_to_pool", "set_end_allocate_stream_to_pool_fn")  # torch 2.0 and 2.1
BY_FILTER = COMMON + ("set_begin_allocate_to_pool", "set_end_allocate_to_pool_fn")

STUB = """
import ctypes, os, sys, types
sys.path.insert(0, %(here)r)
import alloclib
reason = alloclib.fake_gpu(1 << 30)
if reason:
    print("skip:", reason); sys.exit()
cuda = ctypes.CDLL("libcuda.so.1")
given, installed = {}, []
class Object:
    def __getattr__(self, name):
        if name in %(setters)r:
            return lambda address: given.__setitem__(name, address)
        raise AttributeError(name)
class CUDAPluggableAllocator:
    def __init__(self, path, alloc, free):
        library = ctypes.CDLL(path)
        self._allocator = Object()
        for name in (alloc, free):
            given[name] = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    def allocator(self):
        return self._allocator
torch = types.ModuleType("torch")
torch.__version__ = %(version)r
torch.cuda = types.SimpleNamespace(is_available=lambda: True, memory=types.SimpleNamespace(
    CUDAPluggableAllocator=CUDAPluggableAllocator, change_current_allocator=installed.append))
sys.modules["torch"] = torch
import memgauge
P, S, N, D, W = ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_double, ctypes.c_uint64
def call(name, result, *types):
    return ctypes.CFUNCTYPE(result, *types)(given[name])
def alloc(size, stream=0):
    return call("memgauge_torch_alloc", P, S, N, P)(size, 0, stream)
def free(p, size, stream=0):
    call("memgauge_torch_free", None, P, S, N, P)(p, size, 0, stream)
"""

USE = """
memgauge.install_allocator("policy:torch,max_split_size_mb:64")
assert len(installed) == 1 and set(given) >= set(%(setters)r), given
device = memgauge.device("cuda")
call("set_init_fn", None, N)(1)

# a block that another stream uses is handed out again when that one has passed
a = alloc(30 << 20)
call("set_record_stream_fn", None, P, P)(a, 7)
cuda.fakecuda_hold(1)
free(a, 30 << 20)
b = alloc(30 << 20)
assert b != a, "reused while stream 7 uses it"
cuda.fakecuda_hold(0)
c = alloc(30 << 20)
assert c == a, (a, b, c)

# what a graph's pool has is its own
p = (17, 3)
free(b, 30 << 20)
if %(by_stream)r:
    call("set_begin_allocate_stream_to_pool", None, N, P, W, W)(0, 5, *p)
else:
    class Function(ctypes.Structure):
        _fields_ = [("held", P * 2), ("manage", P), ("invoke", P)]
    copies = []
    @ctypes.CFUNCTYPE(N, P, P, N)
    def manage(to, source, what):
        copies.append(what)
        if what == 2:
            ctypes.memmove(to, source, 16)
        return 0
    @ctypes.CFUNCTYPE(N, P, ctypes.POINTER(P))
    def invoke(held, stream):
        return (stream[0] or 0) == ctypes.cast(held, ctypes.POINTER(P))[0]
    f = Function((P * 2)(5, 0), ctypes.cast(manage, P), ctypes.cast(invoke, P))
    call("set_begin_allocate_to_pool", None, N, W, W, P)(0, p[0], p[1], ctypes.addressof(f))
    ctypes.memset(ctypes.addressof(f), 0, ctypes.sizeof(f))  # the caller's is gone after the call
inside = alloc(40 << 20, 5)
outside = alloc(40 << 20, 6)
free(inside, 40 << 20, 5)
if %(by_stream)r:
    call("set_end_allocate_stream_to_pool_fn", None, N, P)(0, 5)
else:
    call("set_end_allocate_to_pool_fn", None, N, W, W)(0, *p)
    assert copies == [2, 3], copies
assert alloc(40 << 20, 5) != inside, "memory of the graph was handed out"
held = cuda.fakecuda_used
held.restype = W
before = held()
call("set_reset_fn", None)()
between = held()
assert between < before, "nothing was given back"
call("set_release_pool", None, N, W, W)(0, *p)
call("set_reset_fn", None)()
assert held() <= between - (40 << 20), "the graph's memory was kept"

size = ctypes.c_size_t()
assert call("set_base_alloc_fn", P, P, ctypes.POINTER(ctypes.c_size_t))(c, ctypes.byref(size)) <= c and size.value >= 30 << 20
assert device.memory_stats()["max_split_size"] == 64 << 20, "the settings that were given don't count"
call("set_memory_fraction_fn", None, D, N)(0.25, 0)
assert "256 MiB" in device.memory_summary().splitlines()[0], device.memory_summary()
assert device.lib.memgauge_misuses() == 0
print("fine")
"""


@unittest.skipUnless(alloclib.PATH, alloclib.REASON)
class Install(unittest.TestCase):
    def run_stub(self, version, setters, code, **env):
        here = os.path.dirname(os.path.abspath(__file__))
        names = {"here": here, "setters": setters, "version": version,
                 "by_stream": "set_begin_allocate_stream_to_pool" in setters}
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("MEMGAUGE_ALLOC_C", "PYTORCH", "GENESIS"))}
        done = subprocess.run([sys.executable, "-c", (STUB + code) % names], env=dict(clean, **env),
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, universal_newlines=True, timeout=120)
        if done.stdout.startswith("skip:"):
            self.skipTest(done.stdout)
        return done.stdout

    def test_each_version(self):
        """In the short lane the first and the last with either set of setters."""
        for minor in range(16) if lane.SCALE else (0, 1, 2, 15):
            version, setters = "2.%d.0" % minor, BY_STREAM if minor < 2 else BY_FILTER
            with self.subTest(version):
                self.assertEqual(self.run_stub(version, setters, USE), "fine\n")

    def test_refused_without_what_is_needed(self):
        code = """
try:
    memgauge.install_allocator()
except RuntimeError as e:
    print(e, len(installed))
"""
        for missing, why in (("set_record_stream_fn", "a block that another stream uses would be reused at once"),
                             ("set_begin_allocate_to_pool", "CUDA graphs"), ("set_reset_fn", "empty_cache")):
            said = self.run_stub("2.99.0", tuple(s for s in BY_FILTER if s != missing), code)
            self.assertIn("torch 2.99.0 has no " + missing, said)
            self.assertIn(why, said)
            self.assertTrue(said.endswith(" 0\n"), said)  # PyTorch keeps its own
        self.assertIn("that came with 2.0", self.run_stub("1.13.1", (), "del torch.cuda.memory.CUDAPluggableAllocator"
                                                          + code))

    def test_settings(self):
        wrong = self.run_stub("2.9.0", BY_FILTER, """
try:
    memgauge.install_allocator("policy:nonsense")
except RuntimeError as e:
    print(e, len(installed))
""")
        self.assertIn('policy "nonsense"', wrong)
        self.assertTrue(wrong.endswith(" 0\n"), wrong)
        read = 'print(memgauge.device("cuda").memory_stats()["max_split_size"] >> 20)'
        self.assertEqual(self.run_stub("2.9.0", BY_FILTER, """
ctypes.CDLL(os.environ["MEMGAUGE_ALLOC_LIBRARY"])  # Go has read its copy of the environment by now
memgauge.device("fake")
os.environ["PYTORCH_ALLOC_CONF"] = "max_split_size_mb:70"
memgauge.install_allocator()
""" + read), "70\n")
        self.assertEqual(self.run_stub("2.9.0", BY_FILTER, """
os.environ["PYTORCH_ALLOC_CONF"] = "max_split_size_mb:70"
memgauge.install_allocator("max_split_size_mb:80")
""" + read), "80\n")


if __name__ == "__main__":
    unittest.main()
