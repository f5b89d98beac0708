"""One line a finding, as compilers have it: terminals and editors make the place a link."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradcheck_cli.contract.report import Report
from gradcheck_cli.report.closing import closing
from gradcheck_cli.report.look import Look
from gradcheck_cli.report.told import by_file, headline, one_line, unchecked


def render(report: Report, look: Look) -> str:
    """`model.py:19:5: error[gradient-mismatch] relu: the formula is wrong`, then the closing line."""
    listing = begin(look, report.summary.files)
    return listing.add(report) + listing.end(report)


def begin(look: Look, files: int) -> Listing:
    """The lines of a run, while its files are added."""
    return Listing(look)


@dataclass(frozen=True, slots=True)
class Listing:
    """Lines of the findings; at the end those of what could not be checked."""

    look: Look

    def add(self, report: Report) -> str:
        """The findings of these files."""
        return "".join(f"{line}\n" for line in _found(report, self.look))

    def end(self, report: Report) -> str:
        """What is to be said of all files."""
        return "".join(f"{line}\n" for line in (*_left(report), closing(report)))


def _found(report: Report, look: Look) -> Iterator[str]:
    for finding in by_file(report, look.verbose):
        place = f"{one_line(finding.path)}:{finding.line}:{finding.column}"
        yield f"{place}: {finding.severity}[{finding.rule}] {headline(finding)}"


def _left(report: Report) -> Iterator[str]:
    for item, path, line in unchecked(report):
        text = one_line(f"{item.gradient}: {item.reason}")
        yield f"{one_line(path)}:{line}:1: could not check {text}"
