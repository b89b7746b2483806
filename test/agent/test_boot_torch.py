"""The finder for torch, with this Python's own: test_boot.py has a stand-in."""
import importlib.util
import os
import unittest

from test_boot import Case, OBSERVER


class RealTorch(Case):
    alters = True

    def test_real_torch(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("torch is not installed in this Python")
        with open(os.path.join(self.home.lib, "memgauge/_agent/observe/observer.py"), "w") as f:
            f.write(OBSERVER)
        got = self.run_code("import sys, torch\n"
                            "print(sys.installed, type(torch.__loader__).__name__, int(torch.ones(3).sum()))")
        self.assertEqual(got, "['torch'] SourceFileLoader 3")


if __name__ == "__main__":
    unittest.main()
