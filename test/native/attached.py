"""Samples this process from now on, under a storm of allocations in threads, of libraries that come and go, and of
forks, and holds 100 MB at one line: attached.py LIBRARY DIRECTORY CYCLES OTHER. OTHER is a library that is opened
later. The last cycle stays attached; prints ok."""
import ctypes
import os
import shutil
import sys
import threading

library = ctypes.CDLL(sys.argv[1])
library.memgauge_attach.restype = ctypes.c_char_p
library.memgauge_attach.argtypes = [ctypes.c_char_p, ctypes.c_double]
library.memgauge_told.restype = ctypes.c_ulong
directory, other = sys.argv[2].encode(), sys.argv[4]
stop, sums, wrong = False, [], []


def storm():
    n = 0
    while not stop:
        held = [b"x" * (600 + 97 * i) for i in range(60)]
        n += all(len(b) == 600 + 97 * i and b[-1] == 120 for i, b in enumerate(held))
    sums.append(n)


def mixed(opened, seed):
    while not stop:
        seed += 1
        wrong.append(opened.mix(seed, 20_000))


def come_and_go(path):
    """A library that is opened, called and closed again and again: another lies where it did."""
    from _ctypes import dlclose
    n = 0
    while not stop:
        opened = ctypes.CDLL(path)
        wrong.append(opened.mix(n, 20))
        dlclose(opened._handle)
        n += 1
    sums.append(n)


def forks():
    n = 0
    while not stop:
        pid = os.fork()
        if pid == 0:
            plain.malloc(100000)
            os._exit(7)
        n += os.waitpid(pid, 0)[1] == 7 << 8
    sums.append(n)


def leading_here():
    """Words in the data of all loaded files, but for the library and the linker, that are addresses in its code."""
    with open("/proc/self/maps") as f:
        maps = [line.split(None, 5) for line in f]
    maps = [(tuple(int(v, 16) for v in m[0].split("-")), m[1], m[5].strip()) for m in maps if len(m) == 6]
    code = [span for span, rights, path in maps if path == sys.argv[1] and "x" in rights]
    found = 0
    with open("/proc/self/mem", "rb", 0) as memory:
        for (low, high), rights, path in maps:
            if not path.startswith("/") or path == sys.argv[1] or "/ld-" in path or rights[:3] not in ("rw-", "r--"):
                continue
            try:
                memory.seek(low)
                words = memoryview(memory.read(high - low)).cast("Q")
            except (OSError, TypeError):     # of a file that was closed meanwhile
                continue
            found += sum(any(a <= w < b for a, b in code) for w in set(words))
    return found


def hold(malloc):
    for _ in range(5000):
        malloc(20_000)


plain = ctypes.CDLL(None)
copy = sys.argv[2] + "/copy.so"
shutil.copy(other, copy)
mixing = ctypes.CDLL(other)
threads = [threading.Thread(target=storm) for _ in range(2)]
threads += [threading.Thread(target=mixed, args=(mixing, 1000 * n)) for n in range(6)]
threads += [threading.Thread(target=come_and_go, args=(copy,)), threading.Thread(target=forks)]
assert leading_here() == 0
sys.setswitchinterval(0.0005)       # the main thread has ten others beside it
for t in threads:
    t.start()
for cycle in range(int(sys.argv[3])):
    if cycle:
        assert library.memgauge_detach() == 0
        if cycle < 3:
            assert leading_here() == 0, "a call is still led here"
    why = library.memgauge_attach(directory, 131072.0)
    assert why is None, why
    assert library.memgauge_told(0) > 10 and (cycle or leading_here() > 3)
    library.memgauge_look()
stop = True
for t in threads:
    t.join()
assert all(sums) and not any(wrong), (sums, [w for w in wrong if w])

assert library.memgauge_attach(directory, 131072.0) == b"its native memory is sampled already"
libc = plain                    # malloc was looked up before
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
hold(libc.malloc)
late = sys.argv[2] + "/late.so"
shutil.copy(other, late)
opened = ctypes.CDLL(late)
opened.keep.argtypes = [ctypes.c_int, ctypes.c_size_t]
assert opened.mix(1, 100) == 0      # which binds its calls: until then nobody knows where they lead
looked = [library.memgauge_look() for _ in range(4)]
assert sum(looked) > 5, looked
opened.keep(5000, 20_000)
assert opened.share(30 << 20) == 0
libc.syscall.restype, libc.syscall.argtypes = ctypes.c_long, [ctypes.c_long] * 7
assert libc.syscall(9, 0, 30 << 20, 3, 0x22, -1, 0) > 0 or os.uname().machine != "x86_64"
if os.fork() == 0:
    hold(libc.malloc)
    os._exit(0)
assert os.wait()[1] == 0
print("ok", flush=True)
os._exit(0)
