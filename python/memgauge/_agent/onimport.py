"""Installs our hooks when a training library has been imported. Only then the modules for them are loaded."""
import os

from . import state, torchhook

LEARNERS = ("jax._src.api", "keras.src.callbacks", "xgboost.core", "lightgbm.basic")    # observe/learners.py
SERVERS = ("uvicorn.protocols.http.h11_impl", "uvicorn.protocols.http.httptools_impl", "vllm.v1.engine.core",
           "transformers.generation.utils")     # observe/servers.py


def notice():
    torchhook.install(_torch)
    torchhook.notice_others(LEARNERS, _learner)
    torchhook.notice_others(SERVERS, _server)
    if "MEMGAUGE_GUARD" in os.environ:
        state.make_guard = _guard


def _torch(torch):
    try:
        if state.observer is None:
            from .observe import observer
            observer.install(torch)
        else:       # beats were counted before
            from .observe import loop
            loop.torch_is_there(torch)
    except Exception:
        state.error("hooks")
    if "MEMGAUGE_RECORD" in os.environ:
        from .gauges import history
        history.install(torch)


def _guard():
    try:
        from .guard import engine
        engine.install()
    except Exception:
        state.error("guard")


def _server(module):
    try:
        from .observe import servers
        servers.found(module)
    except Exception:
        state.error("hooks")


def _learner(module):
    try:
        from .observe import learners
        learners.found(module)
    except Exception:
        state.error("hooks")
