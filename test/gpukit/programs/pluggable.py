"""The same training with PyTorch's allocator, or with memgauge's in its place: losses, memory and time, as JSON.

    pluggable.py SETTINGS|- OUT.json        -: PyTorch's own allocator
"""
import json
import sys
import time

settings, out = sys.argv[1], sys.argv[2]
import torch  # noqa: E402

if settings != "-":
    import memgauge
    memgauge.install_allocator(settings)
from torch import nn  # noqa: E402

torch.manual_seed(0)
torch.backends.cuda.matmul.allow_tf32 = False
torch.use_deterministic_algorithms(False)
model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)).cuda()
optimizer = torch.optim.Adam(model.parameters(), 1e-4)
generator = torch.Generator().manual_seed(1)


def train(steps, losses):
    for step in range(steps):
        x = torch.randn(64 + step * 53 % 512, 1024, generator=generator).cuda()
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


result, losses = {}, []
train(50, losses)
torch.cuda.synchronize()
begin = time.monotonic()
train(300, losses)
torch.cuda.synchronize()
result["ms_per_step"] = (time.monotonic() - begin) / 300 * 1e3
result["losses"] = losses

side = torch.cuda.Stream()  # a block that another stream still reads must not be reused
wrong = 0
for turn in range(200):
    a = torch.full((1 << 20,), float(turn), device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(200000)
        total = a.sum()
        a.record_stream(side)
    del a
    b = torch.full((1 << 20,), -1.0, device="cuda")
    side.synchronize()
    wrong += total.item() != float(turn) * (1 << 20)
    del b
result["wrong_after_record_stream"] = wrong

static = torch.randn(128, 1024, device="cuda")
with torch.no_grad():
    for _ in range(3):
        model(static)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = model(static)
    fresh = torch.randn(128, 1024, device="cuda")
    static.copy_(fresh)
    graph.replay()
    torch.cuda.synchronize()
    result["graph_error"] = (captured - model(fresh)).abs().max().item()
del graph, captured
torch.cuda.empty_cache()
torch.cuda.synchronize()
if settings == "-":
    stats = torch.cuda.memory_stats()
else:
    stats = memgauge.device("cuda").memory_stats()
    memgauge.device("cuda").memory_snapshot(out + ".pickle")
result["stats"] = {k: v for k, v in stats.items() if isinstance(v, (int, float))}
free, whole = torch.cuda.mem_get_info()
result["driver_used"] = whole - free
try:
    torch.empty(whole, dtype=torch.uint8, device="cuda")
    result["oom"] = "no error"
except RuntimeError as e:  # torch's OutOfMemoryError is one
    result["oom"] = "%s: %s" % (type(e).__name__, str(e)[:600])
with open(out, "w") as f:
    json.dump(result, f)
