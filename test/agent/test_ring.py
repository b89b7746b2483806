"""The ring's writer: every record whole, from many threads and from signal handlers, and nothing raised."""
import errno
import os
import signal
import stat
import sys
import tempfile
import threading
import time
import unittest

from ringfile import HOST_VALUES, RingFile, S
from memgauge._agent.record import ring as ringmodule, slots
from memgauge._agent.record.ring import Ring

BIG = (1 << 64) - 1


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def ring(self, **kwargs):
        ring = Ring(self.directory.name, **kwargs)
        self.addCleanup(ring.close)
        return ring

    def read(self, ring):
        return RingFile(ring.path)


class Format(Case):
    def test_header_and_file(self):
        before = time.time_ns()
        ring = self.ring(generation=3, info=[("python", "3.x"), ("cwd", "a\tb\nc\\d")])
        got = self.read(ring)
        self.assertEqual((got.magic, got.major, got.minor), (S.MAGIC, S.MAJOR, S.MINOR))
        self.assertEqual((got.header_size, got.slot_size, got.slot_count, got.slots_offset), (4096, 64, 256, 4096))
        self.assertEqual((got.names_offset, got.names_size), (4096 + 256 * 64, 16384))
        self.assertEqual(len(got.raw), 4096 + 256 * 64 + 16384)
        self.assertEqual((got.head, got.state, got.rank, got.world_size), (0, S.STATE_LIVE, -1, -1))
        self.assertEqual((got.pid, got.generation), (os.getpid(), 3))
        self.assertEqual(got.start_ticks, ringmodule.start_ticks())
        self.assertNotEqual(got.ring_id, 0)
        self.assertTrue(before <= got.clock_wall <= time.time_ns())
        self.assertEqual(got.info, {"python": "3.x", "cwd": "a\\tb\\nc\\\\d"})
        status = os.stat(ring.path)
        self.assertEqual(stat.S_IMODE(status.st_mode), 0o600)
        self.assertGreaterEqual(status.st_blocks * 512, status.st_size, "not allocated in full")

    def test_large(self):
        got = self.read(self.ring(large=True))
        self.assertEqual((got.slot_count, got.names_size), (65536, 1 << 20))

    def test_every_kind_reads_back(self):
        ring = self.ring()
        ring.trace(5, 3, -1, 7, 1 << 31, 1, 2, 3, BIG, 1000)
        host = (6, 7, BIG) + (8,) * (HOST_VALUES - 3)
        ring.step(1, 65535, 9, 4, 5, host, 1001)
        ring.heap(0, 1, 2, 3, 4, 5, 6, 7, ts=1002)
        ring.device(0, 0, 2, 9, 0, 1, 2, 3, 4, ts=1003)
        ring.overhead(1, 0, 2, 3, 4, 5, 6, BIG, ts=1004)
        got = self.read(ring)
        self.assertEqual([(r.seq, r.ts, r.kind, r.fields) for r in got.records], [
            (1, 1000, "trace", (5, 3, -1, 7, 1 << 31, 1, 2, 3, BIG)),
            (2, 1001, "host", (0, 0, 9) + host),
            (3, 1001, "step_end", (1, 65535, 9, 4, 5, 0, BIG)),
            (4, 1002, "heap", (0, 1, 2, 3, 4, 5, 6, 7)),
            (5, 1003, "device", (0, 0, 2, 9, 0, 1, 2, 3, 4)),
            (6, 1004, "overhead", (1, 0, 2, 3, 4, 5, 6, BIG))])
        self.assertEqual(got.damaged, [])

    def test_time_is_clock_monotonic(self):
        for name in ("monotonic", "perf_counter"):
            self.assertEqual(time.get_clock_info(name).implementation, "clock_gettime(CLOCK_MONOTONIC)")
        ring, before = self.ring(), time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        ring.event("x")
        self.assertTrue(before <= self.read(ring).records[0].ts <= time.clock_gettime_ns(time.CLOCK_MONOTONIC))

    def test_info_is_bounded(self):
        ring = self.ring(info=[("python", "3"), ("argv", "\u20ac" * 5000), ("cwd", "\udcff" * 5000), ("late", "x")])
        got = self.read(ring)
        self.assertEqual(got.info, {"python": "3", "argv": "\u20ac" * 1000, "late": "x"})
        self.assertEqual(got.head, 0)

    def test_wrapping(self):
        ring = self.ring()
        for i in range(1, 1001):
            ring.step(0, 1, i, 0, 0)
        got = self.read(ring)
        self.assertEqual((got.head, got.damaged), (1000, []))
        self.assertEqual([r.fields[2] for r in got.records], list(range(745, 1001)))

    def test_events(self):
        ring = self.ring()
        ring.event("start")
        ring.event("eval", "x = '\u20ac' * 3\n" * 10, 1, -2, 1 << 62, -(1 << 63))
        ring.event("long", "\u20ac" * 5000)
        ring.event("surrogate", "\udc80")
        self.assertEqual(self.read(ring).events(), [
            ("start", "", 0, 0, 0, 0), ("eval", "x = '\u20ac' * 3\n" * 10, 1, -2, 1 << 62, -(1 << 63)),
            ("long", "\u20ac" * 666, 0, 0, 0, 0), ("surrogate", "\\udc80", 0, 0, 0, 0)])

    def test_rank(self):
        ring = self.ring()
        ring.set_rank(3, 8)
        ring.set_rank(1 << 40, 8)   # no int32: refused without a word
        got = self.read(ring)
        self.assertEqual((got.rank, got.world_size), (3, 8))


