"""Steps that no optimizer of PyTorch ends, with stand-ins for the libraries: what is hooked in them, what counts, and
that they are as they were after a detach. The real libraries: test/e2e/learners_test.go."""
import unittest

from launch import PRELUDE, Home

XGBOOST = {"xgboost/__init__.py": "from . import core\n", "xgboost/core.py": """
class Function:
    restype = None
    def __init__(self, code):
        self.code, self.calls = code, 0
    def __call__(self, handle, iteration):
        self.calls += 1
        return self.code
class Library:
    pass
_LIB = Library()
_LIB.XGBoosterUpdateOneIter = real = Function(0)
"""}

KERAS = {"keras/__init__.py": "", "keras/src/__init__.py": "", "keras/src/callbacks/__init__.py": """
class CallbackList:
    heard = 0
    def on_train_batch_end(self, batch, logs=None):
        self.heard += 1
        return "said"
"""}

JAX = {"jax/__init__.py": "from ._src import api\nfrom . import tree_util\n", "jax/_src/__init__.py": "",
       "jax/tree_util.py": """
def tree_leaves(tree):
    if isinstance(tree, (tuple, list)):
        return [leaf for part in tree for leaf in tree_leaves(part)]
    return [leaf for part in tree.values() for leaf in tree_leaves(part)] if isinstance(tree, dict) else [tree]
""", "jax/_src/api.py": """
class State:
    hook = None
    def get_global(self):
        return self.hook
    def set_global(self, hook):
        self.hook = hook
_post_hook_state = State()
class Compiled:
    def __init__(self, function):
        self.function, self.cached = function, False
        self.__name__, self.__module__ = function.__name__, function.__module__
    def __call__(self, *args):
        results = self.function(*args)
        if self.cached and _post_hook_state.hook is not None:
            _post_hook_state.hook(self, args, {}, results)
        self.cached = True
        return results
"""}


class Case(unittest.TestCase):
    def setUp(self):
        self.home = Home()
        self.addCleanup(self.home.close)
        self.path = self.home.directory + "/libraries"

    def steps(self, code, libraries=()):
        """Runs it; returns the number of the last step that a ring has, and the texts of the `steps` events."""
        for name, text in dict(libraries).items():
            self.home.write("libraries/" + name, text)
        done = self.home.run(PRELUDE + code, path=(self.path,))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        last, told = 0, []
        for ring in self.home.rings().values():
            for record in ring.records:
                if record.kind == "step_end":
                    last = max(last, record.fields[2])
            told += [event[1] for event in ring.events() if event[0] in ("steps", "error")]
        return last, told, done.stdout.split()


class Learners(Case):
    def test_own_loop(self):
        last, told, _ = self.steps("import memgauge\nfor i in range(300):\n    assert memgauge.step()\n"
                                   "memgauge.event('epoch', 'end', 3)")
        self.assertEqual((last, told), (300, ["calls of memgauge.step()"]))

    def test_boosting(self):
        last, told, out = self.steps("""
from xgboost.core import _LIB, real
_LIB.XGBoosterUpdateOneIter.restype = int
class Handle: value = 7
for i in range(250):
    assert _LIB.XGBoosterUpdateOneIter(Handle, i) == 0
print(real.calls, real.restype.__name__)
from memgauge._agent.observe import learners
learners.uninstall()
print(_LIB.XGBoosterUpdateOneIter is real)
""", XGBOOST)
        self.assertEqual((last, told, out), (250, ["boosting rounds of XGBoost"], ["250", "int", "True"]))

    def test_folds_make_one_step(self):
        last, _, _ = self.steps("""
from xgboost.core import _LIB
handles = [type("Handle", (), {"value": n})() for n in range(1, 6)]
for i in range(200):
    for handle in handles:
        _LIB.XGBoosterUpdateOneIter(handle, i)
""", XGBOOST)
        self.assertAlmostEqual(last, 200, delta=5)

    def test_keras(self):
        last, told, out = self.steps("""
from keras.src.callbacks import CallbackList
original = CallbackList.on_train_batch_end.__wrapped__
known = CallbackList()
print(*{known.on_train_batch_end(i) for i in range(220)}, known.heard)
from memgauge._agent.observe import learners
learners.uninstall()
print(CallbackList.on_train_batch_end is original)
""", KERAS)
        self.assertEqual((last, told, out), (220, ["batches of Keras"], ["said", "220", "True"]))

    def test_only_what_carries_the_state_steps(self):
        last, told, out = self.steps("""
from jax._src import api
class Array: pass
def train_step(p, x): return Array(), Array()
def evaluate(p): return Array()
train_step, evaluate = api.Compiled(train_step), api.Compiled(evaluate)
p = Array()
for i in range(210):
    p, loss = train_step(p, Array())
    for _ in range(i % 3):
        evaluate(p)
from memgauge._agent.observe import learners
learners.uninstall()
print(api._post_hook_state.hook)
""", JAX)
        self.assertEqual((last, told, out), (210, ["calls of train_step, compiled by JAX"], ["None"]))

    def test_calls_count_where_nothing_carries_state(self):
        last, told, _ = self.steps("""
from jax._src import api
class Array: pass
def predict(x): return Array()
predict = api.Compiled(predict)
for i in range(200):
    predict(Array())
""", JAX)
        self.assertEqual((last, told), (200, ["calls of predict, compiled by JAX"]))

    def test_the_most_explicit_counts(self):
        last, told, _ = self.steps("""
import memgauge
from keras.src.callbacks import CallbackList
known = CallbackList()
for i in range(100):
    known.on_train_batch_end(i)
for i in range(100):
    known.on_train_batch_end(i)
    known.on_train_batch_end(i)
    memgauge.step()
""", KERAS)
        self.assertEqual(told, ["batches of Keras", "calls of memgauge.step()"])
        self.assertAlmostEqual(last, 200, delta=3)

    def test_one_that_has_ended_makes_room(self):
        last, told, _ = self.steps("""
from xgboost.core import _LIB
from jax._src import api
class Handle: value = 7
for i in range(100):
    _LIB.XGBoosterUpdateOneIter(Handle, i)
class Array: pass
def train_step(p): return Array()
train_step, p = api.Compiled(train_step), Array()
for i in range(1500):
    p = train_step(p)
""", dict(XGBOOST, **JAX))
        self.assertEqual(told, ["boosting rounds of XGBoost", "calls of train_step, compiled by JAX"])
        self.assertAlmostEqual(last, 600, delta=5)

    def test_a_fork_counts_for_itself(self):
        last, _, out = self.steps("""
import memgauge
for i in range(300):
    memgauge.step()
pid = os.fork()
for i in range(100):
    memgauge.step()
wait_ring()
if pid:
    print(os.waitpid(pid, 0)[1], state.observer.step)
else:
    open("child", "w").write(str(state.observer.step))
    sys.exit(0)
print(open("child").read())
os.unlink("child")
""")
        self.assertEqual(out, ["0", "400", "100"])

    def test_unobserved(self):
        done = self.home.run("import sys; sys.path.append(%r)\nimport memgauge\nprint(memgauge.step())\n"
                             "memgauge.event('epoch')" % self.home.lib, MEMGAUGE_RUNTIME="")
        self.assertEqual((done.stdout, done.stderr), ("False\n", ""))


if __name__ == "__main__":
    unittest.main()
