"""The acts of siege.py by others: other users, and files that come from elsewhere. As in siege_acts.py."""

import glob
import gzip
import io
import os
import pickle
import random
import shutil
import signal
import socket
import stat
import subprocess

from siege_acts import ESCAPE, OTHER, THIRD, as_user, collectors, keepers, send_signal, sockets


def damage(path, canary):
    how = random.choice(["cut", "noise", "link", "directory", "pipe", "huge", "empty"])
    size = os.path.getsize(path)
    if how == "cut":
        os.truncate(path, random.randint(0, size))
    elif how == "huge":
        os.truncate(path, 1 << 40)
    elif how == "noise":
        with open(path, "r+b") as f:
            for _ in range(random.choice([1, 20, 500])):
                f.seek(random.randrange(max(size, 1)))
                f.write(os.urandom(random.choice([1, 8])))
    else:
        os.remove(path)
        if how == "link":
            os.symlink(canary, path)
        elif how == "directory":
            os.mkdir(path)
        elif how == "pipe":
            os.mkfifo(path)
        else:
            open(path, "w").close()
    return how


def copied(session, to):
    """A copy of a session that may be live, without its sockets and without what ends meanwhile."""

    def no_sockets(at, names):
        return [name for name in names if not plain(os.path.join(at, name))]

    def copy(source, target):
        try:
            return shutil.copy2(source, target)
        except FileNotFoundError:  # a ring that was drained, a file of DuckDB's
            return target

    shutil.copytree(session, to, ignore=no_sockets, copy_function=copy, ignore_dangling_symlinks=True)
    return to


def plain(path):
    """Whether it is a file or a directory, and still there."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def damaged_session(siege, t, number):
    """Another session, made of this one; asked by its own user."""
    copy = copied(t.session, siege.arena.path("damaged-%d" % number))
    files = [path for path in glob.glob(copy + "/*") + glob.glob(copy + "/rings/*") if os.path.isfile(path)]
    hurt = random.sample(files, min(len(files), random.randint(1, 3)))
    siege.tally.now += " %s" % [
        (os.path.basename(path), damage(path, siege.arena.canary(0) + "/model.pt")) for path in hurt
    ]
    for command in random.sample(
        [
            ["query", "SELECT count(*) FROM python.steps"],
            ["where"],
            ["leak"],
            ["report", "--json"],
            ["oom"],
            ["tables"],
            ["eval", "1"],
            ["backtrace"],
        ],
        3,
    ):
        siege.ask(0, command[0], "--session", copy, *command[1:], seconds=60)
    for pid in collectors(copy) + keepers(copy):
        send_signal(pid, signal.SIGKILL)
    shutil.rmtree(copy, ignore_errors=True)


def another_user(siege, t, number):
    """Asks for everything there is, and gets nothing."""
    command = random.choice(
        [
            ["query", "--session", t.session, "SELECT 1"],
            [str(t.pid), "eval", "1"],
            ["attach", str(t.pid)],
            ["detach", str(t.pid)],
            ["backtrace", "--session", t.session],
            ["report", "--json", "--session", t.session],
            ["list", "-a"],
            ["doctor", str(t.pid)],
        ]
    )
    answer = siege.ask(
        THIRD, *command, env={"MEMGAUGE_HOME": siege.arena.home(t.owner)} if command[0] == "list" else {}
    )
    if command[0] != "doctor" and (t.name() in answer.out or command[0] != "list" and (answer.code == 0 or answer.out)):
        siege.tally.fault("broken", "another user's %s: exit %s, %r" % (command, answer.code, answer.out))


def another_users_hands(siege, t, number):
    """Reaches for sockets, rings and files; says by a file which of them it got."""
    got = siege.arena.path("tmp") + "/got-%d" % number

    def reach():
        for path in sockets(t) + glob.glob(t.session + "/rings/*") + [t.session + "/session.json", t.session + "/x"]:
            for act in (
                lambda: open(path),
                lambda: os.truncate(path, 0),
                lambda: os.listdir(os.path.dirname(path)),
                lambda: os.symlink("/etc/passwd", path + ".x"),
                lambda: socket.socket(socket.AF_UNIX).connect(path),
            ):
                try:
                    act()
                except OSError:
                    continue
                open(got, "a").write(path + "\n")

    os.waitpid(as_user(THIRD, reach), 0)
    if os.path.exists(got):
        siege.tally.fault("broken", "another user reached %s" % open(got).read())


def prepared_home(siege, t, number):
    """A home with our own files in it, each of them with another user's code; and links where sessions are to lie."""
    home, mark = siege.arena.path("prepared-%d" % number), siege.arena.path("tmp") + "/ran-%d" % number
    shutil.copytree(siege.arena.home(OTHER) + "/agent", home + "/agent")
    os.symlink(siege.arena.canary(0), home + "/sessions")
    for at, _, files in os.walk(home):
        for name in files:
            with open(os.path.join(at, name), "a") as f:
                f.write("\nopen(%r, 'a').write(__name__)\n" % mark if name.endswith(".py") else "x")
    subprocess.check_call(["chown", "-hR", "%d:%d" % (OTHER, OTHER), home])
    own = siege.arena.path("own-%d" % number)
    os.mkdir(own, 0o700)
    job = ["--", siege.o.other_python, "-c", "import time; time.sleep(.2)"]
    siege.ask(0, "run", "--quiet", *job, env={"MEMGAUGE_HOME": home, "HOME": own}, fine=(0,))
    session = siege.arena.make("theirs-%d" % number, 0o755, OTHER)
    siege.ask(0, "run", "--quiet", "--session", session, *job)
    if os.listdir(session) or os.path.exists(mark):
        siege.tally.fault(
            "broken", "in another user's directory: %s; ran: %s" % (os.listdir(session), os.path.exists(mark))
        )