class Names(Case):
    def test_interned_once(self):
        ring = self.ring()
        self.assertEqual([ring.name(n) for n in ("a", "layers.0", "a", "", "\u20ac", "layers.0")], [1, 2, 1, 3, 4, 2])
        self.assertEqual(self.read(ring).names, ["a", "layers.0", "", "\u20ac"])

    def test_long_names_keep_both_ends(self):
        ring = self.ring()
        exact, long = "x" * 1024, "\u20ac" * 50000 + "y" * 50000
        self.assertEqual((ring.name(exact), ring.name(long), ring.name(long)), (1, 2, 2))
        first, second = self.read(ring).names
        self.assertEqual(first, exact)
        self.assertEqual(second, "\u20ac" * 160 + "\u2026[99360 characters]\u2026" + "y" * 480)

    def test_borders_of_characters(self):
        ring = self.ring()
        ring.name("a" + "\u20ac" * 1000 + "bb")     # 480 bytes end inside a character, at both ends
        self.assertEqual(self.read(ring).names, ["a" + "\u20ac" * 159 + "\u2026[682 characters]\u2026" + "\u20ac" * 159
                                                 + "bb"])

    def test_no_room(self):
        ring = self.ring()
        numbers = [ring.name("module.%d" % i + "x" * 90) for i in range(300)]
        kept = numbers.index(0)
        self.assertEqual(numbers, list(range(1, kept + 1)) + [0] * (300 - kept))
        got = self.read(ring)
        self.assertEqual((len(got.names), got.names_dropped), (kept, 300 - kept))
        self.assertLessEqual(got.names_head, got.names_size)
        self.assertEqual(ring.name("module.3" + "x" * 90), 4)


class Guest(Case):
    """Nothing is raised into the caller."""

    def test_values_that_do_not_fit(self):
        ring = self.ring()
        ring.step(0, 70000, 1, 0, 0)
        ring.step(0, 1, 1, -1, 0)
        ring.trace(0, 0, 0, 0, 0, None, 0, 0, 0)
        ring.heap(1, 2)
        ring.step(0, 1, 2, 0, 0)
        got = self.read(ring)
        self.assertEqual(([r.fields[2] for r in got.records], got.damaged, got.head), ([2], [], 1))
        self.assertEqual(ring.errors, [4])

    def test_closed(self):
        ring = self.ring()
        ring.name("a")
        ring.close()
        ring.close()
        ring.trace(0, 0, 0, 0, 0, 0, 0, 0, 0)
        ring.step(0, 1, 1, 0, 0)
        ring.event("x", "y")
        ring.set_rank(1, 2)
        self.assertEqual((ring.name("a"), ring.name("b")), (1, 0))
        got = self.read(ring)
        self.assertEqual((got.head, got.state), (0, S.STATE_CLOSED))

    def test_unmapping_spares_a_descriptor_of_the_users(self):
        """A daemon closes every descriptor, mmap's duplicate among them, and opens its own files at these numbers."""
        before = set(os.listdir("/proc/self/fd"))
        ring = self.ring()
        mine = [int(fd) for fd in set(os.listdir("/proc/self/fd")) - before]
        mine = [fd for fd in mine if os.path.exists("/proc/self/fd/%d" % fd)
                and os.path.isfile("/proc/self/fd/%d" % fd)]
        self.assertEqual(len(mine), 0 if sys.version_info >= (3, 13) else 1)
        for fd in mine:
            os.close(fd)
            os.dup2(0, fd)
            self.addCleanup(os.close, fd)
        ring.close()
        for fd in mine:
            os.fstat(fd)

    def test_full_disk(self):
        real = os.posix_fallocate

        def full(fd, offset, size):
            raise OSError(errno.ENOSPC, "No space left on device")
        os.posix_fallocate = full
        try:
            with self.assertRaises(OSError):
                Ring(self.directory.name)
        finally:
            os.posix_fallocate = real
        self.assertEqual(os.listdir(self.directory.name), [], "a file was left behind")


