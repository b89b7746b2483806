"""Which of several lines that add to a place has run."""
import unittest

import census_case
from memgauge._agent.census import census, executed
from census_case import take

branched, doubled, late = [], [], []


def line_of(mark):
    return census_case.line_of(__file__, mark)


def number(mark):
    return int(line_of(mark).rpartition(":")[2])


def add(kind):
    if kind == "never":
        branched.append(object())
    elif kind == "often":
        branched.append(object())  # often
    else:
        branched.extend([object()])


def never_called():
    branched.append(object())


def add_twice():
    doubled.append(object())  # once
    doubled.append(object())  # again


def add_later(now):
    if not now:
        late.append(object())  # at first
    else:
        late.append(object())  # later


class Executed(unittest.TestCase):
    def tearDown(self):
        for kept in (branched, doubled, late):
            kept.clear()

    def test_the_line_has_run(self):
        for _ in range(40):
            add("often")
        row = take(census.Memory()).holder("branched")
        if executed.TELLS:
            self.assertEqual((row["site"], "one of" in row["detail"]),
                             (line_of("often"), not executed.AT_ONCE), row)
        else:
            self.assertIn("; one of 4 lines: ", row["detail"])

    def test_lines_that_both_ran(self):
        for _ in range(20):
            add_twice()
        row = take(census.Memory()).holder("doubled")
        self.assertEqual(row["site"], line_of("once"))
        self.assertTrue(row["detail"].endswith("; one of 2 lines: %d, %d" % (number("once"), number("again"))), row)

    @unittest.skipUnless(executed.TELLS, "nothing tells before 3.11")
    def test_another_line_later(self):
        memory = census.Memory()
        for _ in range(20):
            add_later(False)
        self.assertEqual(take(memory).holder("late")["site"], line_of("at first"))
        for _ in range(20):
            add_later(True)
        for _ in range(3):
            row = take(memory).holder("late")
        self.assertIn("one of 2 lines", row["detail"])

    def test_lines_of_a_function(self):
        for _ in range(40):
            add("often")
        ran = executed.lines(add.__code__)
        self.assertEqual(ran.get(number("often")), True if executed.TELLS else None)
        self.assertEqual(ran.get(number("often") - 2), False if executed.TELLS else None)
        self.assertEqual(any(executed.lines(never_called.__code__).values()), False)
