"""A document in an editor: its findings, what a place in it says, and the repairs that it offers.

Lines and columns are those of the protocol: from zero on, in UTF-16 units.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from lsprotocol import types as lsp

from gradcheck_cli.contract.report import Edit, Finding, Severity
from gradcheck_cli.project.edits import lines_of
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.linting import findings_of

SOURCE = "cgcheck"
_LEVELS = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
    Severity.NOTE: lsp.DiagnosticSeverity.Information,
}


@dataclass(frozen=True)
class Document:
    """The text of one file, as it is in the editor now."""

    uri: str
    text: str
    settings: Settings

    @functools.cached_property
    def findings(self) -> Sequence[Finding]:
        return findings_of(self.text, self.uri, self.settings)

    @functools.cached_property
    def _lines(self) -> Sequence[str]:
        return lines_of(self.text)

    def diagnostics(self) -> list[lsp.Diagnostic]:
        """A mark for each finding."""
        return [self._diagnostic(finding) for finding in self.findings]

    def hover(self, at: lsp.Position) -> lsp.Hover | None:
        """The page of the rule whose finding stands there."""
        for finding in self.findings:
            place = self._range(finding)
            if _holds(place, at):
                page = find(finding.rule)
                title = f"**{page.name}** ({page.code}, {page.severity})"
                text = lsp.MarkupContent(lsp.MarkupKind.Markdown, f"{title}\n\n{page.body}")
                return lsp.Hover(text, place)
        return None

    def actions(self, within: lsp.Range) -> list[lsp.CodeAction]:
        """The repairs of findings that touch a range; what is safe is preferred."""
        touched = [f for f in self.findings if f.edits and _touch(self._range(f), within)]
        return [self._action(finding) for finding in touched]

    def _action(self, finding: Finding) -> lsp.CodeAction:
        edits = [lsp.TextEdit(self._place(edit), edit.text) for edit in finding.edits]
        caution = "" if finding.fix_is_safe else " (not everywhere the same)"
        return lsp.CodeAction(
            title=f"Write {finding.edits[0].text}{caution}",
            kind=lsp.CodeActionKind.QuickFix,
            diagnostics=[self._diagnostic(finding)],
            is_preferred=finding.fix_is_safe,
            edit=lsp.WorkspaceEdit(changes={self.uri: edits}),
        )

    def _diagnostic(self, finding: Finding) -> lsp.Diagnostic:
        return lsp.Diagnostic(
            range=self._range(finding),
            message=f"{finding.message}; {finding.help}",
            severity=_LEVELS[finding.severity],
            code=finding.rule,
            source=SOURCE,
        )

    def _range(self, finding: Finding) -> lsp.Range:
        end_line = finding.end_line or finding.line
        end_column = finding.end_column or finding.column + 1
        return lsp.Range(self._at(finding.line, finding.column), self._at(end_line, end_column))

    def _place(self, edit: Edit) -> lsp.Range:
        return lsp.Range(self._at(edit.line, edit.column), self._at(edit.end_line, edit.end_column))

    def _at(self, line: int, column: int) -> lsp.Position:
        """A line and a column in letters, both from one on, as the protocol counts them."""
        text = self._lines[line - 1] if line <= len(self._lines) else ""
        units = len(text[: column - 1].encode("utf-16-le")) // 2
        return lsp.Position(line - 1, units)


def _holds(place: lsp.Range, at: lsp.Position) -> bool:
    return _key(place.start) <= _key(at) <= _key(place.end)


def _touch(one: lsp.Range, other: lsp.Range) -> bool:
    return _key(one.start) <= _key(other.end) and _key(other.start) <= _key(one.end)


def _key(position: lsp.Position) -> tuple[int, int]:
    return position.line, position.character
