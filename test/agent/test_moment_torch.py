"""Evals against a real training on the CPU: never in the middle of a backward pass, of an optimizer's step, or of a
step."""
import importlib.util
import os
import unittest

import client
from client import PYTHON, Process
from lane import times

TRAINER = """
import os, sys, time
sys.path.insert(0, os.environ["DIR"])
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
torch.set_num_threads(1)
model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(4)])
optimizer = torch.optim.Adam(model.parameters())
slow = %r
def on_grad(grad):
    if slow: time.sleep(0.004)       # the main thread waits, idly, in the middle of C++
    return grad
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, grad):
        if slow: time.sleep(0.004)
        return grad * 2
def recomputed(x):
    for layer in model: x = layer(x)
    return x
def closure():
    optimizer.zero_grad()
    x = torch.ones(64, 256, requires_grad=True)
    y = checkpoint(recomputed, x, use_reentrant=True) if turn %% 2 else recomputed(x)
    loss = Double.apply(y).pow(2).mean()
    loss.backward()
    return loss
for p in model.parameters(): p.register_hook(on_grad)
turn = 0
while not os.path.exists("stop"):
    if turn %% 3: closure(); optimizer.step()
    else: optimizer.step(closure)
    turn += 1
    if turn == 3: print("ready", flush=True)
print("turns", turn)
"""

WHERE = """
import sys, threading
frame, names = sys._current_frames()[threading.main_thread().ident], []
while frame is not None:
    names.append(frame.f_code.co_name)
    frame = frame.f_back
i = names.index("_engine_run_backward") if "_engine_run_backward" in names else 0
[n for n in names if n in ("on_grad", "apply", "adam")] + names[:i][-1:] * (names[i - 1] != "__bool__")
"""


class Backward(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if importlib.util.find_spec("torch") is None:
            if "torch" in os.environ.get("MEMGAUGE_REQUIRE", "").split(","):
                raise ImportError("no torch in this Python, though MEMGAUGE_REQUIRE names it")
            raise unittest.SkipTest("no torch in this Python")

    def process(self, slow=False):
        process = Process(TRAINER % slow, python=PYTHON)
        self.addCleanup(process.close)
        return process

    def test_hooks_that_wait(self):
        """A main thread that waits in Python called from C++ is not taken for an idle one."""
        c = self.process(slow=True).client()
        for _ in range(times(10, 30)):
            answer = c.eval(WHERE)
            self.assertEqual((answer.value, answer.outcome, answer.place), ("[]", client.FINE, client.MAIN), answer)

    def test_gradients_taken_away(self):
        """Beside the main thread, one in three of such codes ended the process by SIGSEGV. Gradient mode and graph are
        the trainer's own: none of the codes leaves anything."""
        process = self.process()
        c = process.client()
        for turn in range(times(30, 150)):
            code = ("model.zero_grad(set_to_none=True)", "for p in model.parameters(): p.grad = None",
                    "optimizer.state.clear()",
                    "for p in model.parameters(): p.grad = torch.zeros_like(p)",
                    "[p.grad for p in model.parameters()]; None")[turn % 5]
            answer = c.eval(code)
            self.assertEqual((answer.value, answer.exception, answer.outcome, answer.place),
                             ("", "", client.FINE, client.MAIN), answer)
        self.assertEqual(process.eval("torch.set_grad_enabled(False); torch.is_grad_enabled()").value, "False")
        self.assertEqual(process.eval("torch.is_grad_enabled()").value, "True")
        self.assertEqual(process.stop(), 0, process.printed())

    def test_a_training_on_another_thread(self):
        """The main thread waits for it: nothing may run beside its C++, and it ends steps that only the observer
        sees."""
        program = TRAINER % False
        head, body = program.split("turn = 0\n")
        body = "\n".join("        " + line for line in body.splitlines())
        program = head + "import threading\nturn = 0\ndef train():\n    global turn\n    if True:\n" + body + "\nt = threading.Thread(target=train); t.start(); t.join()\n"
        process = Process(program, python=PYTHON)
        self.addCleanup(process.close)
        answer = process.eval("model.zero_grad(set_to_none=True)", 1)
        self.assertIn(answer.outcome, (client.TIMEOUT, client.FINE))
        if answer.outcome == client.TIMEOUT:
            self.assertIn("another thread", answer.exception)
        for _ in range(times(2, 5)):
            process.eval("model.zero_grad(set_to_none=True)", 0.3)
        self.assertEqual(process.stop(), 0, process.printed())


if __name__ == "__main__":
    unittest.main()
