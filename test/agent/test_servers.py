"""Units of work that servers' libraries tell of, with modules that are made as these are (test/e2e/servers_test.go has
the real ones): requests of uvicorn, steps of vLLM's engine, calls of generate() of transformers."""
import importlib.util
import os
import unittest

from launch import PRELUDE, Home

ENGINE, REQUEST, INFER = 2, 3, 1
NOT_TAKEN = (1 << 64) - 1

UVICORN = """
class H11Protocol:
    total = 0
    def on_response_complete(self):
        H11Protocol.total += 1
"""
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
HAS_TORCH = importlib.util.find_spec("torch") is not None


class Servers(unittest.TestCase):
    def setUp(self):
        self.home = Home()
        self.addCleanup(self.home.close)

    def module(self, name, text):
        """Makes a module, with the packages that it is in."""
        at = os.path.join(self.home.directory, "made")
        for part in name.split(".")[:-1]:
            at = os.path.join(at, part)
            os.makedirs(at, exist_ok=True)
            open(os.path.join(at, "__init__.py"), "a").close()
        with open(os.path.join(at, name.rpartition(".")[2] + ".py"), "w") as f:
            f.write(text)

    def records(self, code):
        """Runs it; the fields of its step records, and the events that say what counts or what was not found."""
        begin = "import sys\nsys.path.insert(0, %r)\n" % os.path.join(self.home.directory, "made")
        done = self.home.run(PRELUDE + begin + code)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        ends, told = [], []
        for ring in self.home.rings().values():
            ends += [r.fields for r in ring.records if r.kind == "step_end"]
            told += [event[1] for event in ring.events() if event[0] in ("steps", "error", "hooks")]
        return ends, told

    def test_requests_of_uvicorn(self):
        """Each response that is complete is a request, also of a protocol that was made before we came to its class."""
        self.module("uvicorn.protocols.http.h11_impl", UVICORN)
        ends, told = self.records("""
from uvicorn.protocols.http.h11_impl import H11Protocol
for _ in range(150):
    H11Protocol().on_response_complete()
assert H11Protocol.total == 150
""")
        self.assertEqual(told, ["requests of uvicorn"])
        self.assertEqual((sum(f[1] for f in ends), {f[5] for f in ends}), (150, {REQUEST}))

    def test_what_is_not_known(self):
        self.module("uvicorn.protocols.http.h11_impl", "class H11Protocol:\n    pass\n")
        ends, told = self.records("import uvicorn.protocols.http.h11_impl\nwait_ring()\n")
        self.assertEqual(ends, [])
        self.assertEqual(len(told), 1)
        self.assertIn("uvicorn.protocols.http.h11_impl is not the one that is known (no on_response_complete())",
                      told[0])

    @unittest.skipUnless(HAS_TORCH, "needs torch")
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

    @unittest.skipUnless(HAS_TORCH, "needs torch")
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
        self.home.close()
        self.setUp()
        self.module("transformers.generation.utils", GENERATION)
        self.module("uvicorn.protocols.http.h11_impl", UVICORN)
        ends, told = self.records(calls + "    H11Protocol().on_response_complete()\n")
        self.assertEqual(ends[-1][5], REQUEST)
        self.assertEqual(sum(f[6] for f in ends if f[6] != NOT_TAKEN), 60 * 6)
