"""Getting in: the chain of sitecustomize, Pythons that are too old, the finder for torch."""
import os
import subprocess
import sys
import unittest

from launch import Home, PRELUDE
from memgauge._agent import onimport

FAKE_TORCH = """
import sys
loaded_by = type(__loader__).__name__, type(__spec__.loader).__name__
if getattr(sys, "torch_fails", 0):
    sys.torch_fails -= 1
    raise ImportError("libsomething.so: cannot open shared object file")
"""
OBSERVER = """
import sys
def install(torch):
    sys.installed = getattr(sys, "installed", []) + [torch.__name__]
    if getattr(sys, "observer_fails", False):
        raise RuntimeError("observer broke")
"""
# This Python may have torch, which would be found where a test has none.
NO_SITE = """
            import sys
            sys.path[:] = [p for p in sys.path if not p.endswith("-packages")]
"""


class Case(unittest.TestCase):
    alters = False    # a module of the agent

    def setUp(self):
        self.home = Home(own=self.alters)
        self.addCleanup(self.home.close)

    def run_code(self, code, *flags, **kwargs):
        done = self.home.run(code, *flags, **kwargs)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout.strip()


class Chain(Case):
    SHOW = "import sys; m = sys.modules.get('sitecustomize'); print(m and m.__file__, getattr(sys, 'seen', None))"

    def test_none(self):
        """A distribution may have one of its own (Debian does): what is there without us must be there with us."""
        bare = subprocess.run([sys.executable, "-c", self.SHOW], stdout=subprocess.PIPE, universal_newlines=True,
                              env=self.home.env(PYTHONPATH=""))
        self.assertEqual(self.run_code(self.SHOW), bare.stdout.strip())

    def test_the_users(self):
        user = self.home.write("site/sitecustomize.py",
                               "import sys; sys.seen = __name__, __spec__.origin == __file__\n")
        got = self.run_code(self.SHOW, path=(os.path.dirname(user),))
        self.assertEqual(got, "%s ('sitecustomize', True)" % user)

    def test_the_users_package(self):
        user = self.home.write("site/sitecustomize/__init__.py", "import sys; sys.seen = __path__\n")
        got = self.run_code(self.SHOW, path=(os.path.dirname(os.path.dirname(user)),))
        self.assertIn(user, got)

    def test_one_that_raises(self):
        user = self.home.write("site/sitecustomize.py", "raise RuntimeError('mine')\n")
        site = os.path.dirname(user)
        ours = self.home.run(self.SHOW, path=(site,))
        bare = self.home.run(self.SHOW, PYTHONPATH=site)
        self.assertIn("RuntimeError: mine", bare.stderr)
        self.assertEqual((ours.returncode, ours.stdout, ours.stderr), (bare.returncode, bare.stdout, bare.stderr))

    def test_path(self):
        got = self.run_code("import sys, memgauge; print([sys.path.index(p) for p in sys.path if %r in p], len(sys.path))"
                            % self.home.base)
        self.assertRegex(got, r"^\[(\d+)\] (\d+)$")
        at, length = got.strip("[").split("] ")
        self.assertEqual(int(at), int(length) - 1, "only lib/, and at the end")

    def test_disabled(self):
        for env in ({"MEMGAUGE_DISABLE": "1"}, {"MEMGAUGE_RUNTIME": ""}):
            got = self.run_code("import sys; print([m for m in sys.modules if 'memgauge' in m], %r in str(sys.path))"
                                % self.home.base, **env)
            self.assertEqual(got, "[] False")

    def test_isolated_python_is_unobserved(self):
        for flag in ("-I", "-E", "-S"):
            got = self.run_code("import sys; print([m for m in sys.modules if 'memgauge' in m])", flag)
            self.assertEqual(got, "[]")

    def test_old_pythons(self):
        root = os.path.expanduser("~/.pyenv/versions")
        found = [v for v in (os.listdir(root) if os.path.isdir(root) else ()) if v.startswith(("2.", "3.6.", "3.7."))]
        if not found:
            self.skipTest("no Python older than 3.8 here")
        user = self.home.write("site/sitecustomize.py", "import sys; sys.seen = True\n")
        code = "import sys; print(sys.seen, sys.modules['sitecustomize'].__file__.rstrip('c'), 'memgauge' in sys.modules)"
        for version in found:
            python = os.path.join(root, version, "bin", "python")
            got = self.run_code(code, python=python, path=(os.path.dirname(user),))
            self.assertIn(got, ("True %s False" % user, "(True, '%s', False)" % user))
            self.assertEqual(self.run_code("print(1)", python=python), "1")

    def test_pass_opens_nothing(self):
        got = self.run_code("import os; print(sorted(os.listdir('/proc/self/fd')))")
        bare = self.run_code("import os; print(sorted(os.listdir('/proc/self/fd')))", MEMGAUGE_DISABLE="1")
        self.assertEqual(got, bare)
        self.assertEqual(self.home.rings(), {})


