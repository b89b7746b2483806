"""Every Python snippet of the Probing documents, and the usual ones beside them, against a real PyTorch training: with
everything at module level and inside main()."""
import os
import re
import subprocess
import textwrap
import unittest

import client
import seeds
from client import FAILED, FINE, PYTHON, Process
from lane import long

SNIPPETS = 18   # in the two documents; a parser that finds fewer has forgotten one

BODY = """
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
train_loader = DataLoader(TensorDataset(torch.ones(6, 4)), batch_size=3)
all_losses = []
turn, step = 0, 100
while not os.path.exists("stop"):
    if turn == 3:
        print("ready")
    if turn >= 3 and not os.path.exists("go"):
        time.sleep(0.002)
        turn += turn == 3
        continue
    for (batch,) in train_loader:
        optimizer.zero_grad()
        loss = model(batch).sum()
        loss.backward()
        optimizer.step()
        if len(all_losses) < 100:
            all_losses.append(loss)
    turn += 1
print("final lr %g, losses %d, turns %d, step %d" % (optimizer.param_groups[0]["lr"], len(all_losses), turn, step))
"""
HEAD = "import os, time\nimport torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader, TensorDataset\n"
PLACEMENTS = {"module": HEAD + BODY, "main": HEAD + "def main():\n" + textwrap.indent(BODY, "    ") + "main()\n"}

# it sleeps when it is told to wait
BESIDE = re.compile(r"^memgauge: the main thread waits in .*: the code ran beside it\n", re.M)
# the document leaves a value to its reader
LEFT_OUT = re.compile(r"^memgauge: `step = \.\.\.` is left out: .*\n", re.M)
GB = r"\d+\.\d\d GB"


class Case:
    """What a snippet must give: the whole of stdout as a regular expression, or how its exception ends (one of several,
    by torch version), and code that must show `state` afterwards."""

    def __init__(self, stdout="", exception=None, before=None, after=None, state=None, either=False):
        self.either = either   # a torch built without CUDA raises, one built with it answers
        self.stdout, self.exception, self.before, self.after, self.state = stdout, exception, before, after, state


NO_CUDA = r"(RuntimeError: (invalid argument to reset_peak_memory_stats|Found no NVIDIA driver.*)|AttributeError: module 'torch._C' has no attribute '_cuda_\w+'|AssertionError: Torch not compiled with CUDA enabled)"

EXPECTED = [
    Case("CPU Memory: %s\n" % GB),
    Case(r"Garbage collected: \(\d+, \d+, \d+\)\n"),
    Case(""),
    Case("Step 100: %s\n" % GB),
    Case(""),
    Case(r"张量总数: [1-9]\d*\n", after="tensors = None"),
    Case("已清空损失列表\n", before="assert len(all_losses) == 6, len(all_losses)", after="len(all_losses)", state="0"),
    Case("0.weight: grad_fn=None\n0.bias: grad_fn=None\n2.weight: grad_fn=None\n2.bias: grad_fn=None\n"),
    Case("已清除梯度\n", before="assert model[0].weight.grad is not None",
         after="[p.grad for p in model.parameters()]", state="[None, None, None, None]"),
    Case(r"无法回收: \d+\n", after="gc.set_debug(0); gc.garbage.clear()"),
    Case("已分配: 0.00 GB\n已保留: 0.00 GB\n峰值: 0.00 GB\n"),
    Case(""),
    Case(exception=NO_CUDA),
    Case("RSS: %s\nVMS: %s\n" % (GB, GB)),
    Case(r"([\w.]+: \d+\.\d KB\n){10}", after="objects = None"),
    Case("Num workers: 0\nBatch size: 3\n"),
    Case("(迭代器存在|没有活动的迭代器)\n"),
    Case("CPU: %s, GPU: 0.00 GB\n" % GB),
]

