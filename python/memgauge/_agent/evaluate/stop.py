"""A thread of the program that is stopped while clients' code runs."""
import _thread
import os

from .. import mainthread, state, torchhook

MAIN, STEP, IDLE, ASKED = range(4)   # places; a request's is MAIN, STEP or ASKED

TURN = 0.25         # s between two looks of a stopped thread at what it waits for
# s after which a stopped thread keeps the code's time itself: our control thread is gone, or in a fork
LATE = 1.0


class Stop:
    """A stop of the calling thread for some visits."""

    def __init__(self, place, visits):
        from collections import deque
        self.place, self.visits, self.openers = place, list(visits), list(visits)
        self.ident, self.pid = _thread.get_ident(), os.getpid()
        self._untold = list(visits)  # they must still be told to begin
        self.open = [True]           # others may join
        self.calls = deque()         # what is to be called on this thread
        self.device = _device()
        self._wake = _thread.allocate_lock()
        self._wake.acquire()

    def wake(self):
        try:
            self._wake.release()
        except RuntimeError:         # it is awake
            pass

    def run(self):
        """Returns when the code of all has ended. Raises what a signal handler of the program's has raised meanwhile,
        which may come between any two bytecodes of this method's."""
        raised = None
        mainthread.stopped = self
        while True:
            try:
                self._begin()
                if raised is not None:
                    self._end_all()          # Ctrl-C: the trainer's wish comes first
                if self._ended():
                    break
                self._turn()
            except BaseException as error:
                if ours(error):
                    tell_error()
                    break
                raised = raised or error
                error = None
        self.abandon()
        if raised is not None:
            try:
                raise raised
            finally:
                raised = None

    def abandon(self):
        """Lets the thread continue, however far run() has come. Code that needs the thread stopped is interrupted."""
        mainthread.stopped = None
        if os.getpid() == self.pid:
            self._end_all()

    def _begin(self):
        """Lets the visits begin. After an interruption it is called again, so each line may run twice."""
        while self._untold:
            visit = self._untold[-1]
            if visit.place != IDLE:
                visit.stop, visit.place = self, self.place
                visit.let_go()
            del self._untold[-1:]

    def _end_all(self):
        for visit in list(self.visits):
            if not visit.over:
                visit.job.interrupt()
                visit.job.look()

    def _ended(self):
        if os.getpid() != self.pid:  # a signal handler has forked: the visits are in the parent
            return True
        if self.open and all(v.over for v in self.openers):
            del self.open[:]         # visits that have joined are waited for; later ones get the next stop
        return not self.open and all(v.over for v in list(self.visits))

    def _turn(self):
        self._wake.acquire(True, TURN)
        while self.calls:
            try:
                function, done = self.calls.popleft().pop()
            except IndexError:       # the caller has stopped waiting
                continue
            try:
                function()
            finally:
                done.release()
        for visit in list(self.visits):
            if not visit.over:
                visit.job.keep_time(LATE)

    def call(self, function, wait):
        """Has the stopped thread call the function; False if it did not within `wait` seconds."""
        done = _thread.allocate_lock()
        done.acquire()
        call = [(function, done)]
        self.calls.append(call)
        self.wake()
        if not wait or done.acquire(True, wait):
            return True
        try:
            call.pop()
            return False
        except IndexError:           # it has just begun
            return done.acquire(True, wait)


def _device():
    """CUDA's current one, of this thread; None where there is no choice."""
    try:
        cuda = torchhook.cuda()
        return cuda.current_device() if cuda is not None and cuda.device_count() > 1 else None
    except (AssertionError, AttributeError, RuntimeError):  # a driver that fails
        return None


def ours(error):
    """Whether it was raised by our own code and not by a signal handler that runs on this thread."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is None or trace.tb_frame.f_code.co_filename.startswith(state.PACKAGE) and not _interrupt(error)


def _interrupt(error):
    """Python's own handler of SIGINT is a C function: it has no frame."""
    return isinstance(error, KeyboardInterrupt)


def tell_error():
    state.error("eval")
