"""The server: an editor sends its documents, and gets marks, pages and repairs. Nothing is imported or run."""

from __future__ import annotations

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from gradcheck_cli.contract.errors import CgcheckError
from gradcheck_cli.contract.version import __version__
from gradcheck_cli.editor.document import Document
from gradcheck_cli.project.settings import Settings, load_for

Change = lsp.DidOpenTextDocumentParams | lsp.DidChangeTextDocumentParams | lsp.DidSaveTextDocumentParams  # fmt: skip


def server() -> LanguageServer:
    """A server that is not running yet."""
    made = LanguageServer("cgcheck", __version__)

    def document(uri: str) -> Document:
        return Document(uri, made.workspace.get_text_document(uri).source, _settings(uri))

    def mark(params: Change) -> None:
        uri = params.text_document.uri
        found = document(uri).diagnostics()
        made.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, found))

    def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        return document(params.text_document.uri).hover(params.position)

    def actions(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        return document(params.text_document.uri).actions(params.range)

    for event in (lsp.TEXT_DOCUMENT_DID_OPEN, lsp.TEXT_DOCUMENT_DID_CHANGE, lsp.TEXT_DOCUMENT_DID_SAVE):  # fmt: skip
        made.feature(event)(mark)
    made.feature(lsp.TEXT_DOCUMENT_HOVER)(hover)
    offered = lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix])
    made.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, offered)(actions)
    return made


def _settings(uri: str) -> Settings:
    """The settings of the document's project; one whose settings are broken is linted without."""
    path = to_fs_path(uri)
    try:
        return load_for(path)[0] if path else Settings()
    except CgcheckError:
        return Settings()
