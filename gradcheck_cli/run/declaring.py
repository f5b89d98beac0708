"""Comments that declare what looks meant: rules that stand in for the derivative of a step.

What else deviates may be an error as well (`g / 4`: reduced twice): that is asked, not written.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from gradcheck_cli.contract.report import Finding, Gradient, Report, Severity, Verdict
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.project.added_comments import inserted
from gradcheck_cli.project.comments import parse
from gradcheck_cli.run.change import Change, text_of

_DECLARED = "expect(surrogate)"


def declaring(report: Report, root: Path) -> Iterator[Change]:
    """The files with a comment above each such definition of which nothing is declared yet."""
    asked = list(_surrogates(report))
    for display in dict.fromkeys(gradient.path for gradient, _ in asked):
        path = root / display
        text = text_of(path)
        if text is None:
            continue
        here = [(gradient, finding) for gradient, finding in asked if gradient.path == display]
        undeclared = _undeclared(text.source, [gradient.line for gradient, _ in here])
        if undeclared:
            told = [finding for gradient, finding in here if gradient.line in undeclared]
            after = inserted(text.source, dict.fromkeys(undeclared.values(), _DECLARED))
            yield Change(path, display, text.encoding, text.source, after, told)


def questions(report: Report) -> Iterator[Finding]:
    """What only the user can tell: deviations that a comment would declare."""
    asked = (f for f in report.findings if f.rule == RuleName.UNDECLARED_DEVIATION and f.expect)
    return (finding for finding in asked if finding.severity is Severity.WARNING)


def _surrogates(report: Report) -> Iterator[tuple[Gradient, Finding]]:
    """Gradients that are intended, each with what says that they stand in for the derivative of a step."""
    for gradient in report.gradients:
        mine = (report.findings[number] for number in gradient.findings)
        first = next((f for f in mine if f.rule == RuleName.UNDECLARED_SURROGATE), None)
        if gradient.verdict is Verdict.INTENDED and first is not None:
            yield gradient, first


def _undeclared(source: str, lines: Sequence[int]) -> dict[int, int]:
    """Of definitions at these lines those that nothing is declared of, each with its first line."""
    taken = {item.applies_to for item in parse(source).expects}
    places = {line: _lines(source, line) for line in lines}
    return {
        line: first
        for line, (first, last) in places.items()
        if taken.isdisjoint(range(first, last + 1))
    }


def _lines(source: str, line: int) -> tuple[int, int]:
    """The first line of what is defined at a line, decorators included, and the line of its name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if first <= line <= node.lineno:
                return first, node.lineno
    return line, line
