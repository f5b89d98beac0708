"""A document in an editor: marks, pages and repairs, at the places that the protocol counts."""

from __future__ import annotations

from lsprotocol import types as lsp

from gradcheck_cli.editor.document import Document
from gradcheck_cli.project.settings import Settings

TEXT = """import jax
import jax.numpy as jnp


def f(x):
    s = "𝒙"; return s, jnp.log(1 + jnp.exp(x))
"""
LINE, START, END = 5, 24, 47  # 𝒙 is two units


def document(text: str = TEXT, settings: Settings | None = None) -> Document:
    return Document("file:///a.py", text, settings or Settings())


def test_a_finding_is_a_mark_in_units_of_the_protocol() -> None:
    (mark,) = document().diagnostics()
    assert (mark.code, mark.source, mark.severity) == ("naive-softplus", "cgcheck", lsp.DiagnosticSeverity.Error)  # fmt: skip
    assert mark.range == lsp.Range(lsp.Position(LINE, START), lsp.Position(LINE, END))


def test_a_place_says_the_page_of_its_rule_and_others_nothing() -> None:
    hover = document().hover(lsp.Position(LINE, START + 3))
    assert hover is not None
    assert isinstance(hover.contents, lsp.MarkupContent)
    assert "## Use instead" in hover.contents.value
    assert document().hover(lsp.Position(0, 0)) is None


def test_a_repair_is_a_preferred_quick_fix() -> None:
    here = lsp.Range(lsp.Position(LINE, START), lsp.Position(LINE, START))
    (action,) = document().actions(here)
    assert (action.title, action.is_preferred) == ("Write jax.nn.softplus(x)", True)
    assert action.edit is not None
    assert action.edit.changes is not None
    (edit,) = action.edit.changes["file:///a.py"]
    assert (edit.range.start.character, edit.range.end.character) == (START, END)


def test_what_the_settings_ignore_is_not_marked() -> None:
    assert document(settings=Settings(ignore=["naive-softplus"])).diagnostics() == []


def test_a_document_that_is_half_typed_says_so() -> None:
    (mark,) = document("def f(:\n").diagnostics()
    assert mark.code == "syntax-error"
