"""Steps counted and modules traced in real trainings, of this Python's torch."""
import unittest

from ringfile import S
from torchrun import TorchCase


class Counting(TorchCase):
    def numbers(self, run, steps):
        """Every step once, in order."""
        self.assertEqual(run.counted, steps)
        last = 0
        for record in run.steps:
            last += record.steps
            self.assertEqual(record.step, last)

    def usual(self, run):
        """Median length of a step, ns: a busy machine makes short ones long."""
        return sorted(s.duration / s.steps for s in run.steps[1:])[len(run.steps) // 2]

    def test_plain(self):
        run = self.run_code("m = net(); train(m, torch.optim.SGD(m.parameters(), .01), 300)", fresh=True)
        self.numbers(run, 300)
        self.assertEqual(run.steps[0].duration, S.NOT_TAKEN)
        self.assertTrue(all(s.duration < 10**10 for s in run.steps[1:]))
        self.assertTrue(any(s.steps > 1 for s in run.steps) or self.usual(run) > 500_000,
                        "steps of 0.2 ms share records")
        sampled = [s for s in run.steps if s.sampled]
        self.assertGreaterEqual(len(sampled), 6)
        self.assertEqual({t.step for t in run.trace}, {s.step for s in sampled})

    def test_accumulation_is_one_step(self):
        run = self.run_code("m = net(); train(m, torch.optim.SGD(m.parameters(), .01), 40, micro=4)")
        self.numbers(run, 40)
        for step in {t.step for t in run.trace}:
            self.assertEqual(sum(1 for t in run.trace if t.step == step and t.root and t.stage == 0), 4)

    def test_gan(self):
        run = self.run_code("""
g, d = net(), net(); og, od = (torch.optim.Adam(m.parameters()) for m in (g, d))
for _ in range(100):
    d(g(torch.ones(2, 8))).sum().backward(); od.step(); od.zero_grad()
    d(g(torch.ones(2, 8))).sum().backward(); og.step(); og.zero_grad()
""")
        self.assertLessEqual(abs(run.counted - 100), 2)     # the first one, before the other optimizer was seen
        step = [t.step for t in run.trace if t.step > 4][0]
        self.assertEqual([s for s, _ in run.rows(step) if s >= 2], [2, 3, 2, 3])

    def test_one_training_after_another(self):
        run = self.run_code("""
kept = []
for _ in range(5):
    m = net(); o = torch.optim.SGD(m.parameters(), .01); kept.append(o); train(m, o, 40)
""")
        self.numbers(run, 200)

    def test_short_trainings(self):
        run = self.run_code("""
def training(steps):
    m = net(); train(m, torch.optim.Adam(m.parameters(), .01), steps)
for steps in (3, 17, 5, 24, 2, 9): training(steps)
""")
        self.assertEqual(run.counted, 60)

    def test_subclass_that_calls_super(self):
        run = self.run_code("""
class Mine(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)
m = net(); train(m, Mine(m.parameters(), .01), 60)
""")
        self.assertEqual(run.counted, 60)

    def test_closure(self):
        run = self.run_code("""
m = net(); o = torch.optim.LBFGS(m.parameters(), max_iter=3)
def closure():
    o.zero_grad(); l = m(torch.ones(2, 8)).square().sum(); l.backward(); return l
for _ in range(20): o.step(closure)
""")
        self.assertEqual(run.counted, 20)

    def test_without_modules(self):
        run = self.run_code("""
w = torch.ones(4, requires_grad=True); o = torch.optim.SGD([w], .01)
for _ in range(50): (w * w).sum().backward(); o.step(); o.zero_grad()
""")
        self.numbers(run, 50)

    def test_switched_off(self):
        run = self.run_code("m = net(); train(m, torch.optim.SGD(m.parameters(), .01), 50)", MEMGAUGE_TRACE="off")
        self.numbers(run, 50)
        self.assertEqual(run.trace, [])

    def test_everything(self):
        run = self.run_code("m = net(); train(m, torch.optim.SGD(m.parameters(), .01), 20)", MEMGAUGE_TRACE="all")
        self.numbers(run, 20)
        self.assertEqual({t.step for t in run.trace}, set(range(1, 21)))
        self.assertTrue(all(s.sampled and s.steps == 1 for s in run.steps))

    def test_fork(self):
        self.run_code("""
m = net(); o = torch.optim.SGD(m.parameters(), .01); train(m, o, 30)
pid = os.fork()
train(m, o, 20 if pid else 7)
if pid: os.waitpid(pid, 0)
else:
    observer.flush(); os._exit(0)
""", quiet=False)
        self.assertEqual(sorted(run.counted for run in self.runs.values()), [7, 50])
        child = min(self.runs.values(), key=lambda run: run.counted)
        self.assertEqual(child.steps[0].step, 1)
        self.assertTrue(child.trace)


class Modules(TorchCase):
    def test_names_and_order(self):
        run = self.run_code("""
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = net(); self.head = nn.Linear(8, 8)
    def forward(self, x): return self.head(self.body(self.body(x)))
m = Model(); o = torch.optim.SGD(m.parameters(), .01)
for _ in range(10):
    nn.MSELoss()(m(torch.ones(2, 8)), torch.zeros(2, 8)).backward(); o.step()
""")
        body = [(0, "body"), (0, "body.0"), (1, "body.0"), (0, "body.1"), (1, "body.1"), (0, "body.2"), (1, "body.2"),
                (1, "body")]
        loss, optimizer = [(0, "MSELoss"), (1, "MSELoss")], [(2, "SGD"), (3, "SGD")]
        self.assertEqual(run.rows(5), [(0, "Model")] + 2 * body + [(0, "head"), (1, "head"), (1, "Model")] + loss
                         + optimizer)
        self.assertEqual({t.module for t in run.trace if t.root}, {"Model"})
        self.assertEqual({t.module for t in run.trace if t.optimizer}, {"SGD"})
        for t in run.trace:
            self.assertEqual(t.device, -1)
            self.assertTrue(0 < t.allocated <= t.cached)
        times = [t.ts for t in run.trace]
        self.assertEqual(times, sorted(times))

    def test_memory_of_a_row(self):
        run = self.run_code("""
class Grow(nn.Module):
    def __init__(self): super().__init__(); self.p = nn.Linear(8, 8); self.kept = []
    def forward(self, x):
        self.kept.append(torch.ones(4 << 20)); return self.p(x)
m = nn.Sequential(Grow()); train(m, torch.optim.SGD(m.parameters(), .01), 6)
""", MEMGAUGE_TRACE="all")
        rows = [t for t in run.trace if t.module == "0" and t.step > 1]
        for before, after in zip(rows[::2], rows[1::2]):
            self.assertAlmostEqual((after.allocated - before.allocated) / 2**20, 16, delta=2)

    def test_models_built_late(self):
        run = self.run_code("""
m = net(); train(m, torch.optim.SGD(m.parameters(), .01), 20)
class Late(nn.Sequential): pass
late = Late(net(), nn.Linear(8, 8)); o = torch.optim.SGD(late.parameters(), .01); train(late, o, 1)
late.add_module("added", nn.Linear(8, 8)); train(late, o, 5)
""", MEMGAUGE_TRACE="all")
        self.assertIn((0, "0.2"), run.rows(23))
        self.assertIn((0, "Late"), run.rows(23))
        self.assertIn((1, "added"), run.rows(24))

    def test_error_in_forward_is_the_users(self):
        run = self.run_code("""
class Bad(nn.Module):
    def forward(self, x): raise KeyError("mine")
m = nn.Sequential(nn.Linear(8, 8), Bad()); o = torch.optim.SGD(m.parameters(), .01)
for _ in range(3):
    try: m(torch.ones(2, 8))
    except KeyError as e: seen = e.args
    m[0](torch.ones(2, 8)).sum().backward(); o.step()
say(seen=seen)
""", MEMGAUGE_TRACE="all")
        self.assertEqual(run.said(), {"seen": ["mine"]})
        self.assertIn((1, "0"), run.rows(3))
        self.assertNotIn((1, "Sequential"), run.rows(3))

    def test_copies_and_pickles_carry_nothing(self):
        run = self.run_code("""
import copy, pickle
m = net(); o = torch.optim.SGD(m.parameters(), .01); train(m, o, 3)
say(clean=b"memgauge" not in pickle.dumps(m), hooks=len(m._forward_hooks) + len(copy.deepcopy(m)._forward_pre_hooks),
    scripted=torch.jit.script(m)(torch.ones(2, 8)).shape, traced=torch.jit.trace(m, torch.ones(2, 8))(torch.ones(2, 8)).shape)
""", MEMGAUGE_TRACE="all", quiet=False)
        self.assertEqual(run.said(), {"clean": True, "hooks": 0, "scripted": [2, 8], "traced": [2, 8]})

    def test_scripted_model(self):
        run = self.run_code("m = torch.jit.script(net()); train(m, torch.optim.SGD(m.parameters(), .01), 30)",
                            quiet=False)
        self.assertEqual(run.counted, 30)

    def test_nothing_is_kept_alive(self):
        run = self.run_code("""
import weakref, gc
m = net(); o = torch.optim.SGD(m.parameters(), .01); train(m, o, 10)
seen = [weakref.ref(x) for x in (m, m[0], m[0].weight, o)]
del m, o; gc.collect()
say(dead=[r() is None for r in seen])
""", MEMGAUGE_TRACE="all")
        self.assertEqual(run.said(), {"dead": [True] * 4})

    def test_results_are_the_same(self):
        code = """
m = nn.Sequential(nn.Linear(8, 8), nn.Dropout(.5), nn.Linear(8, 8)); train(m, torch.optim.Adam(m.parameters(), .01), 50)
say(sum=float(sum(p.detach().double().sum() for p in m.parameters())), rng=torch.initial_seed(), grad=torch.is_grad_enabled(),
    cuda=torch.cuda.is_initialized())
"""
        plain, traced = (self.run_code(code, MEMGAUGE_TRACE=trace).said() for trace in ("off", "all"))
        self.assertEqual(plain, traced)
        self.assertFalse(traced["cuda"])


class ComingOff(TorchCase):
    def test_everything_is_put_back(self):
        run = self.run_code("""
import torch.optim.sgd
module = vars(sys.modules["torch.nn.modules.module"])
optimizers = vars(sys.modules["torch.optim.optimizer"])
def state():
    return [torch.nn.Module.__call__, torch.nn.Module.__call__.__code__, torch.optim.Optimizer._optimizer_step_code,
            torch.optim.SGD.step.__code__, sorted(module), sorted(optimizers)]
m = net(); o = torch.optim.SGD(m.parameters(), .01)
observer.uninstall(); first = state()
observer.install(torch); train(m, o, 10); during = state()
observer.uninstall(); last = state()
train(m, o, 5)
say(same=[a is b or a == b for a, b in zip(first, last)], hooked=during[2] is not last[2])
""", MEMGAUGE_TRACE="all")
        self.assertEqual(run.said(), {"same": [True] * 6, "hooked": True})
        self.assertEqual(run.counted, 10)

    def test_from_another_thread_while_it_trains(self):
        run = self.run_code("""
import threading
sys.setswitchinterval(1e-5)
m = net(); o = torch.optim.SGD(m.parameters(), .01); train(m, o, 5); running = True; failed = []
def toggle():
    global running
    for _ in range(200):
        observer.uninstall(); observer.install(torch)
    running = False
t = threading.Thread(target=toggle); t.start()
while running:
    try: train(m, o, 1)
    except Exception as e: failed.append(repr(e))
t.join(); observer.uninstall(); train(m, o, 3)
say(failed=failed[:3])
""", MEMGAUGE_TRACE="all", quiet=False)
        self.assertEqual(run.said(), {"failed": []})

    def test_off_and_on_while_running(self):
        run = self.run_code("""
m = net(); o = torch.optim.SGD(m.parameters(), .01); train(m, o, 10)
life.configure("trace", "off"); train(m, o, 10)
life.configure("trace", "all"); train(m, o, 10)
""")
        self.assertEqual(run.counted, 30)
        traced = {t.step for t in run.trace}
        self.assertFalse(traced & set(range(12, 21)))
        self.assertTrue(set(range(24, 31)) <= traced)

    def test_profiler(self):
        run = self.run_code("""
from torch.profiler import profile
m = net(); o = torch.optim.SGD(m.parameters(), .01); train(m, o, 5)
with profile(with_stack=True, with_modules=True) as p: train(m, o, 10)
say(steps=sum(e.count for e in p.key_averages() if e.key == "Optimizer.step#SGD.step"))
""", quiet=False)
        self.assertEqual(run.counted, 15)
        self.assertEqual(run.said()["steps"], 10)


class Inference(TorchCase):
    def test_forwards_are_counted(self):
        run = self.run_code("""
m = net().eval()
with torch.no_grad():
    for _ in range(500): m(torch.ones(2, 8))
""")
        self.assertTrue(all(s.inference for s in run.steps))
        self.assertEqual(sum(s.steps for s in run.steps), 500)
        self.assertIn((0, "0"), [(t.stage, t.module) for t in run.trace])

    def test_forwards_are_counted_after_a_ring_was_busy(self):
        """The control thread may be opening one of its own."""
        run = self.run_code("""
from memgauge._agent import recording
ring, refused = recording.ring, []
def busy(large=False, **more):
    if large and len(refused) < 3:
        return refused.append(1)
    return ring(large=large, **more)
recording.ring = busy
m = net().eval()
for _ in range(100): m(torch.ones(2, 8))
say(refused=len(refused))
""")
        self.assertEqual((run.said()["refused"], sum(s.steps for s in run.steps if s.inference)), (3, 100))

    def test_evaluation_before_training(self):
        run = self.run_code("""
m = net()
for _ in range(40): m(torch.ones(2, 8))
train(m, torch.optim.SGD(m.parameters(), .01), 30)
""")
        # the training's first forward is one yet
        self.assertEqual(sum(s.steps for s in run.steps if s.inference), 41)
        training = [s for s in run.steps if not s.inference]
        self.assertEqual((training[0].step, training[-1].step, run.counted), (training[0].steps, 30, 30))

    def test_loader_workers_open_no_large_ring(self):
        run = self.run_code("""
class Data(torch.utils.data.Dataset):
    def __init__(self): self.transform = nn.Sequential(nn.Flatten(0), nn.ReLU())
    def __len__(self): return 80
    def __getitem__(self, i): return self.transform(torch.ones(2, 4))
m = net(); o = torch.optim.SGD(m.parameters(), .01)
for x in torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=2):
    m(x).sum().backward(); o.step()
""", quiet=False)
        self.assertEqual(run.counted, 40)
        self.assertEqual(len([r for r in self.runs.values() if r.steps or r.trace]), 1)

    def test_threads_other_than_the_training_one(self):
        run = self.run_code("""
from concurrent.futures import ThreadPoolExecutor
m = net(); o = torch.optim.SGD(m.parameters(), .01); other = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
train(m, o, 3)
with ThreadPoolExecutor(2) as pool:
    jobs = [pool.submit(lambda: [other(torch.ones(2, 8)) for _ in range(200)]) for _ in range(2)]
    train(m, o, 50)
    [j.result() for j in jobs]
""", MEMGAUGE_TRACE="all", quiet=False)
        self.assertEqual(run.counted, 53)
        self.assertNotIn("Tanh", {t.module for t in run.trace})
        self.assertEqual({t.module for t in run.trace if t.root}, {"Sequential"})
        self.assertTrue(all(sum(1 for t in run.trace if t.step == s and t.root and not t.stage) == 1
                            for s in range(4, 54)))

    def test_import_alone_opens_no_large_ring(self):
        self.run_code("torch.nn.ReLU()(torch.ones(2)); nn.Linear(2, 2)(torch.ones(2))")
        self.assertEqual([run.steps for run in self.runs.values()], [[] for _ in self.runs])


if __name__ == "__main__":
    unittest.main()
