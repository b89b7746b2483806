"""Questions at random moments, to trainings on the CPU that most of the time are in C++ without Python's lock: evals
that read, evals that change state, backtraces, censuses, `where`, SQL, detaches and attaches. Counts what died, and
whether evals that only read leave the losses as they are, bit for bit.

A training that is only read runs STEPS steps and is compared with a bare run; in one that is changed, only its end
counts. Mains that block (in input, a lock, a queue, a sleep …) are asked between trainings.

Usage: stress.py [--seconds 300] [--side-by-side 3] [--steps 300] [--seed N] [--shapes plain,workers,…] [--memgauge bin/memgauge] [--python PYTHON]
Prints one JSON object; exits 1 when a training died, losses differed, or an answer was not what it had to be."""
import argparse
import glob
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
VICTIM = os.path.join(ROOT, "test", "e2e", "testdata", "victim.py")
SHAPES = ["plain", "workers", "ddp", "hooks", "checkpoint", "recompute"]

sys.path.insert(0, os.path.join(ROOT, "test", "agent"))
import seeds  # noqa: E402

READ = """
import torch; print(torch.cuda.is_available())
print(globals().keys())
print(type(model), model)
for name, p in model.named_parameters(): print(name, p.shape, None if p.grad is None else p.grad.norm().item())
print([n for n, p in model.named_parameters() if p.grad is not None and not torch.isfinite(p.grad).all()])
import threading; print([t.name for t in threading.enumerate()])
import gc; gc.collect()
print(sum(isinstance(o, torch.Tensor) for o in gc.get_objects()))
for pg in optimizer.param_groups: print(pg['lr'], pg['weight_decay'])
import io; torch.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict()}, io.BytesIO())
train_loader.num_workers, train_loader.prefetch_factor
len(all_losses), [float(l) for l in all_losses[-3:]]
sum(p.numel() * p.element_size() for p in model.parameters())
{k: {n: tuple(v.shape) for n, v in s.items() if hasattr(v, 'shape')} for k, s in list(optimizer.state_dict()['state'].items())[:2]}
(model(data[:2] if 'data' in dir() else x[:2]).sum()).item()
raise ValueError('an exception of the code')
import sys; sys.exit(3)
while True: pass
""".strip().split("\n")

CHANGE = """
model.zero_grad(set_to_none=True)
optimizer.zero_grad(set_to_none=True)
for p in model.parameters(): p.grad = None
for p in model.parameters(): p.grad = torch.zeros_like(p)
for p in model.parameters(): p.grad is not None and p.grad.mul_(0.5)
for pg in optimizer.param_groups: pg['lr'] *= 0.99
for pg in optimizer.param_groups: pg['lr'] = 1e-4; pg['betas'] = (0.8, 0.99)
all_losses.clear()
optimizer.state.clear()
model.eval(); model.train()
x = x.clone()
loss = loss.detach() if loss.grad_fn is None else loss
import torch.nn as nn; torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
next(iter(train_loader))
net.layers[0].register_forward_hook(lambda m, i, o: None)
for m in net.modules(): m._forward_hooks.clear()
train_loader.dataset.tensors[0].mul_(1.0)
torch.manual_seed(torch.initial_seed())
import gc; gc.collect(); gc.freeze(); gc.unfreeze()
del all_losses[:-1]
import os; open(os.devnull).close(); globals().update(probe=1)
probe_list = [o for o in __import__('gc').get_objects() if isinstance(o, torch.Tensor)]; del probe_list
(net(x[:2].detach()).sum() * 1e-9).backward()
""".strip().split("\n")

# What changes the values that the backward pass needs belongs at the end of a step.
AT_STEP = """
with torch.no_grad(): [p.mul_(0.999) for p in model.parameters()]
with torch.no_grad(): [p.add_(torch.randn_like(p), alpha=1e-4) for p in model.parameters()]
net.load_state_dict(net.state_dict())
for p in model.parameters(): p.data = p.data.clone()
optimizer.load_state_dict(optimizer.state_dict())
[p.requires_grad_(True) for p in model.parameters()]
""".strip().split("\n")

