"""`cgcheck lint PATH…`: expressions that are numerically unstable, read off the source."""

from __future__ import annotations

from typing import Annotated

import typer

from gradcheck_cli.cli.check import Color, FailOn


def lint(
    context: typer.Context,
    paths: Annotated[
        list[str], typer.Argument(help="Files or folders; - reads standard input.", show_default=False)
    ],
    output_format: Annotated[
        list[str] | None,
        typer.Option("--output-format", help="text, json, or json:FILE. Repeatable."),
    ] = None,
    select: Annotated[list[str] | None, typer.Option(help="Only these rules (names, codes, families).")] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Not these rules.")] = None,
    fail_on: Annotated[FailOn | None, typer.Option(help="Least severity that fails the run.")] = None,
    color: Annotated[Color, typer.Option(help="Colour in the text report.")] = Color.AUTO,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Name files without findings too.")] = False,
) -> None:  # fmt: skip
    """Find expressions that overflow, lose their digits or have no gradient. Nothing is imported or run."""
    from gradcheck_cli.cli.outputs import Outputs
    from gradcheck_cli.project.settings import load_for, with_flags
    from gradcheck_cli.run.linting import lint_files, report_of

    outputs = Outputs.parse(output_format or ["text"], color.value, verbose)
    settings, root = load_for("." if paths == ["-"] else paths[0])
    settings = with_flags(settings, context.params, "command line")
    report = report_of(lint_files(paths, settings, root), settings)
    outputs.write(report, root)
    raise typer.Exit(report.summary.exit_code)
