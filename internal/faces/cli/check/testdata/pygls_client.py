"""Drives memgauge check --lsp with pygls' client."""
import asyncio, pathlib, sys

from lsprotocol import types
from pygls.lsp.client import LanguageClient

program, folder = sys.argv[1:]
text = sys.stdin.read()


async def main():
    client = LanguageClient("test", "1")
    published = asyncio.Queue()

    @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def _(params):
        published.put_nowait(params)

    await client.start_io(program, "check", "--lsp")
    await client.initialize_async(
        types.InitializeParams(capabilities=types.ClientCapabilities(), process_id=None, root_uri=None))
    client.initialized(types.InitializedParams())
    uri = (pathlib.Path(folder) / "train.py").as_uri()
    client.text_document_did_open(types.DidOpenTextDocumentParams(
        types.TextDocumentItem(uri=uri, language_id="python", version=1, text=text)))
    found = (await published.get()).diagnostics
    assert [d.code for d in found] == ["MG103"], found
    here = types.TextDocumentIdentifier(uri)
    hover = await client.text_document_hover_async(types.HoverParams(here, found[0].range.start))
    assert "MG103" in hover.contents.value, hover
    actions = await client.text_document_code_action_async(
        types.CodeActionParams(here, found[0].range, types.CodeActionContext(found)))
    edit = actions[0].edit.changes[uri][0]
    lines = text.splitlines(True)
    mended = "".join(lines[:edit.range.start.line]) + edit.new_text + "".join(lines[edit.range.end.line:])
    client.text_document_did_change(types.DidChangeTextDocumentParams(
        types.VersionedTextDocumentIdentifier(2, uri), [types.TextDocumentContentChangeWholeDocument(mended)]))
    assert not (await published.get()).diagnostics, mended
    await client.shutdown_async(None)
    client.exit(None)
    print("all well")


asyncio.run(main())
