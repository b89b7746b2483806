"""The acts of siege.py by a session's own user, and by the program. Each is a function of the siege, the training that
it is about and the number of the act. What docs/security.md promises of an act is checked here; what it may not do to
trainings, files and secrets is looked at by siege.py, whatever the act."""

import glob
import os
import random
import signal
import socket
import subprocess
import threading

ROOT, OTHER, THIRD = 0, 64021, 64022  # uids; the last two are nobody's
ESCAPE = "\x1b]0;owned\x07"  # sets a terminal's title
LIMIT = 120  # s for what takes a second or less: the machine may be busy
MOST_WAIT = 5  # acts for which something hangs about

WRITING_SQL = """
COPY (SELECT 1) TO 'TARGET'
EXPLAIN ANALYZE COPY (SELECT 1) TO 'TARGET'
EXPLAIN/**/ANALYZE/**/COPY (SELECT 1) TO 'TARGET'
EXPLAIN (ANALYZE, FORMAT json) COPY (SELECT 1) TO 'TARGET'
SELECT 1; COPY (SELECT 1) TO 'TARGET'
WITH x AS (SELECT 1) COPY x TO 'TARGET'
FROM enable_logging/**/(storage := 'file', storage_path := 'TARGET')
FROM query('COPY (SELECT 1) TO ''TARGET''')
FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM read_text(''TARGET'')'))
FROM read_text('TARGET')
FROM read_blob('TARGET')
FROM read_csv('TARGET')
FROM 'TARGET'
FROM glob('TARGET*')
SUMMARIZE 'TARGET'
FROM sniff_csv('TARGET')
ATTACH 'TARGET' AS x
INSTALL httpfs
LOAD 'TARGET'
EXPORT DATABASE 'TARGET'
IMPORT DATABASE 'TARGET'
SET temp_directory = 'TARGET'
SET enable_external_access = true
PRAGMA enable_profiling = 'json'
PRAGMA profiling_output = 'TARGET'
PRAGMA import_database('TARGET')
EXPLAIN ANALYZE CHECKPOINT
FORCE CHECKPOINT
VACUUM
DELETE FROM store.steps
CREATE TABLE x AS SELECT 1
SELECT getenv('HOME')
""".strip().split("\n")

DEVOURING_SQL = """
SELECT len(range(500000000))
SELECT len(repeat('x', 2000000000))
SELECT max(len(l)) FROM (SELECT list(range) l FROM range(100000000))
SELECT count(*) FROM range(100000) a, range(100000) b, range(100000) c WHERE a.range + b.range = c.range
SELECT levenshtein(repeat('a', n), repeat('b', n)) FROM (SELECT 150000 + range AS n FROM range(1))
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t
SELECT count(DISTINCT md5(range::VARCHAR)) FROM range(100000000)
SELECT sum(x) OVER (ORDER BY y) FROM (SELECT range x, hash(range) y FROM range(30000000))
""".strip().split("\n")

# They read, fail, end and devour; none changes what the training computes with.
HOSTILE_EVALS = r"""
while True: pass
hostile = [0] * 10**11
hostile = bytearray(200 << 20); del hostile
raise MemoryError
raise KeyboardInterrupt
import sys; sys.exit(3)
def f(): f()\nf()
print('x' * 50_000_000)
[i for i in range(100_000)]
class X:\n    def __repr__(self): raise ValueError('no')\nX()
class X:\n    def __repr__(self):\n        while True: pass\nX()
class X:\n    def __del__(self): raise ValueError('no')\nhostile = X(); del hostile
import threading, time; threading.Thread(target=time.sleep, args=(1,)).start()
'\ud800'
compile('(' * 5000, 'x', 'eval')
import gc; gc.collect(); len(gc.get_objects())
memoryview(b'x') < 3
""".strip().split("\n")

DESCRIPTORS = r"""
import os; os.closerange(64, 65536)
import os\nfor fd in range(64, 1024):\n    try: os.dup2(0, fd)\n    except OSError: pass
kept = []\ntry:\n    while True: kept.append(os.dup(0))\nexcept OSError: [os.close(fd) for fd in kept]
os.closerange(64, 65536)\nkept = [os.dup(0) for _ in range(700)]\nfor fd in kept: os.close(fd)
import os\nos.closerange(64, 65536)\npid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0)
""".strip().split("\n")

# How `secret` is told in confidence: on a command line, in an environment, to eval, to SQL.
SECRET_ARGUMENTS = [
    "--password SECRET",
    "--api-key=SECRET",
    "-u joe:SECRET",
    "--db postgres://joe:SECRET@db/runs",
    "--header Authorization:Bearer=SECRET",
]
SECRET_VARIABLES = [
    "AWS_SECRET_ACCESS_KEY=SECRET",
    "AUTHORIZATION=Bearer SECRET",
    'JOB={"db": {"password": "SECRET"}}',
    "GH_PAT=SECRET",
    "KEY_PASSPHRASE=SECRET",
]
SECRET_EVALS = [
    "password = 'SECRET'",
    "raise ValueError('refused: token=SECRET')",
    "raise MemoryError('postgres://joe:SECRET@db/runs')",
    "api_key = 'SECRET'; 1 / 0",
]
SECRET_SQL = [
    "SELECT * FROM python.steps WHERE 'password = ''SECRET''' = 'x'",
    "SELECT nothing FROM nowhere WHERE password = 'SECRET'",
]

