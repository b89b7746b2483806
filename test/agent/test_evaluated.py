"""What an eval makes in the user's namespace is no evidence."""
import sys
import unittest

from memgauge._agent import state
from memgauge._agent.census import census
from memgauge._agent.evaluate import scope
from census_case import take


def evaluate(code):
    program = scope.Program(code, sys.modules["__main__"].__dict__)
    try:
        program.run()
    finally:
        program.close()


class Evaluated(unittest.TestCase):
    def setUp(self):
        self.main = sys.modules["__main__"].__dict__
        self.main["all_losses"] = [[i] for i in range(50)]

    def tearDown(self):
        for name in ("all_losses", "found", "again", "n"):
            self.main.pop(name, None)
        state.evaluated.clear()

    def holders(self):
        return {row["holder"]: row["length"] for row in take(census.Memory()).of("container")
                if row["holder"].startswith("__main__.")}

    def test_a_list_of_the_program_s_objects(self):
        evaluate("found = [n for n in all_losses]\nall_losses.clear()\nall_losses.extend([[2]] * 20)")
        self.assertEqual(len(self.main["found"]), 50)
        holders = self.holders()
        self.assertEqual((holders.get("__main__.all_losses"), holders.get("__main__.found")), (20, None))
        evaluate("found = found + found")      # made anew by another one
        self.assertNotIn("__main__.found", self.holders())

    def test_what_is_the_program_s(self):
        evaluate("again = all_losses")         # another name of it
        self.assertEqual(self.holders().get("__main__.all_losses"), 50)
        self.main["again"] = [[i] for i in range(30)]      # the program uses the name for itself
        self.assertEqual(self.holders().get("__main__.again"), 30)
        evaluate("all_losses = [[i] for i in range(40)]")  # its own variable
        self.assertEqual(self.holders().get("__main__.all_losses"), 40)
