"""One line a finding, as compilers have it: terminals and editors make the place a link."""

from __future__ import annotations

from collections.abc import Iterator

from gradcheck_cli.contract.report import Report
from gradcheck_cli.report.closing import closing
from gradcheck_cli.report.look import Look
from gradcheck_cli.report.told import headline, one_line, told, unchecked


def render(report: Report, look: Look) -> str:
    """`model.py:19:5: error[gradient-mismatch] relu: the formula is wrong`, then the closing line."""
    return "\n".join((*_lines(report, look), closing(report))) + "\n"


def _lines(report: Report, look: Look) -> Iterator[str]:
    for finding in told(report, look.verbose):
        place = f"{one_line(finding.path)}:{finding.line}:{finding.column}"
        yield f"{place}: {finding.severity}[{finding.rule}] {headline(finding)}"
    for item, path, line in unchecked(report):
        text = one_line(f"{item.gradient}: {item.reason}")
        yield f"{one_line(path)}:{line}:1: could not check {text}"
