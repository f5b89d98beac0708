"""A report as it is read in a folder: paths from there on, so that one can click them and type the commands again.

Files for machines have paths from the project's root on, wherever they were asked for.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from gradcheck_cli.contract.report import Adequacy, Finding, Gradient, Report

Moved = Callable[[str], str]

_COMMAND = "cgcheck "


def seen_from(here: Path, root: Path) -> Moved:
    """What a path below the root is in this folder; from outside of the project it is whole.

    That of an installed module is none below the root, and stays.
    """

    def moved(path: str) -> str:
        there = root / path
        if here == root or Path(path).is_absolute() or not there.exists():
            return path
        near = here.is_relative_to(root) or there.is_relative_to(here)
        return os.path.relpath(there, here) if near else str(there)

    return moved


def from_here(report: Report, root: Path, here: Path) -> Report:
    """The report with its paths from this folder on; they go from the root on."""
    if here == root:
        return report
    moved = seen_from(here, root)
    return replace(
        report,
        findings=[_finding(finding, moved) for finding in report.findings],
        gradients=[_gradient(gradient, moved) for gradient in report.gradients],
        not_covered=[
            replace(item, path=moved(item.path)) if item.path else item
            for item in report.not_covered
        ],
    )


def _finding(finding: Finding, moved: Moved) -> Finding:
    cause = finding.cause
    if cause is not None and cause.path:
        cause = replace(cause, path=moved(cause.path))
    again = finding.reproduce and _command(finding.reproduce, finding.path, moved)
    return replace(finding, path=moved(finding.path), cause=cause, reproduce=again)


def _command(command: str, path: str, moved: Moved) -> str:
    """`cgcheck model.py:loss …` as it is typed here."""
    try:
        target = shlex.split(command)[1]
    except ValueError:  # a name with a quote in it
        return command
    start = f"{_COMMAND}{shlex.quote(target)}"
    if not target.startswith(path) or not command.startswith(start):
        return command
    return f"{_COMMAND}{shlex.quote(moved(path) + target[len(path) :])}{command[len(start) :]}"


def _gradient(gradient: Gradient, moved: Moved) -> Gradient:
    adequacy = gradient.adequacy and _adequacy(gradient.adequacy, moved)
    return replace(gradient, path=moved(gradient.path), adequacy=adequacy)


def _adequacy(adequacy: Adequacy, moved: Moved) -> Adequacy:
    unseen = [
        replace(change, path=moved(change.path)) if change.path else change
        for change in adequacy.unseen
    ]
    return replace(adequacy, unseen=unseen)
