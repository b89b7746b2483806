"""torch.cuda without a driver, and PyTorch's tools for CUDA on the host."""
import collections
import types

import torch
import torch.utils.checkpoint

HOST = torch.device("cpu")


class Nothing:
    """Stands for streams, events and the like: does nothing, is a context."""

    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *a, **k: 0

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return False


def pretend(device, capability):
    """Gives torch.cuda answers without a driver."""
    cuda, total = torch.cuda, 1 << 40
    properties = types.SimpleNamespace(name="NVIDIA estimate", total_memory=total, major=capability[0],
                                       minor=capability[1], multi_processor_count=80, warp_size=32, gcnArchName="")
    fixed = {"is_available": True, "device_count": 1, "current_device": 0, "get_device_name": properties.name,
             "get_device_properties": properties, "get_device_capability": tuple(capability),
             "is_bf16_supported": True, "is_initialized": True, "mem_get_info": (total, total),
             "is_current_stream_capturing": False, "memory_snapshot": [], "memory_summary": "",
             "utilization": 0, "_is_in_bad_fork": False}
    for name, value in fixed.items():
        setattr(cuda, name, lambda *a, value=value, **k: value)
    for name in ("init", "_lazy_init", "synchronize", "set_device", "manual_seed", "manual_seed_all", "seed",
                 "seed_all",
                 "ipc_collect", "reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
                 "reset_accumulated_memory_stats", "set_per_process_memory_fraction", "set_rng_state",
                 "set_rng_state_all",
                 "set_stream", "cudart"):
        setattr(cuda, name, lambda *a, **k: None)
    for name in ("Stream", "Event", "device", "stream", "StreamContext", "device_of", "CUDAGraph"):
        setattr(cuda, name, Nothing)
    for name in ("current_stream", "default_stream"):
        setattr(cuda, name, lambda *a, **k: Nothing())
    cuda.get_rng_state = lambda *a, **k: torch.get_rng_state()
    cuda.get_rng_state_all = lambda *a, **k: [torch.get_rng_state()]
    cuda.empty_cache = lambda: device.log.write("empty")
    cuda.memory_allocated = cuda.memory_reserved = cuda.memory_cached = lambda *a, **k: device.bytes
    cuda.max_memory_allocated = cuda.max_memory_reserved = lambda *a, **k: device.peak
    cuda.memory_stats = lambda *a, **k: collections_of(device)
    cuda.memory._record_memory_history = cuda.memory._dump_snapshot = lambda *a, **k: None
    for name in ("empty_cache", "memory_allocated", "memory_reserved", "memory_stats", "max_memory_allocated",
                 "max_memory_reserved", "reset_peak_memory_stats", "mem_get_info"):
        setattr(cuda.memory, name, getattr(cuda, name))


def collections_of(device):
    return collections.defaultdict(int, {"allocated_bytes.all.current": device.bytes,
                                         "allocated_bytes.all.peak": device.peak,
                                         "reserved_bytes.all.current": device.bytes,
                                         "reserved_bytes.all.peak": device.peak})


def redirect():
    """Autocast, checkpointing, compilation and loading on the host instead of a GPU."""
    kind = torch.amp.autocast_mode.autocast
    original = kind.__init__

    def init(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or torch.float16
        original(self, device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)
    kind.__init__ = init
    torch.utils.checkpoint._infer_device_type = lambda *a: "cpu"
    torch.compile = lambda model=None, **k: model if model is not None else (lambda m: m)
    torch.nn.Module.compile = lambda self, *a, **k: None
    optimizer = torch.optim.Optimizer
    for name in ("_cuda_graph_capture_health_check", "_accelerator_graph_capture_health_check"):
        if hasattr(optimizer, name):  # they ask the driver
            setattr(optimizer, name, lambda self: None)
    load = torch.load
    torch.load = lambda f, map_location=None, *a, **k: load(f, HOST, *a, **k)