# The list of usual snippets; each with what it must give.
USUAL = [
    ("a", "import torch; print(torch.cuda.is_available())", Case("False\n")),
    ("b", "print(globals().keys())", Case(r"dict_keys\(\[.*'__name__'.*'torch'.*\]\)\n")),
    ("c", "print(type(model), model)",
     Case(r"<class 'torch.nn.modules.container.Sequential'> Sequential\((.|\n)*\)\n")),
    ("d", "for name, p in model.named_parameters():\n    print(name, tuple(p.shape), p.grad is None)",
     Case(r"0.weight \(8, 4\) (True|False)\n0.bias \(8,\) (True|False)\n2.weight \(1, 8\) (True|False)\n2.bias \(1,\) (True|False)\n")),
    ("e",
     "import torch\nbad = [n for n, p in model.named_parameters() if p.grad is not None and (torch.isnan(p.grad).any() or torch.isinf(p.grad).any())]\nprint(bad)",
     Case(r"\[\]\n")),
    ("f", "import threading\nfor t in threading.enumerate():\n    print(t.name, t.daemon)",
     Case(r"MainThread False\n(.*\n)*memgauge-eval True\n")),
    ("g",
     "import torch.distributed as dist\nif dist.is_available() and dist.is_initialized():\n    print(dist.get_rank(), dist.get_world_size(), dist.get_backend())\nelse:\n    print('not distributed')", Case("not distributed\n")),
    ("h",
     "import psutil, torch\nprint(f'{psutil.Process().memory_info().rss / 1024**3:.2f} GB {torch.cuda.memory_allocated() / 1024**3} {torch.cuda.memory_reserved() / 1024**3}')", Case(GB + r" 0.0 0.0\n")),
    ("i", "import gc, torch\ngc.collect(); torch.cuda.empty_cache()", Case("")),
    ("j",
     "import torch\nfor i in range(torch.cuda.device_count()):\n    print(torch.cuda.get_device_properties(i))\nprint(torch.cuda.device_count())", Case("0\n")),
    ("j2", "import torch\ntorch.cuda.get_device_properties(0)", Case(exception=NO_CUDA)),
    ("k", "import torch; print(list(torch.cuda.memory_stats().keys()))", Case(r"\[\]\n")),
    ("l", "import torch; print(len(torch.cuda.memory_snapshot()))", Case("0\n", exception=NO_CUDA, either=True)),
    ("m", "import gc, torch\nprint(sum(1 for o in gc.get_objects() if torch.is_tensor(o)))", Case(r"[1-9]\d*\n")),
    ("n",
     "import gc, sys\nfor size, name in sorted(((sys.getsizeof(o), type(o).__name__) for o in gc.get_objects()), reverse=True)[:10]:\n    print(name, size)", Case(r"(\S+ \d+\n){10}")),
    ("o", "import gc; gc.set_debug(gc.DEBUG_SAVEALL)", Case("", after="gc.set_debug(0); gc.garbage.clear()")),
    ("p", "all_losses.append(1); all_losses.clear()", Case("", after="all_losses", state="[]")),
    ("q", "for pg in optimizer.param_groups:\n    pg['lr'] *= 0.1\nprint(optimizer.param_groups[0]['lr'])",
     Case("0.05\n", after="optimizer.param_groups[0]['lr']", state="0.05")),
    ("r", "for i, g in enumerate(optimizer.param_groups): print(i, g['lr'])", Case("0 0.05\n")),
    ("s",
     "import torch\ntorch.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict()}, 'emergency_checkpoint.pt')",
     Case("", after="sorted(torch.load('emergency_checkpoint.pt'))", state="['model', 'optimizer']")),
    ("t", "model.zero_grad(set_to_none=True)", Case("")),
    ("u", "print(train_loader.num_workers, train_loader.prefetch_factor)", Case(r"0 (2|None)\n")),
    ("v",
     "import time\nt0 = time.time()\nbatch = next(iter(train_loader))\nprint(f'{time.time() - t0:.3f}s', batch[0].shape)", Case(r"\d+\.\d{3}s torch.Size\(\[3, 4\]\)\n")),
    ("w", "import sys; print('torch' in sys.modules)", Case("True\n")),
    ("x", "try:\n    import no_such_module\nexcept ImportError as e:\n    print('missing:', e)",
     Case("missing: No module named 'no_such_module'\n")),
    ("y", "import torch\nstats = torch.cuda.memory_stats()\nprint(f'{stats.get(\"allocated_bytes.all.current\",0)}')",
     Case("0\n")),
]


