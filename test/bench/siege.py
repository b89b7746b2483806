"""Hostile acts, chosen by chance, against live trainings whose losses are known: by the user of a session and by the
trainings' own programs (siege_acts.py), by other users and by files (siege_others.py). Must run as root, which becomes
the other users.

Three things are looked at. Harmed: a training that died, hung, or whose losses are not, bit for bit, those of a run
that nobody observed. Touched: a file outside of the sessions that differs (text, inode, time, mode, owner, or its being
there), looked at after every act: the home and working directory of each user, and a finished session of each that no
act is about. Leaked: a planted secret in any file, or any row, of any session. Promises of docs/security.md that an act
saw broken (an answer for another user, a crash, code that ran) are told too.

Usage: siege.py [--acts 200] [--side-by-side 3] [--seed N] [--classes CLASS,…] [--memgauge bin/memgauge]
    [--python PYTHON] [--other-python PYTHON]
Ctrl-C ends it after the act that is under way. Prints one JSON object; exits 1 when anything was harmed, touched,
leaked or broken.
"""

import argparse
import glob
import hashlib
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

import siege_acts
import siege_others
from siege_acts import LIMIT, OTHER, ROOT, THIRD
from stress import ROOT as CHECKOUT, VICTIM, children, is_victim

ACTS = dict(siege_acts.ACTS, **siege_others.ACTS)
MOST_MEMORY = 2 << 30  # bytes that any command may have: docs/security.md's bound for hostile files, the largest of all
TABLES = """SELECT table_schema || '.' || table_name AS name FROM information_schema.tables
    WHERE table_schema NOT IN ('main', 'information_schema')"""
DISK = 96 << 20  # bytes of the small disk: room for a session, and soon full
# Shape of the training, how it is observed, whose program it is. The first one's session lies on the small disk.
KINDS = [
    ("plain", "run", ROOT),
    ("workers", "attach", ROOT),
    ("plain", "run", OTHER),
    ("workers", "run", ROOT),
    ("plain", "attach", OTHER),
]


class Tally:
    """What was done, and what it did."""

    def __init__(self):
        self.acts, self.trainings, self.steps, self.skipped = {}, {}, 0, []
        self.harmed, self.touched, self.leaked, self.broken = [], [], [], []
        self.now = ""  # the act that is under way

    def fault(self, kind, text):
        text = "%s: %s" % (self.now, text[-1500:])
        getattr(self, kind).append(text)
        print(kind.upper(), text, file=sys.stderr, flush=True)

    def total(self):
        return len(self.harmed) + len(self.touched) + len(self.leaked) + len(self.broken)


