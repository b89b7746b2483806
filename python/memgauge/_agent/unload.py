"""The end of a detach: our modules go, and with them all that they hold."""
import _thread
import os
import sys
from time import monotonic, sleep

from . import frames, persistent, state, torchhook

REMAINS = 16         # detaches; a collection stops Python for 0.1 to 0.4 s where torch is there
LEAVE = 1.0          # s that a detach waits for other threads to come out of our code


def outermost():
    """What a control thread runs: our code and, after a detach, the end of all of it. Modules are circles of
    references, which would otherwise stay until Python's next full garbage collection, hours later in a training. Bare
    types are what is left, some 40 KiB; a program that is detached from REMAINS times has them collected."""
    remains = persistent.get("remains.1", list)    # one entry for each detach since the last collection

    def outermost(run, s, thread, wiped, ends, remains=remains, most=REMAINS):
        run(s, thread)
        del run, s, thread
        if wiped:
            remains.append(None)
        space = value = None
        while wiped:
            space = wiped.pop()
            for value in list(space.values()):
                if isinstance(value, type) and value.__module__ == space.get("__name__"):
                    value.__doc__ = None
                    for name in [n for n in value.__dict__ if n not in ("__dict__", "__weakref__", "__doc__",
                        "__module__")]:
                        try:
                            delattr(value, name)
                        except (AttributeError, TypeError):
                            pass
            value = None
            space.clear()
        del space
        if len(remains) >= most:
            import gc
            if gc.isenabled():
                gc.collect()
            remains.clear()
        while ends:
            import posix
            sock, identity = ends.pop()
            try:
                if posix.fstat(sock.fileno())[1:3] == identity:
                    sock.shutdown(2)    # a forked child may have it too
                    sock.close()
                else:
                    sock.detach()   # somebody has closed everything, and this number is a file of the program's
            except OSError:
                sock.detach()
    return persistent.bare(outermost)


def _modules():
    return [n for n in list(sys.modules) if n == state.ROOT or n.startswith(state.ROOT + ".")]


def forget_modules(s):
    for folder in getattr(sys.modules.get(state.ROOT), "__path__", ()):     # empty where an attach has brought us
        lib = folder.rpartition("/")[0]
        if not os.path.exists(lib + "/../boot/sitecustomize.py"):
            continue    # not what `memgauge run` unpacked: the program's own place for modules
        sys.path[:] = [p for p in sys.path if p != lib]
        for known in [p for p in list(sys.path_importer_cache) if p == lib or (p + "/").startswith(folder + "/")]:
            sys.path_importer_cache.pop(known, None)
    for finder in [f for f in sys.meta_path if getattr(f, "memgauge", None) == state.ROOT]:    # inject.py
        torchhook.take_off(finder)
        finder.sources.clear()
        s.wiped.append(type(finder).find_spec.__globals__)
    return [sys.modules.pop(name) for name in _modules()]


def last_thing(s, sock):
    """On the control thread, after a detach: once no other thread is in our code, the end of that code can come. The
    end of the socket, if there is one, tells the client that all is over."""
    try:
        if sock is not None:
            s.ends.append((sock.sock, os.fstat(sock.sock.fileno())[1:3]))
    except OSError:     # the program has closed it
        sock.detach()
    s.pipe.close()
    streams = [m for m in s.modules if m.__name__ == __package__ + ".evaluate.streams"]
    if streams and streams[0].retire():
        s.modules.remove(streams[0])
    end = monotonic() + LEAVE
    while _others_in(s.modules):
        if monotonic() > end:
            return      # an eval that can't be stopped: what it needs stays until it ends
        sleep(0.002)
    sleep(0.02)         # for one that was just between fetching a function of ours and entering it
    if not _others_in(s.modules):
        s.wiped += [vars(module) for module in s.modules]
    s.modules = None


def _others_in(modules):
    spaces = {id(vars(module)) for module in modules}
    mine = _thread.get_ident()
    return any(id(frame.f_globals) in spaces
               for ident, top in frames.innermost().items() if ident != mine for frame in frames.stack(top))
