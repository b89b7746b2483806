"""The path of CUDA's counters, over a fake of them; real modules and optimizers."""
import unittest

from torchrun import TorchCase

FAKE = """
from fakecuda import FakeCuda
observer.uninstall(); fake = FakeCuda(torch); observer.install(torch)
from memgauge._agent.observe import modules
modules._device = lambda m: getattr(m, "place", None)      # parameters on the CPU that say they are elsewhere
modules._first_device = lambda m: 0
class Layer(nn.Linear):
    def __init__(self, place): super().__init__(8, 8); self.place = place
    def forward(self, x):
        fake.allocate(1 << 20, self.place); return super().forward(x)
m = nn.Sequential(Layer(0), nn.ReLU(), Layer(1)); o = torch.optim.SGD(m.parameters(), .01)
"""


class Cuda(TorchCase):
    def test_rows_and_devices(self):
        run = self.run_code(FAKE + "train(m, o, 20)", MEMGAUGE_TRACE="all")
        rows = [t for t in run.trace if t.step == 10]
        self.assertEqual([(t.module, t.device) for t in rows],
                         [("Sequential", 0), ("0", 0), ("0", 0), ("1", 0), ("1", 0), ("2", 1), ("2", 1),
                          ("Sequential", 0),
                          ("SGD", 0), ("SGD", 0)])
        self.assertEqual(rows[1].allocated, 9 << 20)
        self.assertEqual((rows[2].allocated, rows[2].max_allocated, rows[2].cached), (10 << 20,) * 3)
        self.assertEqual([d[2:] for d in run.devices if d[3] == 10],
                         [(0, 10, 0) + (10 << 20,) * 4, (1, 10, 0) + (10 << 20,) * 4])

    def test_not_before_the_program_itself(self):
        run = self.run_code(FAKE + "fake.initialized = False; train(m, o, 20); say(reads=fake.reads)",
                            MEMGAUGE_TRACE="all")
        self.assertEqual(run.said(), {"reads": 0})
        self.assertEqual({t.device for t in run.trace}, {-1})

    def test_hands_off_while_a_graph_is_captured(self):
        run = self.run_code(FAKE + """
train(m, o, 5); fake.capturing = True; train(m, o, 1); fake.capturing = False; train(m, o, 5)
say(reads=fake.reads_in_capture)
""", MEMGAUGE_TRACE="all")
        self.assertEqual(run.said(), {"reads": 0})
        self.assertEqual(run.counted, 11)
        traced = {t.step for t in run.trace}
        self.assertLessEqual(traced, set(range(1, 12)) - {6})
        # a step at whose end the control thread is at it is not looked at
        self.assertTrue(len(traced & set(range(1, 6))) >= 3 and len(traced & set(range(7, 12))) >= 3, traced)

    def test_failed_allocations_that_were_caught(self):
        run = self.run_code(FAKE + "train(m, o, 10); fake.ooms = 3; train(m, o, 10)", MEMGAUGE_TRACE="all")
        self.assertEqual([(e[1], e[2:4]) for e in run.events if e[0] == "oom"],
                         [("cuda:%d: an allocation failed and the program went on (3 so far)" % d, (0, d))
                          for d in (0, 1)])
        # the second comes too soon
        self.assertEqual([e[2:4] for e in run.events if e[0] == "oom_hole"], [(7 << 20, 0)])


if __name__ == "__main__":
    unittest.main()
