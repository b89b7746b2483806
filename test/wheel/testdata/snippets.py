"""Runs the Python that the seeds' documents show, as the user of an installed memgauge does: SEEDS NUMBER runs one
snippet of those that stand alone, in this process; SEEDS alone lists them as JSON: document, whether it needs a GPU."""
import json
import os
import re
import sys
import types

TOOLS = "tinytorch-memory-debug-tools.zh-CN.md"
GENESIS = "genesis-memory-management-api.zh-CN.md"
GUIDE = "memory-leak-fix-guide.zh-TW.md"

# What a document takes for granted where it goes on from an example further up, or from a training of the reader's.
CLASSES = "from memgauge import MemoryDebugger, OOMDetector\n"
HELD = "held = genesis.rand(100, 100, device='cuda')\n"     # the example divides by what is allocated
TRAINING = """
class Loss:
    def backward(self): pass
class Batch:
    def to(self, device): return self
class YourModel:
    def to(self, device): return self
    def parameters(self): return []
    def __call__(self, batch): return batch
def criterion(outputs, targets): return Loss()
num_epochs, batch_idx, dataloader, targets = 1, 0, [Batch(), Batch()], Batch()
"""


def blocks(seeds, name):
    with open(os.path.join(seeds, name), encoding="utf-8") as f:
        return re.findall(r"^```python\n(.*?)^```", f.read(), re.M | re.S)


def snippets(seeds):
    """(document, code): the guide's other blocks are pieces of a class of its own."""
    found = [(TOOLS, CLASSES * ("import" not in code.replace("import logging", "")) +
              code.replace("from tools.memory import", "from memgauge import")) for code in blocks(seeds, TOOLS)]
    for code in blocks(seeds, GENESIS):
        found.append((GENESIS, "import memgauge as genesis\n" + TRAINING + HELD * ("efficiency" in code) +
                      code.replace("import genesis\n", "")))
    found += [(GUIDE, code) for code in blocks(seeds, GUIDE) if "import gc" in code]
    return found


def main():
    all_of_them = snippets(sys.argv[1])
    if len(sys.argv) == 2:
        print(json.dumps([{"name": name, "gpu": name == GENESIS and "except RuntimeError" not in code}
                          for name, code in all_of_them]))
        return
    name, code = all_of_them[int(sys.argv[2])]
    if name == GENESIS:
        import memgauge

        class Adam:
            def __init__(self, parameters): pass
            def zero_grad(self): pass
            def step(self): pass
        memgauge.optim = types.SimpleNamespace(Adam=Adam)
    exec(compile(code, name, "exec"), {"__name__": "__main__"})
    print("done")


main()
