"""What a source says: its text, its comments, the custom gradients that it defines; or what is wrong with it."""

from __future__ import annotations

import ast
import tokenize
from pathlib import Path

from gradcheck_cli.contract.report import Finding
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import Mark
from gradcheck_cli.project.comments import Comments
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.project.source_marks import find_marks
from gradcheck_cli.project.unreadable import no_python, unread


def marks_of(source: str, path: Path, display: str) -> list[Mark] | Finding:
    """The custom gradients that a source defines, or the finding that it is no Python."""
    try:
        return find_marks(ast.parse(source), path)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return no_python(display, source, error)


def text_of(path: Path, display: str) -> str | Finding:
    """The text of a file; the finding that it cannot be read."""
    try:
        with tokenize.open(path) as stream:
            return stream.read()
    except (SyntaxError, UnicodeDecodeError, OSError, LookupError) as error:
        return unread(display, 1, f"it cannot be read as Python source: {error}")


def meaningless(comment: Comments, display: str) -> list[Finding]:
    """The findings that comments for us mean nothing."""
    rule = find(RuleName.MALFORMED_COMMENT)
    return [rule.finding(display, m.line, f"`{m.text}`: {m.problem}") for m in comment.malformed]


def nothing_defined(display: str) -> Finding:
    """The finding that a file which was named defines no custom gradient."""
    said = "it defines no custom gradient, so nothing was run"
    return find(RuleName.NO_CUSTOM_GRADIENTS).finding(display, 1, said)
