"""The census of a training with this Python's torch: holders, lines, graphs, roles, ages; nothing unpacked, nothing
kept."""
import threading
import unittest
import weakref

from census_case import line_of, take
from lane import times

from memgauge._agent.census import census

try:
    import torch
    from torch import nn
    torch.set_num_threads(1)    # more would wait for each other by spinning, on cores that the census has to share
except ImportError:
    torch = None

all_losses = []
total_loss = 0
mask_cache, changing = {}, {}


def lines(mark):
    return line_of(__file__, mark)


@unittest.skipIf(torch is None, "no torch in this Python")
class Training(unittest.TestCase):
    def setUp(self):
        global total_loss
        torch.manual_seed(0)
        self.memory = census.Memory()
        self.model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters())
        all_losses.clear()
        mask_cache.clear()
        total_loss = 0

    def step(self):
        loss = self.model(torch.randn(8, 16)).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def twice(self, work, first=10, then=5):
        """The census after some steps, and after some more."""
        for _ in range(first):
            work()
        take(self.memory)
        for _ in range(then):
            work()
        return take(self.memory)

    def group(self, taken, end, role="tensor"):
        found = [g for g in taken.tensors if g["holder"].endswith(end) and g["role"] == role]
        self.assertTrue(found, [(g["role"], g["holder"]) for g in taken.tensors])
        return found[0]

    def test_beside_a_training(self):
        """Censuses of everything, one after the other, while the main thread is in C++ most of the time: losses stay as
        they are."""
        def train(steps, ended=lambda: True):
            torch.manual_seed(0)
            model = nn.Sequential(*[m for _ in range(4) for m in (nn.Linear(256, 256), nn.ReLU(inplace=True))])
            optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.01), []
            while len(losses) < steps or not ended():
                optimizer.zero_grad(set_to_none=True)
                loss = model(torch.ones(64, 256)).pow(2).mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                all_losses[:] = all_losses[-20:] + [loss]
            return losses

        taken, censuses = [], times(2, 5)

        def census_thread():
            for _ in range(censuses):
                taken.append(take(self.memory, deep=True))

        thread = threading.Thread(target=census_thread)
        thread.start()
        losses = train(100, lambda: not thread.is_alive())
        thread.join()
        self.assertEqual(len(taken), censuses)
        self.assertEqual(losses, train(len(losses)))
        self.assertEqual([g for t in taken for g in t.tensors if g["role"] == "gradient"], [])

    def test_losses_with_their_graphs(self):
        def work():
            all_losses.append(self.step())    # loss
        taken = self.twice(work)
        g = self.group(taken, __name__ + ".all_losses[*]")
        self.assertEqual((g["count"], g["fresh"], g["oldest"], g["site"]), (15, 5, 1, lines("loss")))
        graph = taken.of("graph", __name__ + ".all_losses[*]")[0]
        self.assertEqual((graph["count"], graph["site"]), (15, lines("loss")))
        self.assertGreater(graph["delta"], 0)

    def test_a_sum_that_keeps_every_graph(self):
        def work():
            global total_loss
            total_loss = total_loss + self.step()    # sum
        first = self.twice(work).of("graph", __name__ + ".total_loss")[0]
        for _ in range(20):
            work()
        then = take(self.memory).of("graph", __name__ + ".total_loss")[0]
        self.assertEqual((then["delta"], then["length"] - first["length"]), (20, 20), then)
        self.assertEqual(then["site"], lines("sum"))

    def test_outputs_on_a_trainer(self):
        class Trainer:
            def __init__(self):
                self.outputs = []

            def training_step(self, step):
                self.outputs.append({"loss": step().detach(), "logits": torch.zeros(64, 10)})    # outputs
        trainer = Trainer()
        taken = self.twice(lambda: trainer.training_step(self.step))
        g = self.group(taken, "trainer.outputs[*]['logits']")
        self.assertEqual((g["count"], g["bytes"], g["shape"], g["dtype"], g["device"], g["site"]),
                         (15, 15 * 64 * 10 * 4, "(64, 10)", "float32", "cpu", lines("outputs")))
        self.assertEqual(taken.holder("trainer.outputs")["delta"], 5)

    def test_a_cache_that_never_hits(self):
        def work():
            mask_cache[len(mask_cache)] = torch.ones(len(mask_cache) + 1, 7)    # cache
        g = self.group(self.twice(work, 40, 20), ".mask_cache[*]")
        self.assertEqual((g["count"], g["fresh"], g["site"]), (60, 20, lines("cache")))
        self.assertTrue(g["shape"].endswith(" …"), g)
        self.assertEqual(g["bytes"], sum(n * 7 * 4 for n in range(1, 61)))

    def test_hooks_that_pile_up_and_what_they_keep(self):
        seen = []

        def add():
            self.model[0].register_forward_hook(lambda m, i, o: seen.append(o.detach()))    # hook
            self.model(torch.randn(2, 16))
        taken = self.twice(add)
        row = [r for r in taken.of("hooks") if r["holder"].endswith("model.0._forward_hooks")][0]
        self.assertEqual((row["length"], row["delta"], row["site"]), (15, 5, lines("hook")))
        g = self.group(taken, "seen[*]")
        self.assertEqual((g["count"], g["site"]), (sum(range(16)), lines("hook")))

    def test_tensors_behind_stored_exceptions(self):
        errors = []

        def fail():
            activation = torch.zeros(1000)
            raise RuntimeError(activation.shape)

        def work():
            try:
                fail()
            except RuntimeError as error:
                errors.append(error)    # error
        taken = self.twice(work)
        g = self.group(taken, " fail().activation")
        self.assertEqual((g["count"], g["bytes"]), (15, 15 * 4000))
        row = taken.of("traceback")[0]
        self.assertEqual((row["count"], row["site"]), (15, lines("error")))
        self.assertGreaterEqual(row["bytes"], 15 * 4000)

    def test_roles_and_storages(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.BatchNorm1d(16)

            def forward(self, x):
                return self.body(x)
        net, views = Net(), torch.zeros(1000)
        views = [views[i:i + 10] for i in range(20)]
        for _ in range(2):
            self.step()
        taken = take(self.memory)
        size = 4 * sum(p.numel() for p in self.model.parameters())
        self.assertEqual(self.group(taken, ".model", "parameter")["bytes"], size)
        # reading them would race with backward
        self.assertEqual([g for g in taken.tensors if g["role"] == "gradient"], [])
        self.assertEqual(sum(g["bytes"] for g in taken.tensors if g["holder"].endswith(".net")
                             and g["role"] == "buffer"), 2 * 16 * 4 + 8)
        states = [g for g in taken.tensors if g["role"] == "optimizer"]
        self.assertGreaterEqual(sum(g["bytes"] for g in states), 2 * size)
        self.assertTrue(all(g["holder"].endswith(".optimizer") for g in states), states)
        g = self.group(taken, "views[*]")
        self.assertEqual((g["count"], g["bytes"]), (20, 4000))    # one storage
        del net

    def test_no_code_of_a_tensor_class_runs(self):
        called = []

        class Loud(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                called.append(func)
                return super().__torch_function__(func, types, args, kwargs or {})

            def __repr__(self):
                called.append("repr")
                return "loud"
            shape = property(lambda self: called.append("shape"))
        loud = [torch.zeros(5).as_subclass(Loud) for _ in range(12)]
        called.clear()
        taken = take(self.memory)
        self.assertEqual(called, [])
        self.assertEqual(self.group(taken, "loud[*]")["bytes"], 12 * 20)

    def test_saved_tensors_are_not_unpacked(self):
        unpacked = []

        def unpack(x):
            unpacked.append(x)
            return x
        with torch.autograd.graph.saved_tensors_hooks(lambda x: x, unpack):
            kept = [self.model(torch.randn(4, 16)).mean() for _ in range(10)]
        unpacked.clear()
        self.assertTrue(take(self.memory).of("graph"))
        self.assertEqual(unpacked, [])
        del kept

    def test_custom_functions(self):
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.kept = x.shape
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                return grad * 2
        kept = [Double.apply(self.model(torch.randn(4, 16))) for _ in range(10)]
        row = [r for r in take(self.memory).of("graph") if r["holder"].endswith("kept[*]")][0]
        self.assertEqual(row["count"], 10)
        del kept

    def test_nothing_is_kept(self):
        """Tensors that the program drops between two slices are gone at once."""
        alive = []

        def drop():
            refs = [weakref.ref(t) for t in all_losses] + [weakref.ref(t) for t in changing.values()]
            all_losses.clear()
            changing.clear()
            alive.append(sum(r() is not None for r in refs))
            all_losses.extend(self.model(torch.ones(2, 16)).sum() for _ in range(30))
            changing.update((i, torch.zeros(3)) for i in range(30))
        take(self.memory, between=drop)
        self.assertGreater(len(alive), 3)
        self.assertEqual(set(alive), {0})

    def test_sparse_and_other_odd_tensors(self):
        odd = [torch.eye(3).to_sparse(), torch.zeros(2, device="meta"),
               torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.quint8)]
        taken = take(self.memory)
        self.assertEqual(sum(g["count"] for g in taken.tensors if g["holder"].endswith("odd[*]")), 3)
        del odd


if __name__ == "__main__":
    unittest.main()