HALF_WORDS = [
    b"\0",
    b"GET /",
    b"\xff" * 4096,
    b"POST /query HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
    b"\x02\0\0\0\x03\0\0\0",
]


def unescaped(line):
    return line.replace("\\n", "\n").replace("\\\\", "\\")


def processes_of(text):
    """PIDs of the processes whose command line has that text, but for this one."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                if text.encode() in f.read() and int(path.split("/")[2]) != os.getpid():
                    found.append(int(path.split("/")[2]))
        except OSError:  # it has ended
            pass
    return found


def collectors(session):
    return processes_of("\0collector\0--session\0%s\0" % session)


def keepers(session):
    return processes_of("\0collector\0--keep\0--session\0%s\0" % session)


def as_user(uid, function):
    """Runs function in a child that is that user; its PID."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        function()
    finally:
        os._exit(0)


def send_signal(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def later(siege, number, end):
    siege.hangers.append((end, number + random.randint(1, MOST_WAIT)))


def answers(siege, t):
    """After whatever was done, the session answers."""
    if t.going():
        siege.question(t, "query", "SELECT count(*) FROM memgauge.processes", fine=(0,))


def sockets(t):
    return [path for path in glob.glob(t.session + "/ctl/*") + [t.session + "/api.sock"] if os.path.exists(path)]


def writing_sql(siege, t, number):
    targets = glob.glob(t.session + "/rings/*.ring") + [
        t.session + "/session.json",
        t.session + "/new",
        siege.arena.canary(t.owner) + "/model.pt",
    ]
    sql = random.choice(WRITING_SQL).replace("TARGET", random.choice(targets))
    answer = siege.question(t, "query", sql, fine=(1, 124))
    if answer.out or os.path.exists(t.session + "/new"):
        siege.tally.fault("broken", "%s gave %r" % (sql, answer.out))


def devouring_sql(siege, t, number):
    sql = random.choice(DEVOURING_SQL)
    if random.random() < 0.3:  # the client goes
        command = [siege.arena.memgauge, "query", "--session", t.session, sql]
        p = siege.popen(t.owner, command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        later(siege, number, lambda: (p.kill(), p.wait()))
        return
    siege.question(t, "query", "--timeout", "2s", sql, fine=(0, 1, 124))
    for pid in collectors(t.session):
        peak = status_kib(pid, "VmHWM")
        if peak > 1400 << 10:  # 1 GiB beyond what it had
            siege.tally.fault("broken", "%s: the collector took %d MiB" % (sql, peak >> 10))
    answers(siege, t)


def status_kib(pid, name):
    try:
        with open("/proc/%d/status" % pid) as f:
            return [int(line.split()[1]) for line in f if line.startswith(name + ":")][0]
    except (OSError, IndexError):  # it has ended
        return 0


def hostile_eval(siege, t, number):
    code = unescaped(random.choice(HOSTILE_EVALS))
    siege.question(t, "eval", "--timeout", random.choice(["0.3s", "3s"]), code)


def hung_clients(siege, t, number):
    """Connections that say nothing, half of something, or something else."""
    kept = []
    for path in sockets(t):
        for _ in range(random.choice([1, 8, 40])):
            s = socket.socket(socket.AF_UNIX)
            s.setblocking(False)
            try:
                s.connect(path)
                s.send(random.choice(HALF_WORDS))
            except OSError:  # nobody accepts, or nobody reads
                pass
            kept.append(s)
    answers(siege, t)
    siege.question(t, "eval", "1")
    later(siege, number, lambda: [s.close() for s in kept])


def killed(siege, t, number):
    """Collector, keeper or both; or they are held, and a question must end by its own time limit."""
    pids = random.choice([collectors, keepers, lambda s: collectors(s) + keepers(s)])(t.session)
    how = random.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
    for pid in pids:
        send_signal(pid, how)
    if how == signal.SIGSTOP:
        siege.question(t, "query", "--timeout", "1s", "SELECT 1")
        for pid in pids:
            send_signal(pid, signal.SIGCONT)
    answers(siege, t)


def descriptors(siege, t, number):
    t.do(unescaped(random.choice(DESCRIPTORS)))


def other_uid(siege, t, number):
    """Another user from now on; with workers, which stay as they were, only other groups."""
    if t.shape == "workers" and t.uid == 0:
        t.do("import os; os.setgroups([]); os.setgroups([%d])" % OTHER)
    elif t.uid == 0 and not t.changed:
        t.changed = True
        t.do("import os; os.setgroups([]); os.setresgid(%d, %d, %d); os.setresuid(%d, %d, %d)" % ((OTHER,) * 6))
    siege.question(t, "where")


def out_and_in(siege, t, number):
    """Detached, and attached to again, by who may."""
    before = t.session
    siege.ask(t.owner, "detach", str(t.pid))
    if random.random() < 0.8 and t.going():
        siege.ask(t.owner, "attach", "--name", t.name(), str(t.pid))
        if not t.on_small_disk():
            t.find_session()
    siege.tally.now += " (session %s)" % ("is another" if t.session != before else "stays")


def disk_full(siege, t, number):
    sizes = 1 << 20
    path = siege.arena.disk + "/hog"
    with open(path, "wb", buffering=0) as f:
        while sizes:
            try:
                f.write(bytes(sizes))
            except OSError:
                sizes //= 2
    on_disk = [other for other in siege.trainings if other.on_small_disk()]
    for other in on_disk:
        if random.random() < 0.5:
            for pid in collectors(other.session):
                send_signal(pid, signal.SIGKILL)
        answers(siege, other)
    if random.random() < 0.5:
        os.remove(path)
    else:
        later(siege, number, lambda: os.path.exists(path) and os.remove(path))


def stalled_reader(siege, t, number):
    sql = "SELECT range, repeat('x', 200) FROM range(100000000)"
    command = [siege.arena.memgauge, "query", "--session", t.session, "-f", "csv", sql]
    p = siege.popen(t.owner, command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    later(siege, number, lambda: (p.kill(), p.wait(), p.stdout.close()))


def secrets(siege, t, number):
    """To eval, to SQL, or to a job of their own."""
    where = random.choice(["eval", "query", "job"])
    template = random.choice({"eval": SECRET_EVALS, "query": SECRET_SQL, "job": SECRET_ARGUMENTS}[where])
    text = template.replace("SECRET", siege.secret(template))
    if where == "job":
        variable = random.choice(SECRET_VARIABLES)
        name, value = variable.split("=", 1)
        value = value.replace("SECRET", siege.secret(variable))
        job = ["--", siege.o.other_python, "-c", "import time; time.sleep(.5)"] + text.split(" ")
        siege.ask(t.owner, "run", "--quiet", "--name", "secret%d" % number, *job, env={name: value}, fine=(0,))
        siege.told.add((t.owner, glob.glob(siege.arena.home(t.owner) + "/sessions/secret%d-*" % number)[0]))
    else:
        siege.told.add((t.owner, t.session))
        siege.question(t, where, text)
        siege.look_in_files(t.session)


def escapes(siege, t, number):
    """In an exception, a thread's name, a process's: shown on a terminal."""
    if random.random() < 0.5:
        t.do("import threading; threading.current_thread().name = %r" % ESCAPE)
        if not t.changed:  # who has become another user may not write there
            t.do("open('/proc/self/comm', 'w').write(%r)" % ESCAPE)
    command = random.choice(
        [
            ["eval", "--session", t.session, "raise ValueError(%r)" % ESCAPE],
            ["backtrace", "--session", t.session],
            ["where", "--session", t.session],
            ["list"],
            ["doctor", str(t.pid)],
            ["query", "--session", t.session, "SELECT chr(27) || ']0;owned' FROM python.backtrace"],
        ]
    )
    shown = on_terminal(siege, t.owner, command)
    if b"\x1b]0;" in shown:
        siege.tally.fault("broken", "%s sent an escape to the terminal: %r" % (command, shown))


def on_terminal(siege, uid, command):
    master, slave = os.openpty()
    p = siege.popen(uid, [siege.arena.memgauge] + command, stdout=slave, stderr=slave)
    os.close(slave)
    limit = threading.Timer(LIMIT, p.kill)
    limit.start()
    shown = b""
    try:
        while len(shown) < 1 << 20:
            shown += os.read(master, 1 << 16)
    except OSError:  # EIO: nobody has it open any more
        pass
    os.close(master)
    p.wait()
    limit.cancel()
    return shown


def signals(siege, t, number):
    """To `run`, or to the program: those that programs leave alone."""
    for _ in range(20):
        send_signal(t.process.pid, random.choice([signal.SIGURG, signal.SIGCONT, signal.SIGWINCH, signal.SIGCHLD]))
    send_signal(t.pid, signal.SIGSTOP)
    siege.question(t, *random.choice([["eval", "--timeout", "0.5s", "1"], ["backtrace"], ["where"]]))
    send_signal(t.pid, signal.SIGCONT)


ACTS = {
    "SQL that writes": writing_sql,
    "SQL that devours": devouring_sql,
    "eval that devours": hostile_eval,
    "hung clients": hung_clients,
    "killed collector": killed,
    "descriptors": descriptors,
    "setuid": other_uid,
    "detach, attach": out_and_in,
    "disk full": disk_full,
    "stalled reader": stalled_reader,
    "secret": secrets,
    "escape": escapes,
    "signals": signals,
}
