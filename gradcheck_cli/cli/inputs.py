"""`cgcheck inputs PATH…`: what would be used as inputs, and why, without checking anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gradcheck_cli.contract.report import Input


def inputs(
    paths: Annotated[list[str], typer.Argument(help="Files, folders, modules, or PATH:function.")],
) -> None:
    """Show the inputs that each custom gradient would be checked with, and where they come from."""
    import msgspec

    from gradcheck_cli.contract.report import Status
    from gradcheck_cli.project.cache_folder import folder
    from gradcheck_cli.project.files import resolve
    from gradcheck_cli.project.settings import load_for
    from gradcheck_cli.run.session import Session

    settings, root = load_for(paths[0])
    settings = msgspec.structs.replace(settings, dtype=settings.dtype[:1])
    targets = resolve(paths, settings.exclude)
    session = Session(settings, root, cache=folder(), only_inputs=True)
    report = session.run(targets, lambda *_: None).report
    for gradient in report.gradients:
        on = f" on {gradient.backend}" if gradient.backend != gradient.framework else ""
        typer.echo(f"{gradient.path}:{gradient.line} {gradient.qualname}{on}")
        checked = gradient.status is Status.CHECKED
        for line in _lines(gradient.inputs) if checked else [gradient.reason]:
            typer.echo(f"  {line}".rstrip())
    for finding in report.findings:
        typer.echo(f"{finding.path}:{finding.line} {finding.rule}: {finding.message}")
    raise typer.Exit(2 if any(f.severity.value == "error" for f in report.findings) else 0)


def _lines(arguments: Sequence[Input]) -> Iterator[str]:
    """An argument a line; an empty one before each further way to call it."""
    shown: set[str] = set()
    for item in arguments:
        if item.path in shown:
            shown.clear()
            yield ""
        shown.add(item.path)
        shape = f"[{' '.join(map(str, item.shape))}]"
        what = (
            item.domain if item.dtype == "fixed" else f"{item.dtype}{shape} {item.domain}".strip()
        )
        yield f"{item.path}: {what} because of {item.source}"