class Torch(Case):
    alters = True

    def setUp(self):
        super().setUp()
        self.site = os.path.dirname(os.path.dirname(self.home.write("site/torch/__init__.py", FAKE_TORCH)))
        with open(os.path.join(self.home.lib, "memgauge/_agent/observe/observer.py"), "w") as f:
            f.write(OBSERVER)

    def test_no_trace(self):
        got = self.run_code("""
            import sys, importlib, inspect, pkgutil
            before = len(sys.meta_path)
            import torch
            print(sys.installed, torch.loaded_by[0] == torch.loaded_by[1] == "SourceFileLoader", before - len(sys.meta_path))
            print(type(torch.__loader__).__name__, type(torch.__spec__.loader).__name__, inspect.getsource(torch)[:11])
            print(pkgutil.get_data("torch", "__init__.py")[:11], importlib.reload(torch) is torch, sys.installed)
            print([sorted(f.wanted) for f in sys.meta_path if "memgauge" in str(f)])
            """, path=(self.site,))
        self.assertEqual(got, "\n".join([
            "['torch'] True 1", "SourceFileLoader SourceFileLoader \nimport sys", "b'\\nimport sys' True ['torch']",
            repr([sorted(onimport.LEARNERS + onimport.SERVERS)])]))

    def test_an_import_on_another_thread_goes_on(self):
        """Ours goes while an import is between two finders: none of those behind it may be passed over."""
        got = self.run_code("""
            import sys, importlib.machinery
            from memgauge._agent import torchhook
            class Between:
                def find_spec(self, name, path=None, target=None):
                    torchhook.remove()
            place = sys.meta_path.index(importlib.machinery.PathFinder)
            sys.meta_path.insert(place, Between())
            import rarely_imported
            print(rarely_imported.found, [f for f in sys.meta_path if "memgauge" in str(f)])
            """, path=(os.path.dirname(self.home.write("more/rarely_imported.py", "found = True")),))
        self.assertEqual(got, "True []")

    def test_failing_import_and_retry(self):
        got = self.run_code("""
            import sys
            sys.torch_fails = 2
            for i in range(3):
                try:
                    import torch
                    print("fine", sys.installed)
                except ImportError as e:
                    print(type(e).__name__, e, "torch" in sys.modules, getattr(sys, "installed", None))
            """, path=(self.site,))
        bad = "ImportError libsomething.so: cannot open shared object file False None"
        self.assertEqual(got.splitlines(), [bad, bad, "fine ['torch']"])

    def test_looking_for_torch(self):
        got = self.run_code("""
            import importlib.util, sys
            spec = importlib.util.find_spec("torch")
            print(spec.origin, hasattr(sys, "installed"), spec.loader.get_source("torch")[:11])
            import torch
            print(sys.installed)
            """, path=(self.site,))
        self.assertIn("torch/__init__.py False \nimport sys\n['torch']", got)

    def test_no_torch(self):
        got = self.run_code(NO_SITE + """
            try:
                import torch
            except ModuleNotFoundError as e:
                print(e, e.name)
            """)
        self.assertEqual(got, "No module named 'torch' torch")

    def test_a_folder_called_torch(self):
        os.unlink(os.path.join(self.site, "torch", "__init__.py"))
        got = self.run_code(NO_SITE + """
            import torch
            print(hasattr(sys, 'installed'))
            """, path=(self.site,))
        self.assertEqual(got, "False")

    def test_observer_that_fails(self):
        got = self.run_code(PRELUDE + """
sys.observer_fails = True
import torch
wait_ring()
print(state.current.errors, torch.__name__)
""", path=(self.site,))
        self.assertEqual(got, "1 torch")
        ring, = self.home.rings().values()
        event, = [e for e in ring.events() if e[0] == "error"]
        self.assertIn("RuntimeError: observer broke", event[1])

    def test_imported_before_us(self):
        self.home.write("site/sitecustomize.py", "")
        got = self.run_code("""
            import sys
            sys.modules["torch"] = type(sys)("torch")
            from memgauge._agent import torchhook
            torchhook.remove()
            import memgauge._agent.life
            torchhook.install(memgauge._agent.onimport._torch)
            print(sys.installed)
            """, path=(self.site,))
        self.assertEqual(got, "['torch']")


if __name__ == "__main__":
    unittest.main()
