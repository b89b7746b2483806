"""Reads code out of the seeds' documents, so that what they promise is what is tested."""
import os
import re

SEEDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "testdata", "seeds")
PROBING = ("probing-memory-analysis.en.md", "probing-memory-leak-example.zh-CN.md")

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)
_COMMAND = re.compile(r'\b(eval|query)\s+"((?:[^"\\]|\\.)*)"', re.S)


def blocks(name, language):
    """The fenced blocks of a document in one language."""
    with open(os.path.join(SEEDS, name), encoding="utf-8") as f:
        return [text for kind, text in _BLOCK.findall(f.read()) if kind == language]


def unquote(text):
    r"""What bash makes of text between double quotes: a backslash before $ ` " \ or a line's end goes away."""
    return re.sub(r'\\([$`"\\]|\n)', lambda m: "" if m.group(1) == "\n" else m.group(1), text)


def commands(command, names=PROBING):
    """Arguments of `eval "…"` or `query "…"` in the documents' bash blocks, in order."""
    found = []
    for name in names:
        for block in blocks(name, "bash"):
            found += [unquote(code) for kind, code in _COMMAND.findall(block) if kind == command]
    return found


def snippets():
    return commands("eval")


if __name__ == "__main__":
    for number, code in enumerate(snippets(), 1):
        print("# ---- %d\n%s" % (number, code))
