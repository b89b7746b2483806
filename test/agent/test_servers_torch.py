"""As test_servers.py, with this Python's torch: steps of vLLM's engine, calls of generate() of transformers."""
import unittest

import torchrun
from test_servers import REQUEST, UVICORN, Made

ENGINE, INFER = 2, 1
NOT_TAKEN = (1 << 64) - 1
ENGINE_CORE = """
class Output:
    new_token_ids = [1, 2]
class Outputs:
    outputs = [Output(), Output()]
class EngineCore:
    def __init__(self):
        self.step_fn = self.step
        self.left = 100
    def step(self):
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("over")
        return ({0: Outputs()}, True) if self.left % 2 else ({}, False)
    def step_with_batch_queue(self):
        return None, True
"""
GENERATION = """
import functools, torch
def deprecate(function):
    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapped
class GenerationMixin:
    class config:
        is_encoder_decoder = False
    @deprecate
    @torch.no_grad()
    def generate(self, inputs=None, new=3):
        return torch.cat([inputs, torch.zeros(inputs.shape[0], new, dtype=inputs.dtype)], 1)
"""


class WithTorch(Made, torchrun.TorchCase):
    def records(self, code):
        self.run_code(self.path() + code, preamble=torchrun.START)
        return self.told(ring for run in self.runs.values() for ring in run.rings)

    def test_steps_of_an_engine(self):
        """Those that executed the model, with their tokens, also where the method was bound before; an error of its
        own reaches the program as it is."""
        self.module("vllm.v1.engine.core", ENGINE_CORE)
        ends, told = self.records("""
import torch
from vllm.v1.engine.core import EngineCore
core = EngineCore()
assert sum(core.step_fn()[1] for _ in range(100)) == 50
try:
    core.step_fn()
except RuntimeError as e:
    assert str(e) == "over"
else:
    raise SystemExit("no error")
""")
        self.assertEqual(told, ["steps of vLLM's engine"])
        self.assertEqual((sum(f[1] for f in ends), {f[5] for f in ends}), (50, {ENGINE}))
        self.assertEqual(sum(f[6] for f in ends if f[6] != NOT_TAKEN), 200)

    def test_calls_of_generate(self):
        """With the tokens that follow the prompt; where requests count, only the tokens are counted."""
        self.module("transformers.generation.utils", GENERATION)
        self.module("uvicorn.protocols.http.h11_impl", UVICORN)
        calls = """
import torch
from transformers.generation.utils import GenerationMixin
from uvicorn.protocols.http.h11_impl import H11Protocol
for i in range(60):
    assert GenerationMixin().generate(torch.zeros(2, 5, dtype=torch.long)).shape == (2, 8)
"""
        ends, told = self.records(calls)
        self.assertEqual(told, ["calls of generate() of transformers"])
        self.assertEqual((sum(f[1] for f in ends), {f[5] for f in ends}), (60, {INFER}))
        self.assertEqual(sum(f[6] for f in ends if f[6] != NOT_TAKEN), 60 * 6)
        ends, told = self.records(calls + "    H11Protocol().on_response_complete()\n")
        self.assertEqual(ends[-1][5], REQUEST)
        self.assertEqual(sum(f[6] for f in ends if f[6] != NOT_TAKEN), 60 * 6)


if __name__ == "__main__":
    unittest.main()
