"""The extension for notebooks with a stand-in for IPython's shell. With real kernels: test/e2e/notebooks_test.go."""
import contextlib
import gc
import io
import sys
import types
import unittest
import weakref
from unittest import mock

from ringfile import AGENT  # noqa: F401  (puts the agent on the path)
import memgauge
from memgauge.notebooks import cells, holdings, lines, session, show

ONE_PYTHON = "a stand-in for IPython, and calls of our own"

MIB = 1 << 20


class Held:
    """An object of the user's that can be referred to weakly."""

    def __init__(self, size):
        self.bytes = bytearray(size)


class Shell:
    """As much of InteractiveShell as the extension uses."""

    def __init__(self):
        out = {}
        self.user_ns = {"_oh": out, "Out": out, "In": [], "_": "", "__": "", "___": ""}
        self.user_ns_hidden, self.execution_count = {}, 1
        self.displayhook = types.SimpleNamespace(**{"_": "", "__": "", "___": ""})
        self.input_transformer_manager = types.SimpleNamespace(cleanup_transforms=[])
        self.magics_manager = types.SimpleNamespace(magics={"line": {}, "cell": {}})
        self.compile = types.SimpleNamespace(_filename_map={})
        self.called = {"pre_run_cell": [], "post_run_cell": []}
        self.events = types.SimpleNamespace(register=lambda name, f: self.called[name].append(f),
                                            unregister=lambda name, f: self.called[name].remove(f))

    def register_magic_function(self, function, kind, name):
        self.magics_manager.magics[kind][name] = function

    def transform_cell(self, source):
        return "".join(cells.unmark(source.splitlines(True)))

    def run(self, source):
        """Runs a cell, and returns what was printed."""
        info = types.SimpleNamespace(raw_cell=source, cell_id=None)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            for function in self.called["pre_run_cell"]:
                function(info)
            exec(compile(self.transform_cell(source), "cell", "exec"), self.user_ns)
            for function in self.called["post_run_cell"]:
                function(types.SimpleNamespace(info=info, result=None))
        return out.getvalue()

    def magic(self, line):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.magics_manager.magics["line"]["memgauge"](line)
        return out.getvalue()


class Notebooks(unittest.TestCase):
    def setUp(self):
        refuse = mock.Mock(side_effect=session.Refused("no memgauge here"))
        for patch in (mock.patch.object(session, "begin", refuse),
                      mock.patch.object(session, "observed", lambda: False),
                      mock.patch.object(show.Page, "put", lambda page: print("\n".join(page.text)))):
            patch.start()
            self.addCleanup(patch.stop)
        self.shell = Shell()
        with contextlib.redirect_stdout(io.StringIO()) as out:
            memgauge.load_ipython_extension(self.shell)
        self.addCleanup(memgauge.unload_ipython_extension, self.shell)
        self.loaded = out.getvalue()

    def test_without_a_session_it_says_so_and_works(self):
        self.assertIn("no memgauge here", self.loaded)
        self.assertIn("no memgauge here", self.shell.magic("verdict"))
        self.shell.user_ns["kept"] = bytearray(3 * MIB)
        self.assertRegex(self.shell.magic(""), r"kept +3\.00 MiB(?s:.*)no verdict")

    def test_what_a_cell_leaves_behind(self):
        said = self.shell.run("%%memgauge\nkept = []\nfor i in range(4):\n    kept.append(bytearray(1 << 20))")
        self.assertRegex(said, r"kept +\+4\.00 MiB +line 4")
        self.assertIn("left behind nothing", self.shell.run("%%memgauge\nfor i in range(4):\n    bytearray(1 << 20)"))

    def test_a_cell_that_leaks_each_time(self):
        self.shell.user_ns["kept"] = []
        said = [self.shell.run("kept.append(bytearray(4 << 20))") for _ in range(3)]
        self.assertEqual(said[0], "")
        self.assertRegex(said[1], r"each time it runs \(run 2\)(?s:.*)kept +\+4\.00 MiB +line 1")
        self.assertIn("(run 3)", said[2])

    def test_a_cell_that_replaces_what_it_made(self):
        self.assertEqual("".join(self.shell.run("model = bytearray(8 << 20)") for _ in range(4)), "")

    def test_results(self):
        ns, held = self.shell.user_ns, Held(2 * MIB)
        gone = weakref.ref(held)
        ns["Out"][7] = ns["_7"] = ns["_"] = self.shell.displayhook._ = self.shell.user_ns_hidden["_7"] = held
        ns["mine"] = held
        self.assertIn("nothing of 64 KiB", self.shell.magic("free"))     # it has a name
        del ns["mine"], held
        self.assertRegex(self.shell.magic("free"), r"results +Out\[7\]\S* +2\.00 MiB")
        self.assertIn("freed", self.shell.magic("free results"))
        gc.collect()
        self.assertIsNone(gone())
        self.assertEqual((ns["Out"], ns["_"]), ({}, ""))

    def test_the_last_error(self):
        def fails():
            held = Held(2 * MIB)
            gone.append(weakref.ref(held))
            raise KeyError("x")

        gone = []
        try:
            fails()
        except KeyError as error:
            sys.last_value = error
        self.addCleanup(sys.__dict__.pop, "last_value", None)
        self.assertRegex(self.shell.magic("free"), r"errors +sys\.last_value\.\S+.*held\S* +2\.\d+ MiB +KeyError")
        self.shell.magic("free errors")
        self.assertIsNone(gone[0]())

    def test_wrong_words(self):
        self.assertRegex(self.shell.magic("nonsense"), r"^memgauge: 'nonsense' is not known: .*free.*\n$")
        self.assertRegex(self.shell.magic("free everything"), r"^memgauge: free: 'everything' is not known: .*graphs")

    def test_an_error_of_ours_breaks_no_cell(self):
        with mock.patch.object(holdings, "look", side_effect=RuntimeError("ours")):
            self.assertEqual(self.shell.run("%%memgauge\nx = 1"), "")
            self.assertIn("failed: RuntimeError: ours", self.shell.magic("free"))
        self.assertEqual(self.shell.user_ns["x"], 1)

    def test_unload(self):
        memgauge.unload_ipython_extension(self.shell)
        self.assertEqual(self.shell.called, {"pre_run_cell": [], "post_run_cell": []})
        self.assertEqual(self.shell.magics_manager.magics, {"line": {}, "cell": {}})
        self.assertEqual(self.shell.input_transformer_manager.cleanup_transforms, [])


class Marks(unittest.TestCase):
    def test_the_line_is_taken_off_and_the_others_keep_their_numbers(self):
        for text, want in (("%%memgauge\nx\n", "\nx\n"), ("%%memgauge\n%%bash\nls\n", "%%bash\nls\n"),
                           ("x = 1\n%%memgauge\n", None), ("%%memgauge?\n", None), ("%%memgaugex\n", None)):
            self.assertEqual("".join(cells.unmark(text.splitlines(True))), text if want is None else want)

    def test_lines(self):
        finder = lines.Finder(Shell(), "x = 1\nx += [2]\nx")
        self.assertEqual(finder.find(["x"]), "line 2")
        self.assertEqual(finder.find(["Out[3]"]), "line 3")
        self.assertEqual(lines.Finder(Shell(), "x = (").find(["x"]), "")


if __name__ == "__main__":
    unittest.main()
