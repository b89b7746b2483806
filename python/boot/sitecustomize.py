# Its directory is first in PYTHONPATH of an observed job, so every Python of the job runs this at its start. That may
# be 2.7 or 3.0, so it uses no syntax that they lack. It starts the agent if the version is supported, removes its own
# directory from sys.path, and imports the sitecustomize that would have been imported without it.
import os
import sys


def _start(base):
    if sys.version_info < (3, 8) or not os.environ.get("MEMGAUGE_RUNTIME") or os.environ.get("MEMGAUGE_DISABLE"):
        return
    lib = os.path.join(base, "lib")
    sys.path.insert(0, lib)     # in front while we import: quickest, and nobody else's memgauge can come between
    try:
        from memgauge._agent import life
        life.start()
    except Exception:
        pass                    # the agent prints nothing at the program's start
    finally:
        sys.path.remove(lib)
        sys.path.append(lib)    # at the end: `import memgauge` works, and we shadow nothing


def _leave(boot):
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != boot]
    sys.path_importer_cache.pop(boot, None)
    del sys.modules["sitecustomize"]


_boot = os.path.dirname(os.path.abspath(__file__))
_start(os.path.dirname(_boot))
_leave(_boot)
# The import machinery returns what it finds in sys.modules after this (importlib._bootstrap._load_unlocked pops and
# sets it), so that will be the user's. Where there is none, this raises the very ImportError that site expects then;
# where the user's raises, site reports that.
import sitecustomize  # noqa: E402,F401
