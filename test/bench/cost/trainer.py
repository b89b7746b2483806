"""A training that the ruler measures: started by it, bare or under `memgauge run`. Writes what it measured as JSON.

    trainer.py blocks STEP OUT SECONDS STARTS     blocks with the agent in and out of the way, in this process
    trainer.py spin STEP OUT SECONDS SHARE        the same with a hook that spins for a share of a step, and no agent
    trainer.py twin STEP OUT SECONDS SHARE        steps until the time is up, from when a line comes on stdin

STEP is a length in ms with a model of SIZES, or "workers", whose batches a DataLoader's workers make.
"""
import json
import os
import random
import signal
import sys
import time

SIZES = {"0.2": (0, 8, 4, 1), "1": (0, 48, 64, 1), "5": (2, 32, 2, 16), "30": (6, 96, 4, 32)}
BLOCK = 0.06          # s, about: of other work on the machine most lies within a block or is the same in three
LEAST = 2             # steps of a block
FIRST = 3             # steps of an agent that begins, which are told apart
FRESH = 10.0          # s with the agent, after which it begins anew
TICK = 0.1            # s between two lines of a twin


def block_class(torch):
    class Block(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
            self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
            self.up, self.act = torch.nn.Linear(width, 4 * width), torch.nn.GELU()
            self.down = torch.nn.Linear(4 * width, width)

        def forward(self, x):
            q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
            x = x + self.out(torch.softmax(q @ k.transpose(-1, -2) * x.shape[-1] ** -0.5, -1) @ v)
            return x + self.down(self.act(self.up(self.norm2(x))))

    return Block


def training(torch, size):
    layers, width, batch, length = SIZES["5" if size == "workers" else size]
    x = torch.randn(batch, length, width) if layers else torch.randn(batch, width)
    if size == "0.2":
        model = torch.nn.Linear(width, 4)
        optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    else:
        block = block_class(torch)
        model = torch.nn.Sequential(*[block(width) for _ in range(layers)]) if layers else torch.nn.Sequential(
            torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 4))
        optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    batches = loaded(torch, x) if size == "workers" else None

    def step():
        optimizer.zero_grad()
        model(x if batches is None else next(batches)).square().mean().backward()
        optimizer.step()

    return step


def loaded(torch, x):
    class Data(torch.utils.data.IterableDataset):
        def __iter__(self):
            while True:
                yield x + torch.randn(())

    return iter(torch.utils.data.DataLoader(Data(), batch_size=None, num_workers=2))


def spent():
    """ns: CPU time of this thread and of the process, time on the clock."""
    return time.thread_time_ns(), time.process_time_ns(), time.monotonic_ns()


class Agent:
    """The agent of `memgauge run`, in and out of the way: its hooks by its own means, its control thread held between
    two ticks, its collector stopped. What goes by time is moved on by the time that it was away, so it is as old as
    the time with it."""

    def __init__(self):
        from memgauge._agent import state
        self.state, self.collectors = state, collectors()
        self.left, self.held, self.ticking, self.hooked, self.first = 0, False, False, 0, 0
        self.control = state.current.control
        deadline = time.monotonic() + 5
        while self.control is None and time.monotonic() < deadline:
            time.sleep(0.01)
            self.control = state.current.control
        original = self.control._tick

        def tick():
            if self.held:
                return None
            self.ticking = True
            try:
                return None if self.held else original()
            finally:
                self.ticking = False

        self.control._tick = tick

    def timed(self, function):
        """The function with its CPU time counted: both kinds of blocks have it, so that it counts for neither."""
        clock = time.thread_time_ns

        def _optimizer_step_code(optimizer):
            began = clock()
            function(optimizer)
            self.hooked += clock() - began

        return _optimizer_step_code

    def fresh(self):
        """The agent as it is at a training's first step, whose hooks are not timed: they look at their callers."""
        import torch
        from memgauge._agent.census import census, schedule
        from memgauge._agent.observe import observer
        self.held = True
        while self.ticking:
            time.sleep(0.0005)
        observer.uninstall()
        if self.state.census is not None:
            self.state.census.interrupt()
        census.after_fork()
        schedule._course = None
        purse = census.memory_of().purse
        from memgauge._agent.census.memory import SAVED, SHARE
        purse.level, purse.at = (SAVED + 3e9) * self.state.settings.budget * SHARE, time.monotonic_ns()
        observer.install(torch)
        self.first = FIRST
        self.held = False

    def off(self):
        self.held = True
        o, self.left = self.state.observer, time.monotonic_ns()
        o.ends.remove()
        o.ends.put(self.timed(o.ends.original))
        if o.phase:     # a window is open: give it up, it would compare steps that are no neighbours
            o.calls.end()
            o.starts.remove()
            o.phase, o.next_sample = 0, o.step + 3
        if o.modules:
            o.modules.watch(None)
        for pid in self.collectors:
            signalled(pid, signal.SIGSTOP)
        while self.ticking:
            time.sleep(0.0005)

    def on(self):
        for pid in self.collectors:
            signalled(pid, signal.SIGCONT)
        o, away = self.state.observer, time.monotonic_ns() - self.left
        o.costs.since += away
        for gate in (o.host.heap_gate, o.host.blocks_gate):
            gate.due += away
            if gate.began is not None:
                gate.began += away
        self._census(away)
        recorded, _ = o.counter.recorded()
        o.counter.told(recorded, time.monotonic_ns(), 0, o.offset)
        o._plan()
        o.ends.put(self.timed(o.counter.hook))
        self.held = False
        self.control.wake()

    def _census(self, away):
        loaded = sys.modules.get("memgauge._agent.census.schedule")
        if loaded is None:
            return
        if loaded._course is not None:
            loaded._course.began += away / 1e9
            loaded._course.due += away / 1e9
        memory = sys.modules["memgauge._agent.census.census"].memory_of() \
            if "memgauge._agent.census.census" in sys.modules else None
        if memory is not None and memory.purse.at is not None:
            memory.purse.at += away

    def before(self, on):
        """Before a block's first step."""
        self.is_on, self.seen, self.phase, self.stirred = on, self._marks(), self.state.observer.phase, False

    def _marks(self):
        o = self.state.observer
        return o.tail, o.counter.recorded()[0]

    def after(self):
        """What the agent did in the step that has just ended, as a letter of estimate.PARTS."""
        o, (tail, recorded), phase, stirred = self.state.observer, self.seen, self.phase, self.stirred
        self.seen, self.phase = now = self._marks(), o.phase
        self.stirred = False
        if not self.is_on:
            return "."
        if self.first:
            self.first -= 1
            if not self.first:
                o.ends.put(self.timed(o.counter.hook))
            return "f"
        census = self.state.census is not None
        if phase == 2:                      # sampling.SAMPLED
            kind = "r"
        elif now[0][0] != tail:
            kind = "h" if o.heap_cost else "l"
        elif census:
            return "c"
        elif stirred:
            return "a"
        else:
            return "w" if now[0][1] != recorded else "."
        self.stirred = True
        return kind


