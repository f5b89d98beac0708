"""Comments that suppress what a run found, each with the reason that the user gives."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from gradcheck_cli.contract.report import Finding, Report
from gradcheck_cli.project.baseline import can_be_known
from gradcheck_cli.project.comments import parse
from gradcheck_cli.project.edits import lines_of
from gradcheck_cli.run.change import Change, text_of


def ignoring(report: Report, root: Path, reason: str) -> Iterator[Change]:
    """The files with a comment at each gradient, or at each expression that no gradient is about, that has findings."""
    by_path: dict[str, dict[int, list[Finding]]] = defaultdict(lambda: defaultdict(list))
    for finding in filter(can_be_known, report.findings):
        owner = finding.gradient_index
        at_home = owner is not None and report.gradients[owner].path == finding.path
        line = finding.gradient_line if at_home else None
        by_path[finding.path][line or finding.line].append(finding)
    for display, by_line in by_path.items():
        path = root / display
        text = text_of(path)
        if text is None:
            continue
        after, ignored = text.source, list[Finding]()
        for line, findings in by_line.items():
            rules = ", ".join(sorted({finding.rule for finding in findings}))
            commented = _with_comment(after, line, f"ignore[{rules}] -- {' '.join(reason.split())}")
            if commented is not None:
                after = commented
                ignored += findings
        if ignored:
            yield Change(path, display, text.encoding, text.source, after, ignored)


def _with_comment(source: str, number: int, text: str) -> str | None:
    """The source with a comment behind this line; None where it would be none, as within a string."""
    lines = [*lines_of(source)]
    if not 0 < number <= len(lines):
        return None
    line = lines[number - 1]
    code = line.rstrip()
    lines[number - 1] = f"{code}  # cgcheck: {text}{line[len(code) :].lstrip(' ')}"
    after = "".join(lines)
    stands = len(parse(after).ignores) == len(parse(source).ignores) + 1
    return after if stands and _same(source, after) else None


def _same(one: str, other: str) -> bool:
    """Do two sources say the same, but for comments?"""
    try:
        return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))
    except (SyntaxError, ValueError):
        return False
