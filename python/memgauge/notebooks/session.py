"""The session that observes this kernel: found, begun from inside, asked, ended.

A session is begun by the kernel itself: `memgauge attach PID --within` makes it and hands us the source that attach
would bring in from outside (docs/attach.md). We run it. So no debugger's right is needed, which containers, Colab and
Kaggle may not give."""
import json
import os
import subprocess
import threading

from .. import feed

BEGIN = 20.0      # s that the beginning of a session may take
ASK = 60.0        # s that an answer may take: a verdict on a long session takes a while
MAX_PAGE = 4 << 20  # bytes of a report in a notebook; they stay in its file


class Refused(Exception):
    """Why there is no session; for the user."""


def begin():
    """The name of a session that is begun now."""
    try:
        path = feed.binary()
        child = subprocess.Popen(["memgauge", "attach", str(os.getpid()), "--within", "--json"], executable=path,
                                 env=_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, start_new_session=True)
    except (OSError, feed.FeedError) as error:
        raise Refused(str(error))
    limit = threading.Timer(BEGIN, child.kill)
    limit.daemon = True
    limit.start()
    try:
        line = child.stdout.readline()
        if line:
            child.stdin.write(json.dumps(_run(json.loads(line.decode())["source"])).encode() + b"\n")
            child.stdin.flush()
        out, errors = child.communicate()
    except (OSError, ValueError, KeyError) as error:
        child.kill()
        child.communicate()
        raise Refused("memgauge attach: %s" % error)
    finally:
        limit.cancel()
    if child.returncode != 0:
        raise Refused(errors.decode("utf-8", "replace").strip() or "memgauge attach ended within %g s" % BEGIN)
    return json.loads(out.decode())["session"]


def _run(source):
    """What the source leaves in `result`, as attach reads it."""
    space = {"__name__": "memgauge attach", "__builtins__": __builtins__}
    try:
        exec(compile(source, "<memgauge>", "exec", dont_inherit=True), space)
        return {"result": space["result"]}
    except Exception as error:
        return {"error": "%s: %s" % (type(error).__name__, error)}


def end():
    """Takes the agent out again."""
    run(["detach", str(os.getpid())])


def observed():
    """Whether a session observes this kernel."""
    return feed.observed()


def run(words):
    """(exit code, stdout, stderr) of a command, as text."""
    return gather([words])[0]


def gather(commands):
    """run() of several commands side by side."""
    try:
        path = feed.binary()
        children = [subprocess.Popen(["memgauge"] + words, executable=path, env=_environment(),
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     start_new_session=True) for words in commands]
    except (OSError, feed.FeedError) as error:
        raise Refused(str(error))
    return [_wait(child) for child in children]


def _wait(child):
    try:
        out, errors = child.communicate(timeout=ASK)
    except BaseException as error:      # the user interrupts, or it takes too long
        child.kill()
        child.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            return 124, "", "memgauge: no answer within %g s" % ASK
        raise
    return child.returncode, out.decode("utf-8", "replace"), errors.decode("utf-8", "replace")


def about(words):
    """A command about this kernel's session."""
    return [str(os.getpid())] + words


def _environment():
    return {key: value for key, value in os.environ.items() if key != "MEMGAUGE_TARGET"}
