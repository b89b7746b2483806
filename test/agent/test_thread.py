"""The exchange of control threads around forks, step by step; test_process.py has real forks."""
import unittest

from memgauge._agent import state, thread


class Exchange(unittest.TestCase):
    def test_no_thread_is_forgotten(self):
        """A control thread that a fork did not wait for starts the next one at its end, while the fork after it finds
        it ended: the one that was forgotten then would import while a child was forked."""
        s = state.Process("/nowhere", (-1, -1))
        s.deadline, s.serve = 0, lambda s, run: run.wake.acquire()
        begun = []

        class Ending(thread.Thread):
            __slots__ = ()

            def ended(self, timeout):
                if not begun:
                    begun.append(self)
                    thread.start(s)
                return thread.Thread.ended(self, timeout)

        s.thread = Ending()
        s.thread.done.release()
        thread.stop(s, 20)
        self.assertIsNone(s.thread)
        self.assertTrue(thread.recent[-1].ended(0))
