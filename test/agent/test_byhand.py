"""Training by hand with this Python's torch: runs of autograd's engine are its steps, or the program's own word is."""
import unittest

import torchrun

LOOP = """
import torch
engine = torch.autograd.Variable._execution_engine
w = torch.zeros(3, requires_grad=True)
def run(n):
    for _ in range(n):
        (g,) = torch.autograd.grad((w * w).sum(), [w])
        with torch.no_grad():
            w.sub_(0.1 * g)
"""

TRAINING = """
import memgauge, torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
def train():
    optimizer.zero_grad()
    model(torch.ones(4)).sum().backward()
    optimizer.step()
"""


class Case(torchrun.TorchCase):
    def steps(self, code):
        """Runs it; returns the number of the last step that a ring has, and the texts of the `steps` events."""
        run = self.run_code(code, preamble=torchrun.START)
        self.out = run.out.split()
        return run.steps[-1].step, [event[1] for event in run.events if event[0] == "steps"]


class ByHand(Case):
    def test_runs_are_steps(self):
        last, told = self.steps(LOOP + "run(300)\n")
        self.assertEqual(told, ["runs of autograd, since no optimizer steps"])
        self.assertTrue(200 <= last <= 300, last)

    def test_an_optimizer_that_comes_late_counts(self):
        last, told = self.steps(LOOP + """
o = torch.optim.SGD([w], 0.1)
for _ in range(40):
    for _ in range(4):
        (w * w).sum().backward()
    o.step()
print(torch.autograd.Variable._execution_engine is not engine)
run(200)
""")
        self.assertEqual(told, [])
        self.assertTrue(38 <= last <= 40, last)

    def test_a_run_that_fails_has_no_frame_of_ours(self):
        self.steps(LOOP + """
import traceback
run(100)
try:
    torch.autograd.grad(torch.ones(()), [w])
except RuntimeError as e:
    print(any("/_agent/" in f.filename for f in traceback.extract_tb(e.__traceback__)))
""")
        self.assertEqual(self.out, ["False"])


class Told(Case):
    """The program calls memgauge.step()."""

    def test_torch_goes_on_where_the_loop_was(self):
        last, told = self.steps("import memgauge\nfor i in range(150):\n    memgauge.step()\n" + TRAINING
                                + "for i in range(150):\n    train()\n")
        self.assertEqual(told, ["calls of memgauge.step()"])
        self.assertAlmostEqual(last, 300, delta=3)

    def test_both_in_an_iteration_are_one_step(self):
        last, told = self.steps(TRAINING + "for i in range(200):\n    train()\n    memgauge.step()\n")
        self.assertAlmostEqual(last, 200, delta=3)

    def test_a_manual_training_counts_by_the_programs_word(self):
        last, told = self.steps(TRAINING + """
for i in range(200):
    model(torch.ones(4)).sum().backward()
    memgauge.step()
""")
        self.assertEqual(told, ["calls of memgauge.step()"])
        self.assertAlmostEqual(last, 200, delta=3)


del Case

if __name__ == "__main__":
    unittest.main()
