"""torch.compile: nothing is compiled again, broken or warned about because of us, and the steps are counted."""
import unittest

from lane import SCALE, long
from torchrun import TorchCase

COUNT = """
import torch._dynamo as D
from torch._dynamo.utils import counters
graphs = 0
def backend(gm, example):
    global graphs; graphs += 1
    return gm.forward
class Block(nn.Module):
    def __init__(self): super().__init__(); self.l = nn.Linear(8, 8); self.a = nn.GELU()
    def forward(self, x): return self.a(self.l(x)) + x
class Caller(Block):
    def __call__(self, x): return super().__call__(x)
def model(style):
    m = nn.Sequential(Block(), Caller() if style == "overrides" else Block())
    if style == "wrapped": return m, torch.compile(m, backend=backend)
    if style == "in place": m.compile(backend=backend); return m, m
    if style == "regional":
        for i in range(2): m[i] = torch.compile(m[i], backend=backend)
        return m, m
    return m, torch.compile(lambda x: m(x), backend=backend, fullgraph=style != "function")
def case(style):
    global graphs
    D.reset(); counters.clear(); graphs = 0
    m, call = model(style); o = torch.optim.SGD(m.parameters(), .01)
    for _ in range(40): call(torch.ones(2, 8)).sum().backward(); o.step(); o.zero_grad()
    return graphs, sum(counters["graph_break"].values()), dict(counters["frames"])
say(cases={style: case(style) for style in STYLES})
"""
TRACES = ("auto", "all")[not SCALE:]   # the one that has more in common with compiled code; in the long lane both
STYLES = "STYLES = 'wrapped', 'in place', 'regional', 'function', 'whole'\n"


class Compile(TorchCase):
    def setUp(self):
        if self.torch < (2, 1):
            self.skipTest("this torch has no torch.compile of this kind")

    @long("three trainings in all styles of torch.compile; the other tests have one each")
    def test_models(self):
        runs = {trace: self.run_code(STYLES + COUNT, MEMGAUGE_TRACE=trace) for trace in ("off", "auto", "all")}
        for trace in ("auto", "all"):
            self.assertEqual(runs[trace].said(), runs["off"].said(), trace)
            self.assertEqual(runs[trace].counted, 200)
        modules = {t.module for t in runs["all"].trace}
        self.assertIn("OptimizedModule", modules)
        self.assertFalse([m for m in modules if "_orig_mod" in m], "what is inside of compiled code")

    def test_super_call(self):
        """Compiled once, though what is compiled is bound to the code of Module.__call__: that is left alone then."""
        code = COUNT.replace("D.reset(); ", "") + "print(json.dumps(sum(case('overrides')[0] for _ in range(5))))\n"
        for trace in TRACES:
            run = self.run_code("STYLES = ()\n" + code, MEMGAUGE_TRACE=trace)
            self.assertEqual((run.said(), run.counted), (1, 200), trace)
            notes = [e[1] for e in run.events if e[0] == "note"]
            self.assertEqual(notes, ["no module rows: torch.compile guards Module.__call__, which Caller calls"])

    def test_super_call_attached(self):
        code = """
observer.uninstall()
graphs = 0
def backend(gm, example):
    global graphs; graphs += 1
    return gm.forward
class Caller(nn.Linear):
    def __call__(self, x): return super().__call__(x)
m = nn.Sequential(Caller(8, 8)); call = torch.compile(lambda x: m(x), backend=backend); o = torch.optim.SGD(m.parameters(), .01)
def steps(n):
    for _ in range(n): call(torch.ones(2, 8)).sum().backward(); o.step()
steps(5)
observer.install(torch)
steps(50)
say(graphs=graphs)
"""
        run = self.run_code(code, MEMGAUGE_TRACE="all")
        self.assertEqual((run.said()["graphs"], run.counted, run.trace), (1, 50, []))

    def test_optimizer(self):
        code = """
import torch._dynamo as D
from torch._dynamo.utils import counters
graphs = 0
def backend(gm, example):
    global graphs; graphs += 1
    return gm.forward
m = net(); o = torch.optim.Adam(m.parameters(), .01); step = torch.compile(lambda: o.step(), backend=backend)
for _ in range(60): m(torch.ones(2, 8)).sum().backward(); step()
say(graphs=graphs, breaks=sum(counters["graph_break"].values()), limit=dict(counters["recompile_limit"]))
"""
        bare = self.run_code("observer.uninstall()\n" + code, quiet=False).said()
        for trace in TRACES:
            run = self.run_code(code, MEMGAUGE_TRACE=trace, quiet=False)
            said = run.said()
            self.assertEqual((said["graphs"], said["limit"]), (bare["graphs"], {}))
            # at the end of step(), where torch has two of its own
            self.assertLessEqual(said["breaks"], bare["breaks"] + 1)
            self.assertNotIn("recompile_limit", run.err)
            self.assertEqual(run.counted, 60)


if __name__ == "__main__":
    unittest.main()
