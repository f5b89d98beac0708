"""Repairs of what a run found: written, and checked again; a file that is not better for it is put back."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradcheck_cli.contract.errors import CgcheckError
from gradcheck_cli.contract.report import Edit, Finding, Report, Severity, Verdict
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.project.edits import applied
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.change import Change, text_of
from gradcheck_cli.run.merged import merged, without

Again = Callable[[Sequence[Change]], Report]  # the report on these files alone, as they are now


@dataclass(frozen=True, slots=True)
class Mended:
    """The report after the repairs, the files that were repaired, those that were put back, and those that somebody else changed meanwhile."""

    report: Report
    kept: Sequence[Change]
    put_back: Sequence[Change]
    changed_meanwhile: Sequence[Change] = ()


def repairs(report: Report, root: Path, *, unsafe: bool) -> Iterator[Change]:
    """The files that the repairs of the report's errors and warnings change.

    What stands under a comment that could not be read is left alone: it may be meant.
    """
    by_path: dict[str, list[Finding]] = defaultdict(list)
    unread = _under_unread_comments(report, root)
    for finding in report.findings:
        grave = finding.severity is not Severity.NOTE
        owner = finding.gradient_index
        at_home = owner is None or report.gradients[owner].path == finding.path
        wanted = grave and at_home and owner not in unread and (unsafe or finding.fix_is_safe)
        if finding.edits and wanted:
            by_path[finding.path].append(finding)
    for display, findings in by_path.items():
        path = root / display
        text = text_of(path)
        if text is not None:
            chosen = _apart(findings)
            edits = list(dict.fromkeys(e for finding in chosen for e in finding.edits))
            after = applied(text.source, edits)
            yield Change(path, display, text.encoding, text.source, after, chosen)


def _under_unread_comments(report: Report, root: Path) -> set[int | None]:
    """The gradients, by number, that a comment is about which says nothing that is known."""
    found: set[int | None] = set()
    for finding in report.findings:
        if finding.rule == RuleName.MALFORMED_COMMENT:
            lines = {g.line for g in report.gradients if g.path == finding.path}
            text = text_of(root / finding.path)
            near = _lines_meant(finding.line, lines, text.source if text else "")
            found |= {
                number
                for number, gradient in enumerate(report.gradients)
                if gradient.path == finding.path and gradient.line in near
            }
    return found


def _lines_meant(line: int, gradients: Collection[int], source: str) -> set[int]:
    """The lines of the gradients that a comment may be about.

    That of the innermost definition around it that is one; else the next below, and, unless it
    stands alone between definitions, the last above as well.
    """
    headers = _headers(line, source)
    inside = next((here for h in headers if (here := {g for g in gradients if g in h})), None)
    if inside is not None:
        return inside
    lines = source.splitlines()[line - 1 : line]
    alone = not headers and all(text.startswith("#") or not text for text in lines)
    above = [] if alone else [g for g in gradients if g < line]
    below = [g for g in gradients if g >= line]
    return {*([max(above)] if above else []), *([min(below)] if below else [])}


def _headers(line: int, source: str) -> list[range]:
    """The lines from the first decorator to the `def` of each definition in which a line stands, the innermost first."""
    try:
        nodes = ast.walk(ast.parse(source))
    except (SyntaxError, ValueError):
        return []
    found: list[range] = []
    for node in nodes:  # outer ones before inner ones
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if start <= line <= (node.end_lineno or line):
                found.insert(0, range(start, node.lineno + 1))
    return found


def mend(report: Report, changes: Sequence[Change], again: Again, settings: Settings) -> Mended:
    """Write all changes, check their files again, and put back what is not better."""
    written: list[Change] = []
    try:
        for change in changes:
            if change.write():
                written.append(change)
        after = again(written)
    except BaseException:  # whatever it was: nothing stays that was not checked
        _take_back(written)
        raise
    kept = [change for change in written if _is_better(report, after, change.display)]
    put_back = [change for change in written if change not in kept]
    others = [*(c for c in changes if c not in written), *_take_back(put_back)]
    put_back = [change for change in put_back if change not in others]
    if not kept:
        return Mended(report, [], put_back, others)
    here = {c.display for c in kept}
    there = {c.display for c in written} - here
    whole = merged([without(report, here, settings), without(after, there, settings)])
    return Mended(whole, kept, put_back, others)


def _take_back(changes: Sequence[Change]) -> list[Change]:
    """Put back all that can be; those that somebody has changed since. An error is raised when the others are done."""
    errors, others = [], []
    for change in changes:
        try:
            others += [] if change.take_back() else [change]
        except CgcheckError as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return others


def _apart(findings: Sequence[Finding]) -> list[Finding]:
    """The findings whose edits are the same as an earlier one's, or do not touch them."""
    taken: list[Edit] = []
    chosen = []
    for finding in findings:
        new = [e for e in finding.edits if e not in taken]
        if not any(_touch(one, other) for one in new for other in taken):
            taken += new
            chosen.append(finding)
    return chosen


def _touch(one: Edit, other: Edit) -> bool:
    starts, ends = zip(*map(_ends, (one, other)), strict=True)
    inserted = any(start == end for start, end in map(_ends, (one, other)))
    inside = max(starts) == min(ends) and min(starts) < max(starts) < max(ends)
    return bool(max(starts) < min(ends)) or (inserted and inside)


def _ends(edit: Edit) -> tuple[tuple[int, int], tuple[int, int]]:
    return (edit.line, edit.column), (edit.end_line, edit.end_column)


# The formula is right, whatever its floats do.
_RIGHT = (Verdict.CORRECT, Verdict.INTENDED, Verdict.UNSTABLE)


def _is_better(before: Report, after: Report, display: str) -> bool:
    """Is no gradient worse than before, and one of them better, or are errors and warnings fewer?"""
    old, new = _verdicts(before, display), _verdicts(after, display)
    if any(key not in new or new[key].rank > verdict.rank for key, verdict in old.items()):
        return False
    better = any(
        new[key].rank < verdict.rank and new[key] in _RIGHT for key, verdict in old.items()
    )
    return better or _grave(after, display) < _grave(before, display)


def _verdicts(report: Report, display: str) -> dict[tuple[str, str], Verdict]:
    return {
        (g.qualname, g.backend): g.verdict or Verdict.INCONCLUSIVE
        for g in report.gradients
        if g.path == display
    }


def _grave(report: Report, display: str) -> int:
    return sum(f.severity is not Severity.NOTE for f in report.findings if f.path == display)
