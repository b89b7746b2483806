"""Training by hand: runs of autograd's engine are its steps. Skipped without torch."""
import importlib.util
import unittest

from test_learners import Case

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


@unittest.skipUnless(importlib.util.find_spec("torch"), "needs torch")
class ByHand(Case):
    def test_runs_are_steps(self):
        last, told, _ = self.steps(LOOP + "run(300)\n")
        self.assertEqual(told, ["runs of autograd, since no optimizer steps"])
        self.assertTrue(200 <= last <= 300, last)

    def test_an_optimizer_that_comes_late_counts(self):
        last, told, out = self.steps(LOOP + """
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
        _, _, out = self.steps(LOOP + """
import traceback
run(100)
try:
    torch.autograd.grad(torch.ones(()), [w])
except RuntimeError as e:
    print(any("/_agent/" in f.filename for f in traceback.extract_tb(e.__traceback__)))
""")
        self.assertEqual(out, ["False"])


del Case

if __name__ == "__main__":
    unittest.main()
