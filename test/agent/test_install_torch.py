"""install_allocator with this Python's PyTorch: test_install.py has a stub of each version."""
import importlib.util
import subprocess
import sys
import unittest

import alloclib


@unittest.skipUnless(alloclib.PATH, alloclib.REASON)
class RealTorch(unittest.TestCase):
    def test_takes_all_setters(self):
        code = """
import memgauge, torch
from memgauge import allocator
if not hasattr(torch._C, "_cuda_customAllocator"):
    print("skip: torch without CUDA")
else:
    ours = torch.cuda.memory.CUDAPluggableAllocator(allocator.library().path, "memgauge_torch_alloc",
                                                    "memgauge_torch_free")
    taken = []
    class Watch:
        def __getattr__(self, name):
            def set_it(address, real=getattr(ours.allocator(), name)):
                real(address)
                taken.append(name)
            return set_it
    allocator._wire(Watch(), allocator.library(), torch.__version__)
    has = sorted(n for n in dir(ours.allocator()) if n.startswith("set_"))
    print(sorted(taken) == has, len(has))
"""
        if importlib.util.find_spec("torch") is None:
            self.skipTest("no torch in this Python")
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              universal_newlines=True, timeout=300)
        if "skip:" in done.stdout:
            self.skipTest(done.stdout)
        self.assertIn("True 8\n", done.stdout)


if __name__ == "__main__":
    unittest.main()
