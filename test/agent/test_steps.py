"""Which optimizer events end a step, over sequences of events: f is a root forward, a capital letter an optimizer."""
import random
import unittest

from ringfile import AGENT  # noqa: F401  (puts the agent on the path)
from memgauge._agent.observe.steps import Steps

ONE_PYTHON = "arithmetic"


def always(step):
    return True


def at_first(step):
    return step < 3


def now_and_then(step):
    return step < 3 or step % 10 == 0


def count(sequence, watched):
    steps, number = Steps(), 0
    for event in sequence:
        seen = watched(number)
        if not seen:
            steps.unwatched()
        if event != "f":
            number += steps.event(event, seen)
        elif seen:
            steps.forward()
    return number


class Sequences(unittest.TestCase):
    def check(self, sequence, want, off=0):
        for watched in (always, at_first, now_and_then):
            self.assertLessEqual(abs(count(sequence, watched) - want), off, watched.__name__)

    def test_plain(self):
        self.check("fA" * 100, 100)

    def test_accumulation(self):
        self.check("ffffA" * 50, 50)

    def test_gan(self):
        self.check("fDffG" * 100, 100, off=1)
        self.check("fDfG" * 3000, 3000, off=1)

    def test_critic_steps(self):
        # those before G was seen, and once more while the order is learned
        self.check(("fD" * 5 + "fG") * 50, 50, off=10)

    def test_warm_up_of_one(self):
        self.check("fD" * 300 + "fDfG" * 100, 400, off=1)

    def test_one_is_dropped(self):
        self.check("fAB" * 100 + "fA" * 100, 200)

    def test_one_training_after_another(self):
        self.check("fA" * 40 + "fB" * 40 + "fC" * 40, 120)

    def test_short_trainings_whose_optimizers_are_collected(self):
        draw = random.Random(3)
        for _ in range(300):
            steps, number, want, often = Steps(), 0, 0, draw.random()
            for training in range(draw.randint(2, 8)):
                steps.gone(training - 1)
                for _ in range(draw.randint(1, 25)):
                    watched = draw.random() < often
                    if watched:
                        steps.forward()
                    else:
                        steps.unwatched()
                    number += steps.event(training, watched)
                    want += 1
            self.assertEqual(number, want)

    def test_forwards_are_hidden_after_one_was_collected(self):
        steps, number = Steps(), 0
        for _ in range(40):
            steps.forward()
            number += steps.event("A", True)
        steps.gone("A")
        for _ in range(40):
            number += steps.event("B", True)
        self.assertEqual(number, 80)

    def test_one_of_two_is_collected(self):
        steps, number = Steps(), 0
        for event in "DG" * 20:
            number += steps.event(event, False)
        steps.gone("G")
        for event in "D" * 20:
            number += steps.event(event, False)
        self.assertLessEqual(abs(number - 40), 1)
        steps.gone("nobody")

    def test_evaluation_between(self):
        self.check(("fA" * 100 + "f" * 50) * 2, 200)

    def test_sub_groups(self):
        self.check("fAAAAAA" * 50, 50)

    def test_skipped_step_of_mixed_precision(self):
        self.check("fA" * 20 + "f" + "fA" * 20, 40)

    def test_no_modules(self):
        self.check("A" * 50, 50)

    def test_forwards_vanish_into_compiled_code(self):
        self.check("fA" * 3 + "A" * 100, 103, off=5)    # what the last window had not yet found out

    def test_forwards_vanish_and_trainings_follow_each_other(self):
        self.check("fA" * 40 + "D" * 40 + "E" * 40 + "fF" * 40, 160, off=5)

    def test_solo_needs_no_asking(self):
        steps = Steps()
        for _ in range(3):
            steps.forward()
            steps.event(7, True)
        self.assertEqual(steps.solo, 7)
        steps.event(8, True)
        self.assertIsNone(steps.solo)


if __name__ == "__main__":
    unittest.main()
