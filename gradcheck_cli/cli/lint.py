"""`cgcheck lint PATH…`: expressions that are numerically unstable, read off the source; `cgcheck server`: in editors."""

from __future__ import annotations

import functools
import sys
from typing import Annotated

import typer

from gradcheck_cli.cli.check import FORMATS_HELP, Color, FailOn


def lint(
    context: typer.Context,
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Files or folders; - reads standard input.", show_default=False)
    ],
    output_format: Annotated[
        list[str] | None,
        typer.Option("--output-format", metavar="FORMAT[:FILE]", help=FORMATS_HELP),
    ] = None,
    select: Annotated[list[str] | None, typer.Option(metavar="RULE", help="Only these rules (names, codes, families).")] = None,
    ignore: Annotated[list[str] | None, typer.Option(metavar="RULE", help="Not these rules.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(metavar="PATTERN", help="Patterns of files and folders that are left out, as .gitignore has them. Repeatable.")] = None,
    force_exclude: Annotated[bool, typer.Option("--force-exclude", help="Leave out what is excluded even if it is named.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Write the repairs that compute the same.")] = False,
    unsafe_fixes: Annotated[bool, typer.Option("--unsafe-fixes", help="Write those too that may change a value or a rare case.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show what --fix would change, and write nothing.")] = False,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Read files again that have not changed.")] = False,
    baseline: Annotated[str | None, typer.Option(metavar="FILE", help="Findings that are known: they are counted, not shown, and fail nothing.", show_default=False)] = None,
    update_baseline: Annotated[bool, typer.Option("--update-baseline", help="Write what was found into the baseline, and take out what is gone.")] = False,
    fail_on: Annotated[FailOn | None, typer.Option(metavar="SEVERITY", help="Least severity that fails the run: error, warning, note or never.")] = None,
    color: Annotated[Color, typer.Option(metavar="WHEN", help="Colour in the text report: auto, always or never.")] = Color.AUTO,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only what is not right, and the last line.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Name files without findings too.")] = False,
) -> None:  # fmt: skip
    """Find expressions that overflow, lose their digits or have no gradient. Nothing is imported or run."""
    from gradcheck_cli.cli.known import only_new
    from gradcheck_cli.cli.outputs import Outputs
    from gradcheck_cli.project.cache_folder import home
    from gradcheck_cli.project.files import without_excluded
    from gradcheck_cli.project.settings import load_for, with_flags
    from gradcheck_cli.run.fixing import change_of_input, changes
    from gradcheck_cli.run.lint_cache import LintCache
    from gradcheck_cli.run.lint_report import report_of
    from gradcheck_cli.run.linting import STANDARD_INPUT, displays_of, lint_files

    outputs = Outputs.parse(output_format or ["text"], color.value, verbose, quiet)
    settings, root = load_for("." if paths == ["-"] else paths[0])
    settings = with_flags(settings, context.params, "command line")
    if settings.force_exclude:
        paths = without_excluded(paths, settings.exclude, root)
    if paths == [STANDARD_INPUT] and (fix or unsafe_fixes or diff):
        change = change_of_input(sys.stdin.read(), settings, unsafe=unsafe_fixes)
        typer.echo(change.difference() if diff else change.after, nl=False)
        raise typer.Exit(1 if diff and change.repaired else 0)
    if fix or unsafe_fixes or diff:
        found = list(changes(paths, settings, root, unsafe=unsafe_fixes))
        if diff:
            typer.echo("".join(change.difference() for change in found), nl=False)
            raise typer.Exit(1 if found else 0)
        for change in found:
            change.write()
        repaired = sum(len(change.repaired) for change in found)
        typer.echo(f"cgcheck: {repaired} repaired in {len(found)} of the files", err=True)
    cache = None if no_cache else LintCache(home())
    report = report_of(lint_files(paths, settings, root, cache), settings)
    files = functools.partial(displays_of, paths, settings, root)
    report = only_new(
        report, files, settings, root, named=baseline, update=update_baseline, static=True
    )
    outputs.write(report, root)
    raise typer.Exit(report.summary.exit_code)


def server() -> None:
    """Speak the language server protocol: findings as you type, rule pages on hover, repairs as quick fixes."""
    from gradcheck_cli.contract.errors import UsageError

    try:
        from gradcheck_cli.editor.server import server as made
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not installed: pip install 'cgcheck[editor]'") from None
    made().start_io()
