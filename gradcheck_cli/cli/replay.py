"""`cgcheck replay ID`: is a finding still there? `cgcheck repro ID`: a finding as a script of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gradcheck_cli.project.finding_history import Entry
    from gradcheck_cli.run.result import Result

Id = Annotated[str, typer.Argument(metavar="ID", help="From a report; the first digits will do.")]


def replay(name: Id) -> None:
    """Run the check again that led to a finding, and show it if it is still there."""
    from gradcheck_cli.report import render
    from gradcheck_cli.report.from_here import from_here
    from gradcheck_cli.report.look import Look
    from gradcheck_cli.run.exit_code import FINDINGS
    from gradcheck_cli.run.renumbered import narrowed

    fingerprint, entry, root, result = _again(name, script=False)
    shown = narrowed(result.report, fingerprint)
    if not shown.findings:
        typer.echo(f"{entry.rule} of {entry.gradient} is gone")
        return
    here = Path.cwd()
    read = from_here(shown, root, here)
    typer.echo(render("text", read, Look(here, verbose=True)), nl=False)
    raise typer.Exit(FINDINGS)


def repro(
    name: Id,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there instead.")] = None,
) -> None:  # fmt: skip
    """Write a finding as a script: run it to see the numbers, or give it to pytest."""
    from gradcheck_cli.contract.errors import UserError

    fingerprint, entry, _, result = _again(name, script=True)
    script = result.scripts.get(fingerprint)
    if script is None:
        raise UserError(f"{entry.rule} of {entry.gradient} is gone: nothing to reproduce")
    if script.text is None:
        raise UserError(f"no script for it: {script.reason}")
    if output is None:
        typer.echo(script.text, nl=False)
    else:
        output.write_text(script.text, encoding="utf-8")


def _again(name: str, *, script: bool) -> tuple[str, Entry, Path, Result]:
    """A new run that looks for an earlier finding in its function alone."""
    from gradcheck_cli.project.cache_folder import folder, home
    from gradcheck_cli.project.files import resolve
    from gradcheck_cli.project.finding_history import look_up
    from gradcheck_cli.project.settings import load
    from gradcheck_cli.run.session import Session

    _, root = load(Path.cwd())
    fingerprint, entry = look_up(name, root, home())
    there = [
        t for t in (str(root / entry.target), entry.target) if Path(t.partition(":")[0]).exists()
    ]
    targets = resolve(there[:1] or [entry.target], entry.settings.exclude)
    session = Session(
        entry.settings, root, entry.at, cache=folder(), script=fingerprint if script else None
    )
    result = session.run(targets, lambda *_: None)
    if result.stopped:
        raise KeyboardInterrupt
    return fingerprint, entry, root, result
