"""`cgcheck record -- COMMAND…`: run anything, and keep how custom gradients are called in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def record(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="The command, after `--`: pytest, python train.py, …")],
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget earlier recordings.")] = False,
) -> None:  # fmt: skip
    """Run a command and keep, for each custom gradient of the project, how it is called.

    The calls go to a file that belongs under version control; later runs of cgcheck use them as inputs.
    """
    from gradcheck_cli.project.settings import load
    from gradcheck_cli.record.command import record_command

    settings, root = load(Path.cwd())
    raise typer.Exit(record_command(command, root, root / settings.recordings, fresh=fresh))
