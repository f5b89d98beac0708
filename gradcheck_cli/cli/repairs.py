"""`cgcheck check --fix`, `--unsafe-fixes`, `--diff` and `--add-ignore`: what a run writes into the files that it looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import typer
from msgspec import structs

from gradcheck_cli.cli.interrupts import heeding_termination
from gradcheck_cli.contract.errors import UsageError
from gradcheck_cli.contract.report import Report
from gradcheck_cli.project.files import Target
from gradcheck_cli.project.suppressions import without_unused
from gradcheck_cli.report.closing import count
from gradcheck_cli.run.change import Change
from gradcheck_cli.run.exit_code import INTERRUPTED
from gradcheck_cli.run.ignoring import ignoring
from gradcheck_cli.run.mending import Mended, Written, mend, repairs, written
from gradcheck_cli.run.result import Result
from gradcheck_cli.run.session import Session

_ROUNDS = 4  # of repairs of one file, each of what the last one uncovered


def show_repairs(report: Report, root: Path, *, unsafe: bool) -> int:
    """Print what would be written as a difference; the exit code: 1 if there is something."""
    changes = list(repairs(report, root, unsafe=unsafe))
    if not changes:
        left = report.summary.errors
        told = (
            f"; {count(left, 'error')} left, which `cgcheck` without --diff tells" if left else ""
        )
        _say(f"nothing to repair{_with_more(report, root, unsafe=unsafe)}{told}")
    typer.echo("".join(change.difference() for change in changes), nl=False)
    return 1 if changes else 0


def write_repairs(
    result: Result, session: Session, targets: Sequence[Target], *, unsafe: bool
) -> Result:
    """Repair the files of a run, and say so; the result is of the files as they are then."""
    later: list[tuple[Sequence[Change], Result]] = []

    def again(changes: Sequence[Change]) -> Report:
        shown = {change.display for change in changes}
        path_of = session.reader.display
        todo = [t for t in targets if t.path is not None and path_of(t.path) in shown]
        run = session.run(todo, lambda display, event: None)
        if run.stopped:
            raise KeyboardInterrupt
        later.append((changes, run))
        return run.report

    report, root = result.report, session.root
    changes = list(repairs(report, root, unsafe=unsafe))
    if not changes and (more := _with_more(report, root, unsafe=unsafe)):
        _say(f"nothing repaired{more}")
    kept: dict[str, Result] = {}  # the run of each file as it is now
    refused: set[Written] = set()  # the repairs that did no good
    for _ in range(_ROUNDS):
        if not changes:
            break
        try:
            with heeding_termination():
                mended = mend(report, changes, again, session.settings)
        except KeyboardInterrupt:  # all of this round is put back
            summary = structs.replace(report.summary, exit_code=INTERRUPTED)
            return _as_kept(result, structs.replace(report, summary=summary), kept)
        report = mended.report
        kept |= {c.display: run for c in mended.kept for changes, run in later if c in changes}
        _say_what_was_mended(mended)
        # What hid behind a fault that is gone shows only now.
        done = {change.display for change in mended.kept}
        refused |= {written(f) for change in mended.put_back for f in change.repaired}
        uncovered = repairs(report, root, unsafe=unsafe, refused=refused)
        changes = [change for change in uncovered if change.display in done]
    unused = [item for item in result.unused if item.path not in kept]
    unused += [item for path, run in kept.items() for item in run.unused if item.path == path]
    if removed := without_unused(unused, root):
        _say(f"{count(removed, 'unused suppression')} taken out")
    return _as_kept(result, report, kept)


def _as_kept(result: Result, report: Report, kept: Mapping[str, Result]) -> Result:
    """The result with this report, and with the files of later runs as they are now."""
    files = [file for file in result.files if file.display not in kept]
    files += [f for path, run in kept.items() for f in run.files if f.display == path]
    return replace(result, report=report, files=files)


def _say_what_was_mended(mended: Mended) -> None:
    for change in mended.kept:
        _say(f"{change.display}: {_what(change)} repaired")
    for change in mended.put_back:
        _say(f"{change.display}: {_what(change)} put back, for it is no better repaired")
    for change in mended.changed_meanwhile:
        _say(f"{change.display}: left alone, for it was changed in the meantime")


def write_ignores(report: Report, root: Path, reason: str) -> None:
    """Suppress what was found by comments with this reason, and say so."""
    if not reason.strip():
        raise UsageError("--add-ignore needs a reason")
    for change in ignoring(report, root, reason):
        if change.write():
            _say(f"{change.display}: {_what(change)} ignored")
        else:
            _say(f"{change.display}: left alone, for it was changed in the meantime")


def _with_more(report: Report, root: Path, *, unsafe: bool) -> str:
    """Of how many findings `--unsafe-fixes` knows a repair."""
    more = () if unsafe else repairs(report, root, unsafe=True)
    held = [finding for change in more for finding in change.repaired]
    if not held:
        return ""
    return f"; --unsafe-fixes has a repair of {count(len(held), 'finding')}"


def _what(change: Change) -> str:
    return count(len(change.repaired), "finding")


def _say(text: str) -> None:
    typer.echo(f"cgcheck: {text}", err=True)
