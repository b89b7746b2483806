"""Runs cells in a real kernel, as a notebook does: notebooks.py FILE, where FILE has a JSON list of cells. Prints a
JSON list with what each cell showed: "text" (streams and plain results), "html", "error".

A cell that begins with "# interrupt: WORD" is interrupted when WORD has been printed; "# again" is the cell
before, run once more."""
import asyncio
import json
import sys

import nbformat
from nbclient import NotebookClient


def shown(cell):
    out = {"text": "", "html": "", "error": ""}
    for output in cell.outputs:
        if output.output_type == "stream":
            out["text"] += output.text
        elif output.output_type == "error":
            out["error"] = output.ename
        else:
            out["text"] += output.data.get("text/plain", "") + "\n"
            out["html"] += output.data.get("text/html", "")
    return out


async def interrupt(client, cell, word):
    while word not in shown(cell)["text"]:
        await asyncio.sleep(0.02)
    await client.km.interrupt_kernel()


async def main(cells):
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells if text != "# again"])
    client = NotebookClient(book, timeout=300, kernel_name="python3", allow_errors=True)
    seen, at = [], -1
    async with client.async_setup_kernel():
        for text in cells:
            at += text != "# again"
            cell = book.cells[at]
            jobs = [client.async_execute_cell(cell, at)]
            if text.startswith("# interrupt: "):
                jobs.append(interrupt(client, cell, text.split("\n")[0].split(": ")[1]))
            await asyncio.gather(*jobs)
            seen.append(shown(cell))
    print(json.dumps(seen))


with open(sys.argv[1]) as f:
    asyncio.run(main(json.load(f)))
