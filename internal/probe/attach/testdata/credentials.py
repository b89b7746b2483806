"""Uses, each time that a line comes in, what needs the C library's own signals in every thread: credentials,
cancellation, timers."""
import ctypes
import os
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)


def credentials():
    """These change nothing, but every thread is told (glibc nptl/nptl_setxid.c)."""
    os.setgroups(os.getgroups()) if os.geteuid() == 0 else None
    os.setgid(os.getgid())
    os.setuid(os.getuid())
    os.setresgid(*os.getresgid())
    os.setresuid(*os.getresuid())


def cancel():
    """Of a thread that sleeps in C."""
    thread = ctypes.c_ulong()
    assert libc.pthread_create(ctypes.byref(thread), None, libc.pause, None) == 0
    assert libc.pthread_cancel(thread) == 0
    result = ctypes.c_void_p()
    assert libc.pthread_join(thread, ctypes.byref(result)) == 0
    assert result.value == ctypes.c_void_p(-1).value, result      # PTHREAD_CANCELED


def timer():
    """SIGEV_THREAD: a thread of the library's is woken by signal 32 and makes another one, which calls."""
    fired = threading.Event()
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda value: fired.set())

    class Sigevent(ctypes.Structure):
        _fields_ = [("value", ctypes.c_void_p), ("signo", ctypes.c_int), ("notify", ctypes.c_int),
                    ("function", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("rest", ctypes.c_char * 32)]

    library = libc
    if not hasattr(libc, "timer_create"):
        library = ctypes.CDLL("librt.so.1")     # before glibc 2.34
    event, handle = Sigevent(notify=2, function=ctypes.cast(call, ctypes.c_void_p)), ctypes.c_void_p()
    assert library.timer_create(1, ctypes.byref(event), ctypes.byref(handle)) == 0
    when = (ctypes.c_long * 4)(0, 0, 0, 1000000)
    assert library.timer_settime(handle, 0, when, None) == 0
    assert fired.wait(60)
    assert library.timer_delete(handle) == 0


def hammer(enough):
    """Credentials, very often, with Python's lock given up."""
    while not enough.is_set():
        libc.setgid(os.getgid())
        time.sleep(0.0001)  # the lock of the library is not fair


enough = threading.Event()
hammers = [threading.Thread(target=hammer, args=(enough,), daemon=True)] if sys.argv[1:] == ["hammer"] else []
for thread in hammers:
    thread.start()
print("ready", flush=True)
for line in sys.stdin:
    # glibc's own setgid() waits for ever, once in some hundred times, for a thread that is being cancelled
    # (nptl/nptl_setxid.c; seen with 2.36 and nobody attached)
    enough.set()
    for thread in hammers:
        thread.join()
    credentials()
    cancel()
    timer()
    print("done", flush=True)
