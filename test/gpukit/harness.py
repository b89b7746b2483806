"""What the checks of kit.py have in common: commands with their log, programs that run beside, recordings."""
import gzip
import json
import os
import shutil
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 1 << 20
KEEP = 12 * MIB  # largest recording that is kept, packed


class Unmet(Exception):
    """A check that did not hold; its text says what was wanted and what came."""


class Skip(Exception):
    """A check that can't be made here; its text is the reason."""


class Kit:
    def __init__(self, options):
        self.dry = options.dry
        self.out = os.path.abspath(options.out)
        self.deadline = time.monotonic() + options.seconds
        self.memgauge = os.path.join(HERE, "bin", "memgauge")
        self.python = options.python
        shutil.rmtree(self.out, ignore_errors=True)
        for folder in ("recordings", "work"):
            os.makedirs(os.path.join(self.out, folder))
        self.log = open(os.path.join(self.out, "commands.log"), "w")
        self.env = dict(os.environ, MEMGAUGE_HOME=os.path.join(self.out, "work", "home"), PYTHONUNBUFFERED="1",
                        PYTHONDONTWRITEBYTECODE="1", LC_ALL="C.UTF-8", NO_COLOR="1")
        for name in ("MEMGAUGE_RUNTIME", "MEMGAUGE_TARGET", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
            self.env.pop(name, None)
        if self.dry:
            self.env.update(MEMGAUGE_KIT_DEVICE="cpu", CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")
        self.figures = {}
        self.running = []

    def path(self, *names):
        return os.path.join(self.out, "work", *names)

    def program(self, name):
        return os.path.join(HERE, "programs", name)

    def do(self, *args, codes=(0,), seconds=120, env=None):
        """Runs a command to its end, logs it, and returns its standard output. Another exit code is Unmet."""
        begin = time.monotonic()
        left = max(5.0, min(seconds, self.deadline - begin))
        with subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                              universal_newlines=True, env=dict(self.env, **(env or {}))) as child:
            try:
                out, err = child.communicate(timeout=left)
            except subprocess.TimeoutExpired:
                child.terminate()
                try:
                    out, err = child.communicate(timeout=10)
                except subprocess.TimeoutExpired:
                    child.kill()
                    out, err = child.communicate()
                err += "\n(ended after %.0f s)" % left
        self.log.write("$ %s\n%s%s[exit %d, %.1f s]\n\n" % (" ".join(args), out[:60000], err[-8000:], child.returncode,
                                                            time.monotonic() - begin))
        self.log.flush()
        if child.returncode not in codes:
            raise Unmet("%s: exit %d: %s" % (" ".join(os.path.basename(a) for a in args[:4]), child.returncode,
                                             (err.strip() or out.strip())[-700:]))
        return out

    def ask(self, *args, **kw):
        return self.do(self.memgauge, *args, **kw)

    def asked(self, *args, **kw):
        """The same for a command's JSON."""
        return json.loads(self.ask(*args, **kw))

    def rows(self, session, sql):
        return json.loads(self.ask("query", "--session", session, "-f", "json", sql))

    def start(self, *args, env=None):
        """Starts a program and waits for its line "ready"; it is ended with the kit."""
        err = open(self.path("programs.log"), "a")
        child = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=err, stdin=subprocess.DEVNULL,
                                 universal_newlines=True, env=dict(self.env, **(env or {})))
        err.close()
        self.running.append(child)
        line = child.stdout.readline()
        if "ready" not in line:
            child.wait(timeout=60)
            with open(self.path("programs.log")) as f:
                raise Unmet("%s did not start: %s" % (args[-1], (line + f.read())[-700:]))
        return child

    def end(self, child, seconds=60):
        try:
            child.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()
        self.running.remove(child)

    def keep(self, path, name):
        """Keeps a file among the recordings, gzipped; a larger one than KEEP is left out and said so."""
        target = os.path.join(self.out, "recordings", name + ".gz")
        with open(path, "rb") as source, gzip.open(target, "wb", 6) as packed:
            shutil.copyfileobj(source, packed, MIB)
        if os.path.getsize(target) > KEEP:
            self.figures[name + "_left_out_bytes"] = os.path.getsize(target)
            os.remove(target)

    def write(self, name, text):
        with open(os.path.join(self.out, "recordings", name), "w") as f:
            f.write(text)

    def gpu_only(self):
        if self.dry:
            raise Skip("needs a GPU")


def want(held, text):
    if not held:
        raise Unmet(text)


def near(got, wanted, share, what, slack=0):
    want(got is not None and abs(got - wanted) <= share * abs(wanted) + slack,
         "%s: %s, wanted %s within %.1f %%" % (what, got, wanted, 100 * share))
