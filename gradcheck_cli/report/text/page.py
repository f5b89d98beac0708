"""The page: files, gradients, findings, what was not covered, the closing line."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gradcheck_cli.contract.report import Finding, NotCovered, Report, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.report.by_file import Section, sections
from gradcheck_cli.report.closing import closing, start_with
from gradcheck_cli.report.look import Look
from gradcheck_cli.report.text.alike import grouped, listed, with_one_reason
from gradcheck_cli.report.text.finding import finding_lines
from gradcheck_cli.report.text.gradient import (
    all_green,
    counted_verdicts,
    gradient_lines,
    is_told,
)
from gradcheck_cli.report.text.lines import Line, labelled, wrapped, written
from gradcheck_cli.report.text.sheet import Sheet

_WIDEST, _NARROWEST = 100, 60


def render(report: Report, look: Look) -> str:
    """The whole report as text."""
    page = begin(look, report.summary.files)
    return page.add(report) + page.end(report)


def begin(look: Look, files: int) -> Page:
    """The page of a run over so many files, while they are added to it."""
    columns = look.width or shutil.get_terminal_size((80, 24)).columns
    width = max(_NARROWEST, min(_WIDEST, columns))
    return Page(look, Sheet(look.root, width, look.verbose), files > 1)


@dataclass(slots=True)
class Page:
    """A page with the files that were added until now; those that could not be checked are told at its end."""

    look: Look
    sheet: Sheet
    of_several: bool
    _in_short: bool = False  # does it end with a file in one line?
    _held: list[Section] = field(default_factory=list)

    def add(self, report: Report) -> str:
        """What is to be said of the files of this report."""
        return self._written(line for each in sections(report) for line in self._told(each, report))

    def end(self, report: Report) -> str:
        """What is to be said of all files; the report is that of the whole run."""
        return self._written(self._last(report))

    def _last(self, report: Report) -> Iterator[Line]:
        for alike in self._held_alike():
            yield from self._could_not(alike)
        if self._in_short:
            yield []
        verbose = self.look.verbose
        yield from _not_covered(report.not_covered, self.of_several, self.sheet.width, verbose)
        yield from _closing(report, self.sheet.width)

    def _told(self, section: Section, report: Report) -> Iterator[Line]:
        """One file; of one that was never run there is a word at the end."""
        path, verbose = section.path, self.look.verbose
        mine = [f for f in section.findings if verbose or f.withdrawn_by is None]
        quiet = self.look.quiet
        here = [each for each in section.gradients if is_told(each, report.findings, quiet)]
        if not (here or self._loud(mine)):
            return
        if [f.rule for f in mine] == [RuleName.NO_CUSTOM_GRADIENTS] and not verbose:
            yield [(path, "bold underline"), (f"  {mine[0].message}", "dim")]
        elif not here and [find(f.rule).could_not_check for f in mine] == [True]:
            self._held.append(section)
        elif self.of_several and not (verbose or mine) and all_green(here, report):
            yield [(path, "bold underline"), (f"  {counted_verdicts(here, report)}", "green")]
            self._in_short = True
        else:
            yield from self._heading(path)
            yield from self._findings(mine)
            for each in here:
                yield []
                yield from gradient_lines(each, report, self.sheet)
            yield []

    def _loud(self, findings: Sequence[Finding]) -> list[Finding]:
        return [f for f in findings if not self.look.quiet or f.severity is not Severity.NOTE]

    def _heading(self, path: str) -> Iterator[Line]:
        if self._in_short:
            yield []
        self._in_short = False
        yield [(path, "bold underline")]

    def _findings(self, findings: Sequence[Finding]) -> Iterator[Line]:
        for finding in findings:
            yield []
            yield from finding_lines(finding, self.sheet)

    def _held_alike(self) -> list[list[Section]]:
        """The files that could not be checked; those of which the same is to be said together."""
        return [[each] for each in self._held] if self.look.verbose else grouped(self._held)

    def _could_not(self, alike: Sequence[Section]) -> Iterator[Line]:
        first, *others = alike
        yield from self._heading(first.path)
        yield from self._findings(first.findings)
        if others:
            text = f"in {listed([each.path for each in others])} (-v tells each)"
            yield from labelled("same", text, self.sheet.width, "")
        yield []

    def _written(self, lines: Iterator[Line]) -> str:
        return written(lines, self.sheet.width, color=self.look.color)


def _not_covered(
    items: Sequence[NotCovered], of_several: bool, width: int, verbose: bool
) -> Iterator[Line]:
    if not items:
        return
    yield [("Could not check", "bold yellow")]
    each = [(item, item.gradient) for item in items]
    for item, names in each if verbose else with_one_reason(items):
        where = f"{item.path}: " if of_several and item.path and names == item.gradient else ""
        text = f"{where}{names}: {item.what}: {item.reason}"
        yield from wrapped(text, width, "  ", "")
        if item.add:
            yield from wrapped(f"to check it, add {item.add}", width, "    ", "dim")
    yield []


def _closing(report: Report, width: int) -> Iterator[Line]:
    s = report.summary
    style = "bold red" if s.errors else "bold yellow" if s.warnings or s.unchecked else "bold green"
    yield from wrapped(closing(report), width, "", style)
    if start := start_with(report):
        yield from wrapped(start, width, "", style)
    if report.durations:
        for path, seconds in report.durations.items():
            yield [(f"  {seconds:7.2f} s  {path}", "dim")]
