"""The part of memgauge that lives in an observed process. Standard library only; see docs/agent-start.md.

For programs: MemoryDebugger, MemoryProfiler, OOMDetector, MemoryLeakDetector, FragmentationAnalyzer and
DistributedMemoryMonitor (tools.py); device, profiler and small tensors (docs/allocator.md). They are loaded when they are
first asked for."""

_MODULES = {
    "tools": ("MemoryDebugger", "MemoryProfiler", "OOMDetector", "MemoryLeakDetector", "FragmentationAnalyzer",
              "DistributedMemoryMonitor", "OOMPrediction", "RiskLevel"),
    "allocator": ("device", "set_memory_debug", "install_allocator", "OutOfMemoryError"),
    "arrays": ("empty", "zeros", "ones", "full", "rand", "matmul", "manual_seed", "from_buffer", "Tensor"),
    "profiler": ("profiler",),
}
_LAZY = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError("module %r has no attribute %r" % (__name__, name))
    import importlib
    module = importlib.import_module("%s.%s" % (__name__, _LAZY[name]))
    return module if name == _LAZY[name] else getattr(module, name)


def __dir__():
    return sorted(list(globals()) + list(_LAZY))