def missing():
    """Why this Python can't run the snippets, or ""."""
    code = "import importlib.util as u; print(*[n for n in ('torch', 'psutil') if u.find_spec(n) is None])"
    done = subprocess.run([PYTHON, "-c", code], stdout=subprocess.PIPE, universal_newlines=True, check=True)
    return done.stdout.strip() and "no " + done.stdout.strip()


WHY_NOT = missing()


class Parser(unittest.TestCase):
    def test_none_is_forgotten(self):
        found = seeds.snippets()
        self.assertEqual((len(found), len(EXPECTED)), (SNIPPETS, SNIPPETS))
        marks = 0
        for name in seeds.PROBING:
            with open(os.path.join(seeds.SEEDS, name), encoding="utf-8") as f:
                marks += len(re.findall(r'\beval "', f.read()))
        self.assertEqual(marks, SNIPPETS)

    def test_quotes(self):
        self.assertEqual(seeds.unquote(r'a \"b\" \\ \$x \n'), 'a "b" \\ $x \\n')
        self.assertIn('stats.get("allocated_bytes.all.current", 0)', seeds.snippets()[4])


@unittest.skipIf(WHY_NOT, "needs torch and psutil: %s has %s" % (PYTHON, WHY_NOT))
class Snippets(unittest.TestCase):
    def verify(self, process, name, code, case):
        def clean(text):
            answer = process.eval(text)
            self.assertEqual((answer.outcome, answer.exception), (FINE, ""), text)
            return answer.value
        if case.before:
            clean(case.before)
        answer = process.eval(code, 60)
        raised = case.exception is not None and not (case.either and answer.outcome == FINE)
        if not raised:
            self.assertEqual((answer.outcome, answer.exception), (FINE, ""), name)
        else:
            self.assertEqual(answer.outcome, FAILED, (name, answer))
            self.assertTrue(answer.exception.startswith("Traceback (most recent call last):\n"), answer)
            self.assertRegex(answer.exception, "(?m)^%s" % case.exception)
            self.assertEqual(case.exception == NO_CUDA, "under `if torch.cuda.is_available():`" in answer.exception)
        printed = LEFT_OUT.sub("", BESIDE.sub("", answer.stderr))
        if "reduce_op is deprecated" not in printed.replace("`", ""):   # torch's own, when code looks at every object
            self.assertEqual(printed, "", name)
        self.assertEqual(answer.value, "", name)
        self.assertRegex(answer.stdout, r"\A%s\Z" % ("" if raised else case.stdout), name)
        after = clean(case.after) if case.after else None
        if case.state is not None:
            self.assertEqual(after, case.state, name)

    def all_in(self, placement):
        process = Process(PLACEMENTS[placement])
        self.addCleanup(process.close)
        for number, (code, case) in enumerate(zip(seeds.snippets(), EXPECTED)):
            with self.subTest(snippet=number):
                self.verify(process, number, code, case)
        for name, code, case in USUAL:
            with self.subTest(snippet=name):
                self.verify(process, name, code, case)
        open(os.path.join(process.directory, "go"), "w").close()   # the training goes on, with what was changed
        client.wait_for(lambda: int(process.eval("turn").value) > 20)
        self.assertEqual(process.stop(), 0)
        self.assertRegex(process.printed().decode(), r"\Aready\nfinal lr 0.05, losses \d+, turns \d+, step 100\n\Z")

    @long("another training; test_evaluate.py has code at module level")
    def test_at_module_level(self):
        self.all_in("module")

    def test_inside_main(self):
        self.all_in("main")


if __name__ == "__main__":
    unittest.main()
