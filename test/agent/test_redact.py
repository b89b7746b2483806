"""Secrets: none reaches a ring, and what is no secret stays readable. The lists are those of internal/base/secret."""
import os
import subprocess
import sys
import tempfile
import unittest

from launch import Home, PRELUDE
from ringfile import AGENT, RingFile
from memgauge._agent.record import redact
from memgauge._agent.record.ring import Ring

ONE_PYTHON = "patterns over texts"

LISTS = os.path.join(AGENT, "..", "internal", "base", "secret", "testdata")


def samples(name):
    """(line, kind, text, secrets)"""
    with open(os.path.join(LISTS, name), encoding="utf-8") as f:
        for line in f.read().splitlines():
            if not line or line.startswith("#"):
                continue
            kind, _, text = line.replace("\u00a6", "").partition("\t")
            if kind != "env":       # the agent writes no environment
                secrets = [part.partition("\u203a")[0].replace("\u2423", " ") for part in text.split("\u2039")[1:]]
                yield line, kind, text.replace("\u2039", "").replace("\u203a", ""), secrets


def hide(kind, text):
    if kind == "text":
        return redact.text(text)
    return "\0".join(redact.args([a.replace("\u2423", " ") for a in text.split()]))


class Lists(unittest.TestCase):
    def test_secrets_vanish(self):
        for line, kind, text, secrets in samples("secrets.txt"):
            got = hide(kind, text)
            for secret in secrets:
                self.assertNotIn(secret, got, line)

    def test_the_rest_stays(self):
        for line, kind, text, _ in samples("harmless.txt"):
            want = text if kind == "text" else "\0".join(a.replace("\u2423", " ") for a in text.split())
            self.assertEqual(hide(kind, text), want, line)


class InARing(unittest.TestCase):
    def test_texts(self):
        with tempfile.TemporaryDirectory() as directory:
            ring = Ring(directory)
            ring.event("error", "OperationalError: postgres://joe:tr4in3r@db/runs")
            ring.event("eval", "password = 'hunter2'")
            ring.tensors("[4]\tfloat32\tcpu\tdata\ttrain.py:3\t__main__.clients['password=hunter2']", 0, 1, 1, 1, 1, 1,
                         1)
            ring.objects("held\tlist\t__main__.x['token=Q7f3kQ9vLmZ2']\ttrain.py:3\t", 0, 1, 1, 1, 1, 1, 1)
            path = ring.path
            ring.close()
            raw = RingFile(path).raw
        for secret in (b"tr4in3r", b"hunter2", b"Q7f3kQ9vLmZ2"):
            self.assertNotIn(secret, raw)
        self.assertIn(b"OperationalError: postgres://joe:", raw)

    def test_command_line(self):
        """In full: a secret that is cut off by the bound of the ring's text must be seen as one before."""
        home = Home()
        self.addCleanup(home.close)
        filler = "x" * 50 + " "
        done = home.run(PRELUDE + "wait_ring()", argv=("--password", "hunter2", filler * 17,
                                                       "--db=postgres://joe:" + "tr4in3r" * 40 + "@db/runs"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        (ring,) = home.rings().values()
        self.assertIn("--password <redacted>", ring.info["argv"])
        for secret in (b"hunter2", b"tr4in3r"):
            self.assertNotIn(secret, ring.raw)


class Guest(unittest.TestCase):
    def test_nothing_is_imported_for_harmless_texts(self):
        code = ("import sys; sys.modules.pop('re', None)\nfrom memgauge._agent.record import redact\n"
                "redact.text('CUDA out of memory'); redact.args(['python', 'train.py', '--lr', '0.1'])\nprint('re' in sys.modules)")
        env = dict(os.environ, PYTHONPATH=AGENT, PYTHONDONTWRITEBYTECODE="1")
        self.assertEqual(subprocess.check_output([sys.executable, "-S", "-c", code], env=env).decode().strip(), "False")

    def test_a_program_with_a_re_of_its_own(self):
        code = ("import sys; sys.modules['re'] = type(sys)('re')\nfrom memgauge._agent.record import redact\nprint(redact.text('password=hunter2'))")
        env = dict(os.environ, PYTHONPATH=AGENT, PYTHONDONTWRITEBYTECODE="1")
        self.assertEqual(subprocess.check_output([sys.executable, "-S", "-c", code], env=env).decode().strip(),
                         "<redacted>")


if __name__ == "__main__":
    unittest.main()