def forged_session(siege, t, number):
    """Another user's session, with links to root's files and a socket that answers with escapes; root asks about it."""
    victim = siege.arena.canary(0)
    forged = copied(
        glob.glob(siege.arena.home(OTHER) + "/sessions/bystander-*")[0], siege.arena.path("forged-%d" % number)
    )
    for name in random.sample(["collector.log", "owner.lock", "session.duckdb", "end.json", "keeper.lock", "rings"], 3):
        path = os.path.join(forged, name)
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.remove(path)
        os.symlink(os.path.join(victim, random.choice(["model.pt", "session.duckdb", "owner.lock"])), path)
    subprocess.check_call(["chown", "-hR", "%d:%d" % (OTHER, OTHER), forged])

    def answer():
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(forged + "/api.sock")
            s.listen(8)
            while True:
                c = s.accept()[0]
                c.sendall(("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(ESCAPE), ESCAPE)).encode())
                c.close()

    pid = as_user(OTHER, answer)
    for command in random.sample(
        [
            ["query", "SELECT 1"],
            ["tables"],
            ["where"],
            ["leak"],
            ["report", "--json"],
            ["eval", "1"],
            ["backtrace"],
            ["tensors"],
            ["oom"],
        ],
        3,
    ):
        got = siege.ask(0, command[0], "--session", forged, *command[1:], fine=(1,))
        if got.out or ESCAPE in got.err or "another user" not in got.err:
            siege.tally.fault("broken", "root's %s of a forged session: %r %r" % (command, got.out, got.err))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    if collectors(forged):
        siege.tally.fault("broken", "a collector runs for a forged session")


class Runs:
    """A pickle of it runs a command where it is loaded."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def hostile_pickle(siege, t, number):
    mark, path = siege.arena.path("tmp") + "/pickled-%d" % number, siege.arena.path("hostile-%d.pickle" % number)
    thing = Runs("touch " + mark)
    whole = random.choice(
        [
            thing,
            {"segments": [thing], "device_traces": []},
            {"segments": [], "device_traces": [[{"action": thing, "addr": 1, "size": thing}]]},
        ]
    )
    data = bytearray(pickle.dumps(whole, protocol=random.randint(0, pickle.HIGHEST_PROTOCOL)))
    for _ in range(random.choice([0, 0, 1, 5])):
        data[random.randrange(len(data))] = random.randrange(256)
    with open(path, "wb") as f:
        f.write(data[: random.choice([None, len(data) // 2])])
    siege.ask(
        0,
        *random.choice(
            [
                ["snapshot", path],
                ["alloc", "replay", path],
                ["snapshot", "--json", path],
                ["snapshot", "diff", path, path],
            ]
        )
    )
    if os.path.exists(mark):
        siege.tally.fault("broken", "a pickle ran")


def bomb(siege, t, number):
    """Small packed, large unpacked."""
    head, unit, tail = random.choice(
        [
            (b"\x80\x02", b"\0", b"."),
            (b"\x80\x02(", b"N", b"l."),
            (b"\x80\x02(", b"]", b"l."),
            (b"Action,Pointer,Size\n", b"free,1,1\n", b""),
            (b"device 0\n", b"free 1 1\n", b""),
            (b'{"action":"a","frames":[', b'"",', b'""]}'),
            (b"device 0\n", b"#\n", b""),
        ]
    )
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1) as f:
        f.write(head)
        for _ in range(random.choice([16, 60, 200])):
            f.write(unit * ((1 << 20) // len(unit)))
        f.write(tail)
    path = siege.arena.path("bomb-%d.gz" % number)
    with open(path, "wb") as f:
        f.write(packed.getvalue())
    siege.ask(
        0,
        *random.choice(
            [["snapshot", path], ["alloc", "replay", path], ["snapshot", "flame", path, "-o", path + ".svg"]]
        )
    )
    os.remove(path)


def linked_output(siege, t, number):
    """The names that outputs have by default are links, in a directory that everybody may write to."""
    shared = siege.arena.make("shared-%d" % number, 0o777, 0)
    for name in (
        "memgauge-%s.html" % t.name(),
        "memgauge-%s.json" % t.name(),
        "memgauge-leak.png",
        "memgauge-oom.png",
        "memgauge-profile.png",
    ):
        os.symlink(siege.arena.canary(t.owner) + "/model.pt", os.path.join(shared, name))
        os.lchown(os.path.join(shared, name), OTHER, OTHER)
    siege.ask(t.owner, "report", "--session", t.session, cwd=shared)


ACTS = {
    "damaged session": damaged_session,
    "another user asks": another_user,
    "another user reaches": another_users_hands,
    "prepared home": prepared_home,
    "forged session": forged_session,
    "pickle": hostile_pickle,
    "gz bomb": bomb,
    "linked output": linked_output,
}
