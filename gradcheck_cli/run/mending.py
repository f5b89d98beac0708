"""Repairs of what a run found: written, and checked again; a file that is not better for it is put back."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gradcheck_cli.contract.errors import CgcheckError
from gradcheck_cli.contract.report import Edit, Finding, Report, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.project.edits import applied
from gradcheck_cli.project.leftovers import leftovers
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.change import Change, text_of
from gradcheck_cli.run.merged import merged, without
from gradcheck_cli.run.repaired_file import RepairedFile

Written = tuple[str, ...]  # a repair, by its finding and by what it writes
Again = Callable[[Sequence[Change]], Report]  # the report on these files alone, as they are now


@dataclass(frozen=True, slots=True)
class Mended:
    """The report after the repairs: those that were made, those that did no good, and those of files that somebody else changed meanwhile."""

    report: Report
    kept: Sequence[Change]
    put_back: Sequence[Change]
    changed_meanwhile: Sequence[Change] = ()


def written(finding: Finding) -> Written:
    """A finding's repair, wherever its lines are by now."""
    return finding.fingerprint, *(edit.text for edit in finding.edits)


def repairs(
    report: Report, root: Path, *, unsafe: bool, refused: Collection[Written] = ()
) -> Iterator[Change]:
    """The files that the repairs of the report's errors and warnings change, but for those that were refused.

    What stands under a comment that could not be read is left alone: it may be meant.
    """
    by_path: dict[str, list[Finding]] = defaultdict(list)
    unread = _under_unread_comments(report, root)
    for finding in report.findings:
        grave = finding.severity is not Severity.NOTE
        owner = finding.gradient_index
        at_home = owner is None or report.gradients[owner].path == finding.path
        wanted = grave and at_home and owner not in unread and (unsafe or finding.fix_is_safe)
        wanted = wanted and written(finding) not in refused
        if finding.edits and wanted:
            by_path[finding.path].append(finding)
    for display, findings in by_path.items():
        path = root / display
        text = text_of(path)
        if text is not None:
            untouched = Change(path, display, text.encoding, text.source, text.source, ())
            yield _with_only(untouched, _apart(findings))


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
    """Write all changes, check their files again, and put back what is not better.

    Of a file for which some of the repairs did no good, the others are tried alone.
    """
    first = _tried(report, changes, again)
    written = [each.change for each in first]
    others = [change for change in changes if change not in written]
    try:
        good, doubtful = _sorted(first)
        others += _take_back([each.change for each in doubtful])
        left = [each for each in doubtful if each.change not in others]
        partly = [each for each in left if each.useful() and each.useless()]
        fewer = [_with_only(each.change, each.useful()) for each in partly]
        written += fewer
        second = _tried(report, fewer, again)
        better = [each for each in second if each.is_better]
        others += _take_back([each.change for each in second if not each.is_better])
        # What was better with all of its repairs, and is not with fewer, has them all.
        names = {each.change.display for each in better} | {change.display for change in others}
        whole = [e for e in left if e.is_better and e.change.display not in names]
        kept = [*good, *better, *(each for each in whole if each.change.write())]
        put_back = [
            _with_only(each.change, lost)
            for each in left
            if (lost := [f for f in each.change.repaired if not _is_repaired(f, kept)])
        ]
        return Mended(_told(report, kept, settings), [e.change for e in kept], put_back, others)
    except BaseException:  # nothing stays of what was not looked at to the end
        _take_back(written)
        raise


def _sorted(files: Sequence[RepairedFile]) -> tuple[list[RepairedFile], list[RepairedFile]]:
    """Files that are better, with no repair that did nothing good beside others that did; and the rest."""
    good = [f for f in files if f.is_better and not (f.useful() and f.useless())]
    return good, [f for f in files if all(f is not other for other in good)]


def _told(report: Report, kept: Sequence[RepairedFile], settings: Settings) -> Report:
    """The report, with what is told of the files that were kept as it is now."""
    if not kept:
        return report
    here = {each.change.display for each in kept}
    parts = [without(report, here, settings)]
    for after in {id(each.after): each.after for each in kept}.values():
        own = {each.change.display for each in kept if each.after is after}
        told = {g.path for g in after.gradients} | {f.path for f in after.findings}
        told |= {item.path for item in after.suppressed}
        parts.append(without(after, told - own, settings))
    return merged(parts)


def _with_only(change: Change, findings: Sequence[Finding]) -> Change:
    """The change with these of its repairs alone."""
    edits = list(dict.fromkeys(e for finding in findings for e in finding.edits))
    edits = [*leftovers(change.before, edits), *edits]
    return replace(change, after=applied(change.before, edits), repaired=findings)


def _is_repaired(finding: Finding, files: Sequence[RepairedFile]) -> bool:
    return any(finding in each.change.repaired for each in files)


def _tried(report: Report, changes: Sequence[Change], again: Again) -> list[RepairedFile]:
    """The changes that could be written, with what is found then."""
    written: list[Change] = []
    try:
        for change in changes:
            if change.write():
                written.append(change)
        after = again(written) if written else report
    except BaseException:  # whatever it was: nothing stays that was not checked
        _take_back(written)
        raise
    return [RepairedFile(change, report, after) for change in written]


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