class Arena:
    """The directory of one siege: the users' homes, their canaries, a small disk, and what is made meanwhile."""

    def __init__(self, o):
        self.dir = tempfile.mkdtemp(prefix="memgauge-siege-")
        os.chmod(self.dir, 0o711)
        self.memgauge, self.victim = self.path("memgauge"), self.path("victim.py")
        shutil.copy(o.memgauge, self.memgauge)
        shutil.copy(VICTIM, self.victim)
        os.chmod(self.memgauge, 0o755)
        os.chmod(self.victim, 0o644)
        for uid in (ROOT, OTHER, THIRD):
            self.plant_canaries(uid)
            self.make("home-%d" % uid, 0o700, uid)
        self.make("tmp", 0o1777, ROOT)
        self.disk = self.make("disk", 0o700, ROOT)
        self.mounted = (
            subprocess.call(
                ["mount", "-t", "tmpfs", "-o", "size=%d,mode=700" % DISK, "none", self.disk], stderr=subprocess.DEVNULL
            )
            == 0
        )

    def path(self, name):
        return os.path.join(self.dir, name)

    def home(self, uid):
        return self.path("home-%d" % uid)

    def canary(self, uid):
        return self.path("canary-%d" % uid)

    def make(self, name, mode, uid):
        path = self.path(name)
        os.mkdir(path)
        os.chmod(path, mode)
        os.chown(path, uid, uid)
        return path

    def plant_canaries(self, uid):
        top = self.make("canary-%d" % uid, 0o755, uid)
        for name in (
            ".bashrc",
            ".ssh/authorized_keys",
            "session.json",
            "session.duckdb",
            "owner.lock",
            "collector.log",
            "1.2.0.ring",
            "model.pt",
        ):
            path = os.path.join(top, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as f:
                f.write("precious %d %s\n" % (uid, name) * 50)
            os.chown(path, uid, uid)

    def free_disk(self):
        """Takes away what the act `disk full` has left on the small disk."""
        if os.path.exists(self.disk + "/hog"):
            os.remove(self.disk + "/hog")

    def environment(self, uid):
        return {
            "PATH": os.environ["PATH"],
            "HOME": self.canary(uid),
            "MEMGAUGE_HOME": self.home(uid),
            "TMPDIR": self.path("tmp"),
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def remove(self):
        if self.mounted:
            subprocess.call(["umount", "-l", self.disk])
        shutil.rmtree(self.dir, ignore_errors=True)


def state(top):
    """Of every file below top, and of top: what it is and what it says."""
    seen = {}
    for at, dirs, files in os.walk(top):
        for path in [at] + [os.path.join(at, name) for name in files + dirs]:
            s = os.lstat(path)
            said = os.readlink(path) if stat.S_ISLNK(s.st_mode) else ""
            if stat.S_ISREG(s.st_mode):
                with open(path, "rb") as f:
                    said = hashlib.sha256(f.read()).hexdigest()
            seen[path] = (s.st_ino, s.st_mode, s.st_uid, s.st_gid, s.st_mtime_ns, said)
    return seen


class Answer:
    def __init__(self, code, out, err, peak):
        self.code, self.out, self.err, self.peak = code, out, err, peak


def wait(process, seconds):
    """Most bytes that it had in memory, or None where it goes on."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return usage.ru_maxrss << 10
        time.sleep(0.005)
    return None


class Training:
    def __init__(self, siege, number):
        self.siege, self.number = siege, number
        self.shape, self.how, self.uid = siege.kinds[number % len(siege.kinds)]
        self.owner = self.uid if self.how == "run" else ROOT  # of the session
        self.python = siege.o.python if self.uid == ROOT else siege.o.other_python
        self.acts_left = random.randint(5, siege.o.life)
        self.out = os.path.join(siege.arena.make("out-%d" % number, 0o777, self.uid), "losses")
        self.log = open(siege.arena.path("log-%d" % number), "w+b")
        self.process = self.start()
        self.pid = self.session = None
        self.changed = False  # has become another user since

    def start(self):
        command = [self.python, self.siege.arena.victim, self.shape, "1000000000", self.out]
        if self.how == "run":
            where = ["--name", self.name()]
            if self.on_small_disk():
                self.siege.arena.free_disk()  # a run refuses to begin a session on a full one
                where += ["--session", os.path.join(self.siege.arena.disk, self.name()), "--max-disk", "64MiB"]
            command = [self.siege.arena.memgauge, "run", "--quiet"] + where + ["--"] + command
        return self.siege.popen(self.uid, command, stdout=self.log, stderr=self.log)

    def name(self):
        return "siege%d" % self.number

    def kind(self):
        return "%s, %s, uid %d" % (self.shape, self.how, self.uid)

    def told(self):
        return "%s (%s)" % (self.name(), self.kind())

    def on_small_disk(self):
        return self.siege.arena.mounted and self.siege.kinds[self.number % len(self.siege.kinds)] == KINDS[0]

    def text(self):
        with open(self.log.name, "rb") as f:
            return f.read().decode("utf-8", "replace")

    def going(self):
        return self.process.poll() is None

    def ready(self):
        end = time.monotonic() + LIMIT
        while "ready" not in self.text():
            if not self.going() or time.monotonic() > end:
                self.siege.tally.fault("harmed", "%s did not start: %s" % (self.name(), self.text()))
                return False
            time.sleep(0.02)
        if self.how == "attach":
            self.pid = self.process.pid
            self.siege.ask(ROOT, "attach", "--name", self.name(), str(self.pid), fine=(0,))
        else:
            self.pid = [pid for pid in children(self.process.pid) if is_victim(pid)][0]
        self.find_session()
        while not self.observed():
            if not self.going() or time.monotonic() > end:
                self.siege.tally.fault("broken", "%s is not observed" % self.told())
                return True
            time.sleep(0.02)
        return True

    def observed(self):
        """Whether it has a ring; where the disk may be full it need not have one."""
        return self.on_small_disk() or bool(glob.glob(self.session + "/rings/*"))

    def find_session(self):
        """The newest: it may have been left, and attached to again."""
        if self.on_small_disk():
            self.session = os.path.join(self.siege.arena.disk, self.name())
            return
        found = glob.glob(os.path.join(self.siege.arena.home(self.owner), "sessions", self.name() + "-*"))
        self.session = max(found, key=lambda path: os.stat(path).st_ctime_ns)

    def do(self, code):
        """Has the program do something to itself; waits until it has."""
        with open(self.out + ".part", "w") as f:
            f.write(code)
        os.rename(self.out + ".part", self.out + ".do")
        end = time.monotonic() + LIMIT
        while os.path.exists(self.out + ".do") and self.going():
            if time.monotonic() > end:
                self.siege.tally.fault("harmed", "%s does not come to its next step" % self.name())
                return
            time.sleep(0.01)

    def finish(self):
        with open(self.out + ".stop", "w"):
            pass
        try:
            code = self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            code = "hangs"
            os.kill(self.pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()
        trainings = self.siege.tally.trainings
        trainings[self.kind()] = trainings.get(self.kind(), 0) + 1
        if code != 0:
            self.siege.tally.fault("harmed", "%s ended with %s: %s" % (self.told(), code, self.text()))
            return
        with open(self.out) as f:
            losses = json.load(f)["losses"]
        self.siege.losses.append((self, losses))
        sql = "SELECT count(*) FROM memgauge.processes"
        count = self.siege.question(self, "query", "-f", "csv", sql, fine=(0,))
        if count.out.split()[-1:] in ([], ["0"]) and not self.on_small_disk():
            self.siege.tally.fault("broken", "%s: its session knows no process: %r" % (self.name(), count.out))


class Siege:
    def __init__(self, o):
        self.o, self.tally, self.arena, self.began = o, Tally(), Arena(o), time.monotonic()
        self.trainings, self.losses, self.numbers = [], [], 0
        self.secrets, self.told = {}, set()  # the text -> where it was planted; (user, session) that was told one
        self.files = 0  # that were searched for secrets
        self.enough = False
        signal.signal(signal.SIGINT, lambda *_: setattr(self, "enough", True))
        self.hangers = []  # (how to end it, at which act): what stays for some acts
        self.kinds = [kind for kind in KINDS if kind[2] == ROOT or self.other_has_torch()]
        if len(self.kinds) < len(KINDS):
            self.tally.skipped.append("trainings of the other user: %s has no torch for it" % o.other_python)
        if not self.arena.mounted:
            self.tally.skipped.append("the small disk: no file system can be mounted")

    def other_has_torch(self):
        return self.popen(OTHER, [self.o.other_python, "-c", "import torch"], stderr=subprocess.DEVNULL).wait() == 0

    def popen(self, uid, command, env=None, cwd=None, **more):
        return subprocess.Popen(
            command,
            user=uid,
            group=uid,
            extra_groups=[],
            cwd=cwd or self.arena.canary(uid),
            env=dict(self.arena.environment(uid), **env or {}),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            **more
        )

    def ask(self, uid, *arguments, fine=None, env=None, cwd=None, seconds=LIMIT):
        """Runs memgauge as that user. However it ends, it must end, in bounded memory, and not by a crash."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            p = self.popen(uid, [self.arena.memgauge] + list(arguments), env, cwd, stdout=out, stderr=err)
            peak = wait(p, seconds)
            if peak is None:
                p.kill()
                p.wait()
            out.seek(0), err.seek(0)
            said = [f.read(64 << 20).decode("utf-8", "replace") for f in (out, err)]
        answer = Answer(p.returncode, *said, peak or 0)
        what = "memgauge %s: exit %s: %s" % (" ".join(arguments)[:300], answer.code, answer.err)
        if peak is None:
            self.tally.fault("broken", "hangs: " + what)
        elif answer.code < 0 or "goroutine " in answer.err or "SIGSEGV" in answer.err:
            self.tally.fault("broken", "crashed: " + what)
        elif answer.peak > MOST_MEMORY:
            self.tally.fault("broken", "took %d MiB: %s" % (answer.peak >> 20, what))
        elif fine is not None and answer.code not in fine:
            self.tally.fault("broken", what)
        return answer

    def question(self, t, command, *arguments, **more):
        """Asks about a training, as who may."""
        return self.ask(t.owner, command, "--session", t.session, *arguments, **more)

    def secret(self, where):
        text = "s3cret-%016x" % random.getrandbits(64)
        self.secrets[text] = where
        return text

    def start_training(self):
        training = Training(self, self.numbers)
        self.numbers += 1
        if training.ready():
            self.trainings.append(training)

    def bystanders(self):
        """A finished session of each user, beside those that acts are about."""
        job = ["--", self.o.other_python, "-c", "import time; time.sleep(.3)"]
        for uid in (ROOT, OTHER):
            self.ask(uid, "run", "--quiet", "--name", "bystander", *job, fine=(0,))
        found = [glob.glob(os.path.join(self.arena.home(uid), "sessions", "bystander-*"))[0] for uid in (ROOT, OTHER)]
        end = time.monotonic() + LIMIT
        while any(siege_acts.collectors(path) for path in found) and time.monotonic() < end:
            time.sleep(0.02)
        return found

    def outside(self, bystanders):
        seen = {}
        for top in [self.arena.canary(uid) for uid in (ROOT, OTHER, THIRD)] + bystanders:
            seen.update(state(top))
        return seen

    def look_outside(self, before, bystanders):
        now = self.outside(bystanders)
        for path in sorted(set(before) | set(now)):
            if before.get(path) != now.get(path):
                self.tally.fault("touched", "%s: %s, was %s" % (path, now.get(path), before.get(path)))
        return now

    def act(self, number, kinds):
        for training in [t for t in self.trainings if t.acts_left <= 0 or not t.going()]:
            self.trainings.remove(training)
            training.finish()
        while len(self.trainings) < self.o.side_by_side:
            self.start_training()
        for hanger in [h for h in self.hangers if h[1] <= number]:
            hanger[0]()
            self.hangers.remove(hanger)
        name = random.choice(kinds)
        training = random.choice(self.trainings)
        training.acts_left -= 1
        self.tally.now = "act %d, %s, against %s" % (number, name, training.told())
        print("%4.0f s" % (time.monotonic() - self.began), self.tally.now, file=sys.stderr, flush=True)
        self.tally.acts[name] = self.tally.acts.get(name, 0) + 1
        ACTS[name](self, training, number)

    def end(self):
        self.tally.now = "at the end"
        for hanger in self.hangers:
            hanger[0]()
        for training in self.trainings:
            training.finish()
        self.compare()
        for training in {t for t, _ in self.losses}:
            end = time.monotonic() + LIMIT
            while siege_acts.collectors(training.session) and time.monotonic() < end:
                time.sleep(0.02)
        self.look_for_secrets()
        left = [name for name in os.listdir(self.arena.path("tmp")) if "memgauge" in name]
        if left:
            self.tally.fault("touched", "left in the directory for temporary files: %s" % left)

    def compare(self):
        """The losses with those of runs that nobody observed, which go on as long as the longest."""
        longest = {}
        for training, losses in self.losses:
            key = (training.shape, training.uid, training.python)
            longest[key] = max(longest.get(key, 0), len(losses) // 16)  # hex digits of a double
        runs = {}
        for number, (key, steps) in enumerate(longest.items()):
            out = os.path.join(self.arena.make("bare-%d" % number, 0o700, key[1]), "losses")
            runs[key] = out, self.popen(
                key[1], [key[2], self.arena.victim, key[0], str(steps), out], stdout=subprocess.DEVNULL
            )
        bare = {}
        for key, (out, process) in runs.items():
            process.wait()
            with open(out) as f:
                bare[key] = json.load(f)["losses"]
        for training, losses in self.losses:
            self.tally.steps += len(losses) // 16
            if not losses or not bare[training.shape, training.uid, training.python].startswith(losses):
                self.tally.fault("harmed", "%s: its losses differ" % training.told())

    def look_for_secrets(self):
        for top in [self.arena.home(uid) for uid in (ROOT, OTHER, THIRD)] + [self.arena.disk]:
            self.look_in_files(top)
        for uid, session in sorted(self.told):
            self.look_in_rows(uid, session)

    def look_in_files(self, top):
        for at, _, files in os.walk(top):
            for path in (os.path.join(at, name) for name in files):
                try:
                    if stat.S_ISREG(os.lstat(path).st_mode):
                        with open(path, "rb") as f:
                            self.look_in(path, f.read())
                        self.files += 1
                except FileNotFoundError:  # a live session's may go meanwhile
                    pass

    def look_in_rows(self, uid, session):
        """A database compresses its texts."""
        tables = self.ask(uid, "query", "--session", session, "-f", "csv", TABLES, fine=(0,)).out.split()[1:]
        if len(tables) < 10:
            self.tally.fault("broken", "%s has the tables %s" % (session, tables))
        for table in tables:
            rows = self.ask(uid, "query", "--session", session, "-f", "csv", "SELECT * FROM " + table, fine=(0,))
            self.look_in(session + " " + table, rows.out.encode())

    def look_in(self, path, data):
        for text, where in self.secrets.items():
            if text.encode() in data:
                begin = max(0, data.find(text.encode()) - 60)
                beside = data[begin : begin + 160].decode("utf-8", "replace")
                self.tally.fault("leaked", "%s has the secret of %s: %r" % (path, where, beside))

    def run(self):
        bystanders = self.bystanders()
        before = self.outside(bystanders)
        kinds = [name for name in self.o.classes if self.arena.mounted or name != "disk full"]
        for number in range(self.o.acts):
            if self.enough:
                break
            self.act(number, kinds)
            before = self.look_outside(before, bystanders)
        self.end()
        self.look_outside(before, bystanders)

    def close(self):
        for training in self.trainings:
            for pid in [training.pid, training.process.pid]:
                if training.going() and pid:
                    os.kill(pid, signal.SIGKILL)
        for pid in siege_acts.processes_of(self.arena.dir):
            os.kill(pid, signal.SIGKILL)
        self.arena.remove()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--acts", type=int, default=200)
    p.add_argument("--side-by-side", type=int, default=3)
    p.add_argument("--life", type=int, default=30, help="acts against one training, at most")
    p.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    p.add_argument("--classes", type=lambda s: s.split(","), default=sorted(ACTS))
    p.add_argument("--memgauge", default=os.path.join(CHECKOUT, "bin", "memgauge"))
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--other-python", default="/usr/bin/python3", help="one that other users can start")
    o = p.parse_args()
    if os.getuid() != 0:
        p.error("must run as root, which becomes the other users")
    print("seed", o.seed, file=sys.stderr, flush=True)
    random.seed(o.seed)
    siege = Siege(o)
    try:
        siege.run()
    finally:
        siege.close()
    t = siege.tally
    print(
        json.dumps(
            {
                "seed": o.seed,
                "seconds": round(time.monotonic() - siege.began),
                "acts": sum(t.acts.values()),
                "by class": dict(sorted(t.acts.items())),
                "trainings": t.trainings,
                "steps compared": t.steps,
                "secrets planted": len(siege.secrets),
                "files searched": siege.files,
                "harmed": t.harmed,
                "touched": t.touched,
                "leaked": t.leaked,
                "broken": t.broken,
                "skipped": t.skipped,
            },
            indent=1,
            ensure_ascii=False,
        )
    )
    return 1 if t.total() else 0


if __name__ == "__main__":
    sys.exit(main())
