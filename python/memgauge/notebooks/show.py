"""Tables as text and as HTML, for whichever the notebook shows. No script: what moves is the report's page, in a frame
of its own."""
from base64 import b64encode
from html import escape

from ..integrations.sizes import show as size

MAX_ROWS = 12       # of a table
MAX_CELL = 60       # characters
FRAME_HEIGHT = 560  # pixels of the report's page
_HTML = "<div style='font:12px/1.5 ui-monospace,Menlo,Consolas,monospace'>%s</div>"


def signed(n):
    """A difference of sizes."""
    return ("+" if n > 0 else "") + size(n)


def sizes(by_memory, show=size):
    """Sizes of several memories in a line, the host's first."""
    return ", ".join("%s %s" % (memory, show(by_memory[memory])) for memory in ordered(by_memory))


def ordered(memories):
    return sorted(memories, key=lambda memory: (memory != "host", memory))


def clip(text):
    return text if len(text) <= MAX_CELL else text[:MAX_CELL // 2 - 1] + "…" + text[1 - MAX_CELL // 2:]


class Page:
    """What one command shows: lines and tables, both ways."""

    def __init__(self):
        self.text, self.html = [], []

    def line(self, text):
        self.text.append(text)
        self.html.append("<div>%s</div>" % escape(text))

    def block(self, text):
        text = text.rstrip("\n")
        self.text.append(text)
        self.html.append("<pre style='margin:0.5em 0;white-space:pre;overflow-x:auto'>%s</pre>" % escape(text))

    def table(self, head, rows):
        rows = [[clip(str(value)) for value in row] for row in rows]
        left = len(rows) - MAX_ROWS
        rows = rows[:MAX_ROWS]
        used = [i for i in range(len(head)) if any(row[i] for row in rows)]
        widths = [max(len(row[i]) for row in [head] + rows) for i in range(len(head))]
        for row in [head] + rows:
            self.text.append(("  " + "  ".join(row[i].ljust(widths[i]) for i in used)).rstrip())
        cell = "<%s style='text-align:left;padding:0 1.2em 0 0;border:0'>%s</%s>"
        parts = ["<tr>%s</tr>" % "".join(cell % (tag, escape(row[i]), tag) for i in used)
                 for tag, row in [("th", head)] + [("td", row) for row in rows]]
        self.html.append("<table style='border:0;margin:0'>%s</table>" % "".join(parts))
        if left > 0:
            self.line("  and %d more" % left)

    def frame(self, page):
        """A whole page of HTML, in a frame that may run its own scripts and reach nothing of the notebook's. It is an
        address of its own, since links within the page would lead to the notebook's from a srcdoc, and the page could
        not note its place behind #."""
        self.html.append("<iframe sandbox='allow-scripts' style='width:100%%;height:%dpx;border:1px solid #8884' "
                         "src='data:text/html;charset=utf-8;base64,%s'></iframe>"
                         % (FRAME_HEIGHT, b64encode(page.encode()).decode()))

    def put(self, html=True):
        """Shows it, as the output of the cell that runs. A table of one's own is for frontends that show HTML; a
        terminal gets the text."""
        text = "\n".join(self.text)
        if not html:
            print(text)
            return
        from IPython.display import display
        display({"text/plain": text, "text/html": _HTML % "".join(self.html)}, raw=True)