class Threads(Case):
    def hammer(self, ring, threads, records):
        def work(me):
            for i in range(records):
                ring.trace(1, 0, -1, me, i, me, i, me ^ i, BIG)
        crew = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
        for t in crew:
            t.start()
        for t in crew:
            t.join()

    def check(self, ring, threads, records):
        got = self.read(ring)
        self.assertEqual((got.damaged, ring.errors), ([], [0]))
        self.assertEqual(got.head + ring.lost, threads * records)
        self.assertEqual([r.seq for r in got.records], list(range(got.head - len(got.records) + 1, got.head + 1)))
        for r in got.records:
            stage, flags, device, me, i, a, b, c, d = r.fields
            self.assertEqual((a, b, c, d), (me, i, me ^ i, BIG))
        return got

    def test_eight_threads(self):
        """A holder that is preempted may be away for many turns of 5 ms: more than the queue holds is lost, and
        counted."""
        ring = self.ring(large=True)
        self.hammer(ring, 8, 20000)
        self.check(ring, 8, 20000)

    def test_threads_that_do_other_things(self):
        """As a trainer's: between records they wait for something. Nothing is lost."""
        ring, go = self.ring(large=True), threading.Event()

        def work(me):
            for i in range(500):
                ring.trace(1, 0, -1, me, i, me, i, me ^ i, BIG)
                go.wait(1e-5)
        crew = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for t in crew:
            t.start()
        for t in crew:
            t.join()
        self.assertEqual((self.check(ring, 8, 500).head, ring.lost), (4000, 0))

    def test_names_from_threads(self):
        ring, numbers = self.ring(large=True), []

        def work():
            for i in range(500):
                number = 0
                while not number:    # 0: another thread was writing a name
                    number = ring.name("module.%d" % i)
                numbers.append((i, number))
        crew = [threading.Thread(target=work) for _ in range(4)]
        for t in crew:
            t.start()
        for t in crew:
            t.join()
        names = self.read(ring).names
        self.assertEqual((len(set(numbers)), len(names)), (500, 500))
        for i, number in numbers:
            self.assertEqual(names[number - 1], "module.%d" % i)


class Signals(Case):
    def timer(self, handler):
        old = signal.signal(signal.SIGALRM, handler)
        self.addCleanup(signal.signal, signal.SIGALRM, old)
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)

    def arm(self, turn):
        """One alarm, at another place in the code each time; repeating ones could interrupt their own handler."""
        signal.setitimer(signal.ITIMER_REAL, 2e-6 + turn % 97 * 3e-7)

    def test_handler_that_writes(self):
        ring, hits = self.ring(large=True), [0]

        def handler(*_):
            hits[0] += 1
            ring.event("signal", "interrupted", hits[0])
        self.timer(handler)
        count, armed = 0, -1
        while hits[0] < 500:
            if armed != hits[0]:
                armed = hits[0]
                self.arm(armed)
            count += 1
            ring.step(0, 1, count, 0, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        ring.event("end")
        got = self.read(ring)
        self.assertEqual((got.damaged, ring.lost, ring.errors), ([], 0, [0]))
        self.assertEqual(got.head, count + hits[0] * 2 + 1)     # an event with one piece of text is two records
        self.assertEqual(len([e for e in got.events() if e[0] == "signal"]), min(hits[0], len(got.events()) - 1))

    def test_handler_that_raises(self):
        """KeyboardInterrupt may land on any bytecode; the ring goes on, even where the token was lost."""
        class Stop(Exception):
            pass

        def handler(_, frame):
            fired.append(1)
            if frame.f_code.co_filename == slots.__file__:
                raise Stop
        ring, caught, turn, fired = self.ring(large=True), 0, 0, []
        self.timer(handler)
        end = time.monotonic() + 20
        while caught < 500 and time.monotonic() < end:
            try:
                turn += 1
                self.arm(turn)
                while not fired:
                    ring.step(0, 1, 1, 0, 0)
            except Stop:
                caught += 1
            del fired[:]
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.assertGreater(caught, 100)
        for i in range(slots.SUSPECT + 1):     # so many at most until a lost token is noticed
            ring.step(0, 1, 7777, 0, 0)
        ring.event("end")
        got = self.read(ring)
        self.assertEqual((got.damaged, ring.lost), ([], 0))
        self.assertEqual(got.events()[-1][0], "end")

    def test_lost_token_is_found(self):
        ring = self.ring()
        ring.put.__self__.token.pop()       # as an exception between the pop and the try would
        for i in range(1, slots.SUSPECT):
            ring.step(0, 1, i, 0, 0)
        self.assertEqual(ring.head, 0)
        ring.step(0, 1, slots.SUSPECT, 0, 0)
        self.assertEqual([r.fields[2] for r in self.read(ring).records], list(range(1, slots.SUSPECT + 1)))

    def test_a_held_token_is_left_alone(self):
        """The holder is further down in this very thread, as under a signal handler."""
        ring = self.ring()
        seen = []

        def pack(*_):       # in the place of a struct: runs while the token is taken
            for i in range(3 * slots.SUSPECT):
                ring.step(0, 1, i, 0, 0)
            seen.append(ring.head)
        ring.put(1, ((pack, ()),))
        self.assertEqual(seen, [0])
        self.assertEqual(ring.head, 1 + 3 * slots.SUSPECT)


if __name__ == "__main__":
    unittest.main()
