"""Peaks that belong to saving, evaluation or compilation, with this Python's torch."""
import os
import tempfile
import unittest

import torchrun

TRAINING = """
import copy, inspect, io, os, sys, torch
signatures = [str(inspect.signature(f)) for f in (torch.save, torch.nn.Module.eval, torch.nn.Module.state_dict)]
model = torch.nn.Linear(60, 200_000)     # 49 MB
model.weight.requires_grad_(False)       # its gradient would be as large, and new in each step: most of the tests' time
optimizer = torch.optim.SGD([model.bias], 0.001)
x = torch.ones(2, 60)
def train(n=1):
    for _ in range(n):
        optimizer.zero_grad(set_to_none=True)
        model(x).mean().backward()
        optimizer.step()
train(30)
"""


class Phases(torchrun.TorchCase):
    def told(self, code):
        """[(text, a, b)] of the peaks, but for the first step's."""
        run = self.run_code("exec(compile(%r, '/train.py', 'exec'))" % (TRAINING + code), preamble=torchrun.START)
        self.out, self.events = run.out, [e[0] for e in run.events]
        return [e[1:4] for e in run.events if e[0] == "peak" and e[1] != "the first step"]

    def test_a_checkpoint_in_memory_is_saving(self):
        peak = self.told("""
for _ in range(3):
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    del buffer
    train(5)
""")[-1]
        self.assertRegex(peak[0], r"^torch\.save to io\.BytesIO, /train\.py:\d+$")
        self.assertGreater(peak[1] - peak[2], 16 << 20)

    def test_copies_of_the_state_before_it_count_with_it(self):
        peak = self.told("""
state = [copy.deepcopy(model.state_dict()) for _ in range(3)]
torch.save(state, os.devnull)
del state
train(5)
""")[-1]
        self.assertRegex(peak[0], r"^torch\.save, /train\.py:\d+$")

    def test_a_checkpoint_without_a_copy_is_no_peak(self):
        self.assertEqual(self.told("torch.save(model.state_dict(), os.devnull)\ntrain(5)\n"), [])
        self.assertNotIn("error", self.events)

    def test_an_evaluation_and_whether_gradients_are_on(self):
        for guard, gradients in (("torch.enable_grad()", "on"), ("torch.no_grad()", "off")):
            peak = self.told("""
model.eval()
with %s:
    y = model(torch.ones(80, 60)).sum()
del y
model.train()
train(5)
""" % guard)[-1]
            self.assertRegex(peak[0], r"^evaluation, gradients %s, /train\.py:\d+$" % gradients)

    def test_a_module_in_evaluation_within_each_step_is_none(self):
        self.assertEqual(self.told("""
teacher = torch.nn.Linear(60, 200_000)
for i in range(60):
    teacher.eval()
    teacher(torch.ones(2 * (i + 1), 60))
    train()
"""), [])

    def test_functions_look_as_they_did(self):
        self.told("""
print(signatures == [str(inspect.signature(f)) for f in (torch.save, torch.nn.Module.eval, torch.nn.Module.state_dict)])
try:
    torch.save()
except TypeError as e:
    print(e)
print(model.eval() is model, list(model.state_dict(prefix="m.")))
""")
        self.assertEqual(self.out.split("\n")[:3], [
            "True", "save() missing 2 required positional arguments: 'obj' and 'f'", "True ['m.weight', 'm.bias']"])

    def test_a_saver_of_a_module_that_does_not_know_itself(self):
        """As safetensors.torch.save_file, whose module has no name `safetensors`; this one may not be installed."""
        with tempfile.TemporaryDirectory() as temporary:
            directory = temporary + "/site-packages"
            os.mkdir(directory)
            os.mkdir(directory + "/safetensors")
            with open(directory + "/safetensors/__init__.py", "w"), open(directory + "/safetensors/torch.py", "w") as f:
                f.write("def save_file(tensors, filename, metadata=None):\n"
                        "    return [t.clone() for t in tensors.values()] and filename\n")
            peak = self.told("""
sys.path.insert(0, %r)
from safetensors.torch import save_file
print(save_file.__name__, inspect.signature(save_file), save_file.__code__.co_name)
print(save_file(model.state_dict(), filename="there"))
train(5)
""" % directory)[-1]
        self.assertRegex(peak[0], r"^safetensors\.save_file, /train\.py:\d+$")
        self.assertEqual(self.out.split("\n")[:2], [
            "save_file (tensors, filename, metadata=None) save_file", "there"])
        self.assertNotIn("error", self.events)

    def test_they_are_what_they_were_when_we_go(self):
        self.told("""
from memgauge._agent import life
functions = [torch.save, torch.nn.Module.eval, torch.nn.Module.state_dict]
if hasattr(torch, "compile"):
    import torch.distributed.checkpoint as dcp
    functions.append(dcp.save)
def names():
    return sum(name.startswith("_memgauge") for f in functions for name in f.__globals__)
ours = [f.__code__ for f in functions]
print(names() >= len(functions))
life.detach()
print(any(f.__code__ is o for f, o in zip(functions, ours)), names())
print(model.eval() is model, len(model.state_dict()), torch.save(1, os.devnull))
""")
        self.assertEqual(self.out.split("\n")[:3], ["True", "False 0", "True 2 None"])

    def test_torch_compile_makes_of_them_what_it_would(self):
        """They are traced through, in one graph, as they are without us."""
        if self.torch < (2, 1):
            self.skipTest("this torch has no torch.compile of this kind")
        self.told("""
from torch._dynamo.testing import CompileCounter
counter = CompileCounter()
def step(x):
    model.eval()
    y = model(x)
    model.train()
    return y
compiled = torch.compile(step, backend=counter, fullgraph=True)
for _ in range(3):
    compiled(x)
    train()
print(counter.frame_count)
loose = torch.compile(lambda x: x + sum(v.sum() for v in model.state_dict().values()), backend="eager")
print(bool((loose(x) == x + sum(v.sum() for v in model.state_dict().values())).all()))
""")
        self.assertEqual(self.out.split("\n")[:2], ["1", "True"])


if __name__ == "__main__":
    unittest.main()