BLOCKED = {
    "sleep": "time.sleep(1000)", "input": "sys.stdin.readline()",
    "lock": "lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "queue": "queue.Queue().get()", "event": "threading.Event().wait()",
    "join": "t = threading.Thread(target=time.sleep, args=(1000,), daemon=True); t.start(); t.join()",
    "select": "select.select([r], [], [])", "read": "os.read(r, 1)", "child": "subprocess.call(['sleep', '1000'])",
    "accept": "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(1); s.accept()",
}
BLOCKER = """
import os, queue, select, socket, subprocess, sys, threading, time
import torch
model = torch.nn.Linear(4, 4)
r, w = os.pipe()
def main(secret=42):
    print("ready", flush=True)
    %s
main()
"""


def seed_snippets():
    """Those of the seeds' documents that a training on the CPU can run. Some set GPUs or collectors to what can't be
    undone."""
    kept = []
    for snippet in seeds.snippets():
        if not any(word in snippet for word in ("DEBUG_SAVEALL", "breakpoint", "set_debug", "...")):
            kept.append(snippet)
    return kept


def children(pid):
    """Of all its threads: Go starts them on any."""
    found = []
    for path in glob.glob("/proc/%d/task/*/children" % pid):
        try:
            with open(path) as f:
                found += [int(p) for p in f.read().split()]
        except OSError:      # the thread has ended
            pass
    return found


def is_victim(pid):
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as f:
            return b"victim.py" in f.read()
    except OSError:
        return False


class Count:
    def __init__(self):
        self.lock, self.of, self.wrong = threading.Lock(), {}, []
        self.waits = {}     # training -> [s]

    def add(self, what, n=1):
        with self.lock:
            self.of[what] = self.of.get(what, 0) + n

    def fail(self, text):
        with self.lock:
            self.wrong.append(text[-1500:])
        print("WRONG:", text[-1500:], file=sys.stderr, flush=True)
        if len(self.wrong) > 50:
            os._exit(1)


class Training:
    """One training under observation, or bare."""

    def __init__(self, o, shape, home, observed, steps, number):
        self.o, self.shape, self.dir = o, shape, tempfile.mkdtemp(prefix="%s%d-" % (shape, number), dir=home)
        self.out = os.path.join(self.dir, "out")
        self.env = dict(os.environ, MEMGAUGE_HOME=os.path.join(self.dir, "home"), OMP_NUM_THREADS="1",
                        PYTHONUNBUFFERED="1")
        self.log = open(os.path.join(self.dir, "log"), "w+b")
        self.processes = []
        world = 2 if shape == "ddp" else 1
        self.sessions = [os.path.join(self.dir, "session%d" % rank) for rank in range(world)]
        if world > 1:
            with socket.socket() as s:
                s.bind(("127.0.0.1", 0))
                port = s.getsockname()[1]
        for rank in range(world):
            env = dict(self.env)
            if world > 1:
                env.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(port))
            command = [o.python, VICTIM, shape, str(steps), self.out + str(rank)]
            if observed:
                command = [o.memgauge, "run", "--quiet", "--session", self.sessions[rank], "--"] + command
            self.processes.append(subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=self.log,
                                                   stderr=subprocess.STDOUT))

    def text(self):
        with open(self.log.name, "rb") as f:
            return f.read().decode("utf-8", "replace")

    def alive(self):
        return all(p.poll() is None for p in self.processes)

    def going(self):
        """Whether all still train: one that has ended its steps takes its time to leave, and may not answer any
        more."""
        return self.alive() and "done" not in self.text()

    def ready(self):
        end = time.monotonic() + 600
        while self.text().count("ready") < len(self.processes):
            if not self.alive() or time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    def finish(self):
        """Exit codes."""
        for rank in range(len(self.processes)):
            with open(self.out + str(rank) + ".stop", "w"):
                pass
        codes = []
        for p in self.processes:
            try:
                codes.append(p.wait(300))
            except subprocess.TimeoutExpired:
                p.kill()
                codes.append("hangs")
        return codes

    def results(self):
        out = []
        for rank in range(len(self.processes)):
            with open(self.out + str(rank)) as f:
                out.append(json.loads(f.read()))
        return out

    def remove(self):
        for p in self.processes:
            if p.poll() is None:     # `memgauge run` would leave its command behind
                for pid in children(p.pid) + [p.pid]:
                    os.kill(pid, signal.SIGKILL)
            p.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def memgauge(self, *arguments, rank=None, timeout=90):
        if rank is None:
            rank = random.randrange(len(self.processes))
        command = [self.o.memgauge, arguments[0], "--session", self.sessions[rank]] + list(arguments[1:])
        try:
            return subprocess.run(command, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=timeout)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, "hangs", b"", b"")