def signalled(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def collectors():
    """The background processes of the session: those of `memgauge run` whose command line says collector."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open("/proc/%s/cmdline" % name, "rb") as f:
                words = f.read().split(b"\0")
        except (OSError, NotADirectoryError):
            continue
        if name.isdigit() and b"collector" in words and \
                os.path.dirname(os.environ["MEMGAUGE_RUNTIME"]).encode() in b" ".join(words):
            found.append(int(name))
    return found


class Spin:
    """A known cost: a hook at the end of each step that takes a share of the step's CPU time, to be found again."""

    def __init__(self, share, length):
        self.wanted, self.spun, self.steps, self.hooked = share * length, 0, 0, 0
        from torch.optim import Optimizer
        self.owner, self.original = Optimizer, Optimizer._optimizer_step_code

    def fresh(self):
        pass

    def before(self, on):
        pass

    def after(self):
        return "."

    def on(self):
        def _optimizer_step_code(optimizer):
            clock = time.thread_time_ns
            began = clock()
            end = began + self.wanted
            while clock() < end:
                pass
            took = clock() - began
            self.hooked += took
            self.spun += took
            self.steps += 1
        self.owner._optimizer_step_code = _optimizer_step_code

    def off(self):
        def _optimizer_step_code(optimizer):
            clock = time.thread_time_ns
            began = clock()
            self.hooked += clock() - began
        self.owner._optimizer_step_code = _optimizer_step_code


def blocks(step, switch, seconds, starts, length):
    """Blocks of steps, on and off in turns, each of random length: the first `starts` times FRESH seconds, each with an
    agent that begins anew, then the last one until the time is up. Of each step its CPU time and what the agent did."""
    out, draw, run, age, on = [], random.Random(1), 0, 0.0, True
    end, clock = time.monotonic() + seconds, time.thread_time_ns
    switch.fresh()
    while time.monotonic() < end:
        if age >= FRESH and run < starts:
            run, age, on = run + 1, 0.0, True
            switch.off()
            switch.fresh()
        elif out and on:
            switch.on()
        elif not on:
            switch.off()
        if out and age:
            step()
        count, took, hooked, did = max(LEAST, int(BLOCK * draw.uniform(0.5, 1.5) / length)), [], [], []
        switch.before(on)
        before = spent()
        for _ in range(count):
            switch.hooked = 0
            began = clock()
            step()
            took.append(clock() - began)
            hooked.append(switch.hooked)
            did.append(switch.after())
        after = spent()
        thread, process, wall = (b - a for a, b in zip(before, after))
        out.append({"on": int(on), "run": run, "age": age, "steps": count, "thread": thread, "process": process,
                    "wall": wall, "took": took, "hooked": hooked, "did": "".join(did)})
        age += wall / 1e9 if on else 0.0
        on = not on
    switch.off()
    switch.on()
    return out


def twin(step, seconds):
    """[time, steps, CPU time of the thread and of the process] each TICK."""
    lines, count, due = [], 0, 0
    end = time.monotonic_ns() + int(seconds * 1e9)
    while True:
        thread, process, wall = spent()
        if wall >= due:
            lines.append((wall, count, thread, process))
            due = wall + int(TICK * 1e9)
            if wall >= end:
                return lines
        step()
        count += 1


def typical(step, number):
    """s of CPU time of a step, of many."""
    took = []
    for _ in range(number):
        began = time.thread_time_ns()
        step()
        took.append(time.thread_time_ns() - began)
    return sorted(took)[number // 2] / 1e9


def main():
    kind, size, out, seconds, last = sys.argv[1:]
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(0)
    step = training(torch, size)
    if kind == "twin":
        for _ in range(3):
            step()
        spin = None
        if float(last):
            spin = Spin(float(last), 1e9 * typical(step, 200))
            spin.on()
        print("ready", flush=True)
        sys.stdin.readline()
        began = spin.spun if spin else 0
        result = {"lines": twin(step, float(seconds)), "spun": spin.spun - began if spin else 0}
    else:
        length = typical(step, 30)
        switch = Agent() if kind == "blocks" else Spin(float(last), 1e9 * typical(step, 200))
        made = blocks(step, switch, float(seconds), int(last) if kind == "blocks" else 0, length)
        result = {"blocks": made, "spun": getattr(switch, "spun", 0), "hooked": getattr(switch, "steps", 0)}
    with open(out, "w") as f:
        json.dump(result, f)


if __name__ == "__main__":
    main()
