"""The part of memgauge that lives in an observed process. Standard library only; see docs/agent-start.md.

For programs: MemoryDebugger, MemoryProfiler, OOMDetector, MemoryLeakDetector, FragmentationAnalyzer and
DistributedMemoryMonitor (tools.py), loaded when they are first asked for."""

_TOOLS = ("MemoryDebugger", "MemoryProfiler", "OOMDetector", "MemoryLeakDetector", "FragmentationAnalyzer",
          "DistributedMemoryMonitor", "OOMPrediction", "RiskLevel")


def __getattr__(name):
    if name in _TOOLS:
        from . import tools
        return getattr(tools, name)
    raise AttributeError("module %r has no attribute %r" % (__name__, name))


def __dir__():
    return sorted(list(globals()) + list(_TOOLS))