class Acts:
    """What is done to a training, by chance."""

    def __init__(self, o, count, training, changes):
        self.o, self.count, self.training, self.changes = o, count, training, changes
        self.seeds = seed_snippets()
        self.waits = []

    def one(self):
        act = random.choices([self.eval, self.backtrace, self.census, self.where, self.query, self.again],
                             [12, 3, 1, 1, 1, 1])[0]
        act()

    def eval(self):
        at = "main"
        if not self.changes:
            code = random.choice(READ)
        elif random.random() < 0.2:
            code, at = random.choice(AT_STEP), "step"
        else:
            code = random.choice(CHANGE + self.seeds)
        limit = "0.3s" if code.startswith("while True") else "60s"
        done = self.training.memgauge("eval", "--json", "--at", at, "--timeout", limit, code)
        try:
            answer = json.loads(done.stdout)["processes"][0]
        except (ValueError, KeyError, IndexError):
            answer = {"outcome": "none", "exception": done.stderr.decode("utf-8", "replace"), "place": None,
                      "waited": 0}
        self.count.add("evals")
        self.count.add("evals %s" % answer["outcome"])
        self.count.add("evals at %s" % answer["place"])
        if answer["place"] == "main":
            self.waits.append(answer["waited"])
        if answer["outcome"] in ("none", "error", "ended", "blocked") and self.training.going():
            self.count.fail("%s: eval %r: %s: %s" % (self.training.shape, code, answer["outcome"], answer["exception"]))

    def _run(self, name, *arguments, fine=(0,)):
        done = self.training.memgauge(*arguments)
        self.count.add(name)
        if done.returncode not in fine and self.training.going():
            self.count.fail("%s: %s: exit %s: %s" % (self.training.shape, name, done.returncode,
                                                     done.stderr.decode("utf-8", "replace")))

    def backtrace(self):
        self._run("backtraces", "backtrace", "--json", *(["--locals"] if random.random() < 0.5 else []))

    def census(self):
        self._run("censuses", "tensors", "--json", fine=(0, 1))      # 1: the budget allows none yet

    def where(self):
        self._run("wheres", "where", "--json")

    def query(self):
        self._run("queries", "query", "SELECT func, lineno FROM python.backtrace WHERE depth = 0")

    def again(self):
        """Detach and attach."""
        rank = random.randrange(len(self.training.processes))
        pids = [p for p in children(self.training.processes[rank].pid) if is_victim(p)]
        if not pids:
            return
        session = tempfile.mktemp(dir=self.training.dir)
        for command, more in (("detach", []), ("attach", ["--session", session])):
            done = subprocess.run([self.o.memgauge, command, str(pids[0])] + more, env=self.training.env,
                                  stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
            self.count.add(command)
            again = b"observed already" in done.stdout      # it was detached just before
            if (done.returncode != 0 or again) and self.training.going():
                said = (done.stdout + done.stderr).decode("utf-8", "replace")
                self.count.fail("%s: %s: exit %s: %s" % (self.training.shape, command, done.returncode, said))
                return
        self.training.sessions[rank] = session


def one_training(o, count, home, number, bare, end):
    shape, changes = o.shapes[number % len(o.shapes)], number // len(o.shapes) % 2 == 1
    training = Training(o, shape, home, True, 10 ** 9 if changes else o.steps, number)
    try:
        if not training.ready():
            count.fail("%s: did not start: %s" % (shape, training.text()))
            return
        acts = Acts(o, count, training, changes)
        until = min(end, time.monotonic() + o.life) if changes else time.monotonic() + 600
        while training.going() and time.monotonic() < until:
            acts.one()
            time.sleep(random.expovariate(1 / 0.05))
        codes = training.finish()
        count.add("trainings")
        if any(codes):
            count.add("deaths")
            count.fail("%s (%s): ended with %s\n%s" % (shape, "changed" if changes else "read", codes, training.text()))
            return
        judge(count, shape, changes, training.results(), bare.get(shape), acts)
    finally:
        training.remove()


def judge(count, shape, changes, results, bare, acts):
    for rank, result in enumerate(results):
        if not changes:
            same = result["losses"] == bare[rank]["losses"]
            count.add("losses identical" if same else "losses differ")
            if not same:
                count.fail("%s: losses of rank %d differ from the bare run's" % (shape, rank))
    if acts.waits:
        waits, backward = sorted(acts.waits), results[0]["backward"]
        with count.lock:
            count.waits.setdefault(shape, []).append((waits[len(waits) // 2], backward[len(backward) // 2],
                                                      backward[-1]))


def blocked(o, count, home, name):
    """A main that blocks is asked; the answer must come within 1 s."""
    env = dict(os.environ, MEMGAUGE_HOME=os.path.join(home, "blocked"))
    session = tempfile.mkdtemp(dir=home) + "/s"
    child = subprocess.Popen([o.memgauge, "run", "--quiet", "--session", session, "--", o.python, "-c",
                              BLOCKER % BLOCKED[name]], env=env,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        child.stdout.readline()
        time.sleep(0.5)
        for code, value in (("secret, model.training", "(42, True)"), ("model.zero_grad(set_to_none=True)", None),
                            ("model.weight.sum().item() * 0 + 1", "1.0")):
            done = subprocess.run([o.memgauge, "eval", "--session", session, "--json", code], env=env,
                                  stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
            try:
                answer = json.loads(done.stdout)["processes"][0]
            except ValueError:
                count.fail("blocked in %s: %s" % (name, done.stderr.decode()))
                continue
            good = answer["outcome"] == "ok" and answer["value"] == value and answer["place"] == "idle"
            count.add("blocked mains asked")
            count.add("blocked mains answered within 1 s", good and answer["waited"] < 1)
            if not good:
                count.fail("blocked in %s: %r: %s" % (name, code, answer))
    finally:
        for pid in children(child.pid) + [child.pid]:     # its collector too
            for below in children(pid) + [pid]:
                os.kill(below, signal.SIGKILL)
        child.wait()
        child.stdin.close(), child.stdout.close()


def references(o, home):
    bare = {}
    for shape in o.shapes:
        training = Training(o, shape, home, False, o.steps, 0)
        try:
            for p in training.processes:
                p.wait()
            bare[shape] = training.results()
        finally:
            training.remove()
    return bare


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seconds", type=float, default=300)
    p.add_argument("--side-by-side", type=int, default=3)
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--life", type=float, default=30, help="s of a training that is changed")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--shapes", type=lambda s: s.split(","), default=SHAPES)
    p.add_argument("--blocked", type=lambda s: s.split(","), default=sorted(BLOCKED))
    p.add_argument("--memgauge", default=os.path.join(ROOT, "bin", "memgauge"))
    p.add_argument("--python", default=sys.executable)
    o = p.parse_args()
    random.seed(o.seed)
    home, count = tempfile.mkdtemp(prefix="memgauge-stress-"), Count()
    began = time.monotonic()
    try:
        bare = references(o, home)
        for name in o.blocked:
            blocked(o, count, home, name)
        end, numbers = time.monotonic() + o.seconds, iter(range(1 << 30))

        def lane():
            while time.monotonic() < end:
                one_training(o, count, home, next(numbers), bare, end)

        lanes = [threading.Thread(target=lane) for _ in range(o.side_by_side)]
        for t in lanes:
            t.start()
        for t in lanes:
            t.join()
    finally:
        shutil.rmtree(home, ignore_errors=True)
    ms = {shape: ["p50 %.1f, C++ p50 %.1f, longest %.1f" % tuple(1e3 * v for v in row) for row in rows]
          for shape, rows in count.waits.items()}
    count.of.setdefault("deaths", 0)
    print(json.dumps({"seconds": round(time.monotonic() - began), "counts": dict(sorted(count.of.items())),
                      "wait for the main thread, ms": ms,
                      "wrong": count.wrong}, indent=1, ensure_ascii=False))
    return 1 if count.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
