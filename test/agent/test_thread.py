"""The exchange of control threads around forks, step by step; test_process.py has real forks."""
import unittest

from launch import PRELUDE, Home

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


class Patience(unittest.TestCase):
    def test_control_opens_however_long_another_thread_opens_the_ring(self):
        """On a busy machine that takes longer than the program's own threads would wait for it. In a forked child,
        whose thread begins late: it has not been there before the test."""
        home = Home()
        self.addCleanup(home.close)
        run = home.run(PRELUDE + """
def waits():
    frame = sys._current_frames().get(state.current.thread.ident)
    while frame is not None and frame.f_code.co_name != "ring":
        frame = frame.f_back
    return frame is not None
child = os.fork()
if not child:
    held = state.current.opening
    held.acquire()
    end = time.monotonic() + 20
    while not waits():
        assert time.monotonic() < end, "the thread asks for no ring"
        time.sleep(.005)
    end = time.monotonic() + 2 * recording.OPENING
    while time.monotonic() < end:
        time.sleep(.005)
    held.release()
    wait_ring()
else:
    assert os.waitpid(child, 0)[1] == 0
""")
        self.assertEqual(run.returncode, 0, run.stderr)
