"""What observing costs a training, at the defaults: ~35 ms, ~4.5 ms and ~0.5 ms steps, this Python's torch, CPU;
with --device cuda ~100 ms, ~20 ms and ~5 ms steps on the GPU, each of them waited for.

Blocks of steps with the agent on and off alternate in one process, in triples off/on/off of rotating order: on against
off is the effect, off against off the control, which shows what this machine can tell apart. CPU time of the training
thread (the agent's own work is on it); wall time beside it.

Usage: python test/bench/trainer_cost.py [--device cuda] [--row | SECONDS per size]    --row: lines of `make bench`"""
import os
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python"))
from memgauge._agent import life, state  # noqa: E402

SETTLE = 2.0  # s of training before anything is measured: the governor has its early samples behind it
SIZES = (("35 ms", 8, 128, 4, 40), ("4.5 ms", 4, 32, 2, 16), ("0.5 ms", 0, 16, 8, 1))
CUDA_SIZES = (("100 ms", 16, 1024, 4, 1024), ("20 ms", 12, 768, 3, 512), ("5 ms", 3, 256, 4, 64))


def block_class(torch):
    class Block(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
            self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
            self.up, self.act, self.down = torch.nn.Linear(width,
                                                           4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width,
                                                               width)

        def forward(self, x):
            q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
            x = x + self.out(torch.softmax(q @ k.transpose(-1, -2) * x.shape[-1] ** -0.5, -1) @ v)
            return x + self.down(self.act(self.up(self.norm2(x))))

    return Block


def training(torch, device, layers, width, batch, length):
    if layers:
        block = block_class(torch)
        model = torch.nn.Sequential(*[block(width) for _ in range(layers)]).to(device)
        x = torch.randn(batch, length, width, device=device)
        optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    else:
        model = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 4))
        optimizer, x = torch.optim.Adam(model.parameters(), 1e-4), torch.randn(batch, width)

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        if device != "cpu":
            torch.cuda.synchronize()

    return step, len(list(model.modules()))


class Switch:
    """The agent in and out of the way, its state kept: as if it had been there all the time."""

    def __init__(self, observer):
        self.observer = observer
        self.left = time.monotonic_ns()

    def off(self):
        o = self.observer
        self.left = time.monotonic_ns()
        o.ends.remove()
        if o.phase:     # a window is open: give it up, it would compare steps that are no neighbours
            o.calls.end()
            o.starts.remove()
            o.phase, o.next_sample = 0, o.step + 3
        o.modules.watch(None)

    def on(self):
        o = self.observer
        away = time.monotonic_ns() - self.left  # what goes by time must not find that more has passed than was trained
        o.costs.since += away
        for gate in (o.host.heap_gate, o.host.blocks_gate):
            gate.due += away
            if gate.began is not None:
                gate.began += away
        recorded, _ = o.counter.recorded()
        o.counter.told(recorded, time.monotonic_ns(), 0, o.offset)
        o._plan()
        o.ends.put(o.counter.hook)


def measure(step, switch, seconds):
    """[(on/off, on/off) and off/off ratios] in CPU and wall time, and the plain step's median."""
    def block(on):
        (switch.on if on else switch.off)()
        step()
        cpu, wall = time.thread_time_ns(), time.monotonic_ns()
        for _ in range(count):
            step()
        return time.thread_time_ns() - cpu, time.monotonic_ns() - wall

    begin = time.monotonic_ns()
    for _ in range(10):
        step()
    # blocks of 60 ms, since the machine has other work too
    count = max(3, int(60e6 / ((time.monotonic_ns() - begin) / 10)))
    on, control, plain, turn = ([], []), ([], []), [], 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        order = [(0, 1, 2), (1, 2, 0), (2, 0, 1)][turn % 3]
        times = {which: block(which == 1) for which in order}
        for kind in (0, 1):
            on[kind].append(2 * times[1][kind] / (times[0][kind] + times[2][kind]))
            control[kind].append((times[2] if turn & 1 else times[0])[kind] / (times[0] if turn & 1
                else times[2])[kind])
        plain.append(times[0][1] / count)
        turn += 1
    switch.on()
    return on, control, statistics.median(plain)


def interval(values):
    """Half width of the median's 95 % interval, as box plots have it (McGill, Tukey, Larsen 1978)."""
    ordered = sorted(values)
    return 1.57 * (ordered[len(ordered) * 3 // 4] - ordered[len(ordered) // 4]) / len(ordered) ** 0.5


def print_row(name, on, control):
    share = [100 * (statistics.median(v) - 1) for v in (on[0], on[1], control[0])]
    print("cost to the trainer, %s steps\t≤ 1 %%\t%+.2f %% of CPU (±%.2f), %+.2f %% of time\tbare against bare %+.2f %%"
          % (
        name, share[0], 100 * interval(on[0]), share[1], share[2]), flush=True)


def main():
    args, device, sizes = sys.argv[1:], "cpu", SIZES
    if args[:2] == ["--device", "cuda"]:
        args, device, sizes = args[2:], "cuda", CUDA_SIZES
    row = args == ["--row"]
    seconds = float(args[0]) if args and not row else 14
    with tempfile.TemporaryDirectory() as runtime:
        os.mkdir(runtime + "/rings")
        os.mkdir(runtime + "/ctl")
        life.start(runtime)
        import torch
        from memgauge._agent.observe import observer
        torch.set_num_threads(1)
        torch.manual_seed(0)
        if not row:
            print("cost to the trainer, torch %s, median of paired blocks (goal <= +1 %%)" % torch.__version__)
        for name, layers, width, batch, length in sizes:
            step, modules = training(torch, device, layers, width, batch, length)
            observer.uninstall()
            observer.install(torch)
            end = time.monotonic() + SETTLE
            while time.monotonic() < end:
                step()
            watching = state.observer
            on, control, plain = measure(step, Switch(watching), seconds)
            if row:
                print_row(name, on, control)
                continue
            g = watching.governor
            print("  %-6s step %6.2f ms, %3d modules: cpu %+.2f %% (±%.2f), wall %+.2f %% (±%.2f); control cpu %+.2f %%"
                  " (±%.2f); n %d; 1 step in %d sampled, 1 module in %d, %d steps a record; %d errors" % (
                      name, plain / 1e6, modules, *[f for v in on
                                                    for f in (100 * (statistics.median(v) - 1), 100 * interval(v))],
                      100 * (statistics.median(control[0]) - 1), 100 * interval(control[0]), len(on[0]), g.gap,
                      g.stride,
                      g.steps_per_record, watching.errors), flush=True)
        life.detach()


if __name__ == "__main__":
    main()
