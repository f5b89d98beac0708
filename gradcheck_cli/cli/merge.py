"""`cgcheck merge REPORT…`: the JSON reports of several runs as one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradcheck_cli.cli.check import FORMATS_HELP, Color


def merge(
    reports: Annotated[
        list[str], typer.Argument(metavar="REPORT", help="JSON reports, as --output-format json:FILE writes them.", show_default=False)
    ],
    output_format: Annotated[
        list[str] | None,
        typer.Option("--output-format", metavar="FORMAT[:FILE]", help=FORMATS_HELP),
    ] = None,
    color: Annotated[Color, typer.Option(metavar="WHEN", help="Colour in the text report: auto, always or never.")] = Color.AUTO,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only what is not right, and the last line.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Open notes, laws and inputs.")] = False,
) -> None:  # fmt: skip
    """Merge the reports of several runs, as of the shards of a project (--shard 1/4). The gravest exit code holds."""
    from gradcheck_cli.cli.outputs import Outputs
    from gradcheck_cli.project.settings import load
    from gradcheck_cli.report.json import read
    from gradcheck_cli.run.merged import merged

    outputs = Outputs.parse(output_format or ["text"], color.value, verbose, quiet)
    whole = merged([read(Path(path)) for path in reports])
    outputs.write(whole, load(Path.cwd())[1])
    raise typer.Exit(whole.summary.exit_code)
