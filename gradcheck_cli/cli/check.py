"""`cgcheck check PATH…`: check custom gradients."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from gradcheck_cli.contract.number_text import tidy
from gradcheck_cli.project.framework_marks import Backend
from gradcheck_cli.project.settings import Settings, load_for, with_flags

FORMATS_HELP = (
    "text, concise, statistics, json, json-lines, sarif, junit, github, gitlab, markdown, html or svg; FORMAT:FILE writes a file. "
    "Repeatable."
)


class Color(StrEnum):
    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class FailOn(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    NEVER = "never"


class Device(StrEnum):
    CPU = "cpu"
    GPU = "gpu"


def _default(name: str) -> str:
    """The default of a setting, as the help shows it."""
    value = getattr(Settings(), name)
    return value if isinstance(value, str) else tidy(f"{value:g}")


def check(
    context: typer.Context,
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH", help="Files, folders, package.module, or either with :function.", show_default=False),
    ],
    output_format: Annotated[
        list[str] | None,
        typer.Option("--output-format", metavar="FORMAT[:FILE]", help=FORMATS_HELP),
    ] = None,
    select: Annotated[list[str] | None, typer.Option(metavar="RULE", help="Only these rules (names, codes, families).")] = None,
    ignore: Annotated[list[str] | None, typer.Option(metavar="RULE", help="Not these rules.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(metavar="PATTERN", help="Patterns of files and folders that are left out, as .gitignore has them. Repeatable.")] = None,
    force_exclude: Annotated[bool, typer.Option("--force-exclude", help="Leave out what is excluded even if it is named.")] = False,
    changed: Annotated[bool, typer.Option("--changed", help="Only files that differ from the last commit, and what imports them.")] = False,
    since: Annotated[str | None, typer.Option(metavar="REV", help="Only files that differ from this commit, and what imports them.", show_default=False)] = None,
    shard: Annotated[str | None, typer.Option(metavar="I/N", help="Only the I-th of N parts of the files, as on one of N machines; `cgcheck merge` joins the reports.", show_default=False)] = None,
    baseline: Annotated[str | None, typer.Option(metavar="FILE", help="Findings that are known: they are counted, not shown, and fail nothing.", show_default=False)] = None,
    update_baseline: Annotated[bool, typer.Option("--update-baseline", help="Write what was found into the baseline, and take out what is gone.")] = False,
    fail_on: Annotated[FailOn | None, typer.Option(metavar="SEVERITY", help="Least severity that fails the run: error, warning, note or never.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings and unchecked gradients fail too.")] = False,
    dtype: Annotated[list[str] | None, typer.Option(metavar="DTYPE", help="Floats that are checked: float32, float64, float16, bfloat16. Repeatable.")] = None,
    points: Annotated[int | None, typer.Option(metavar="N", help="Points for each signature.", show_default=_default("points"))] = None,
    search: Annotated[int | None, typer.Option(metavar="N", help="Inputs that are searched beyond those, where no error was found.", show_default=_default("search"))] = None,
    order: Annotated[int | None, typer.Option(min=1, max=2, metavar="1|2", help="Up to which order derivatives must be right: at 2, a wrong second one is an error.", show_default=_default("order"))] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of all random choices.", show_default=_default("seed"))] = None,
    max_time: Annotated[float | None, typer.Option(metavar="SECONDS", help="Seconds before a worker is killed.", show_default=_default("max_time"))] = None,
    at: Annotated[list[str] | None, typer.Option(metavar="POINT", help='Points to try first: "x=100" or "x=[1, 2], y=3". Repeatable.')] = None,
    reference: Annotated[list[str] | None, typer.Option(metavar="[NAME=]MODULE:FUNCTION", help="A plain function that the rule of this name, or of the one that PATH names, is to differentiate. Repeatable.", show_default=False)] = None,
    reach: Annotated[float | None, typer.Option(metavar="NUMBER", help="Largest magnitude that inputs have.", show_default=_default("reach"))] = None,
    device: Annotated[Device | None, typer.Option(metavar="cpu|gpu", help="Where the floats run.", show_default=_default("device"))] = None,
    backend: Annotated[list[Backend] | None, typer.Option(metavar="BACKEND", help="Backends that Keras runs on; if none is named, that which a file chooses by `KERAS_BACKEND`, else all that are installed. Repeatable.", show_default=False)] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", metavar="N", help="Workers at a time; 0 for one on each core.", show_default="cores")] = None,
    cluster: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Let a dask cluster do the work: its scheduler's address or file; local:N for N nodes here.", show_default=False)] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Check all again, and keep nothing.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Check again whenever a Python file of the project or its settings change, until Ctrl-C.")] = False,
    import_all: Annotated[bool, typer.Option("--import-all", help="Import files even if no custom gradient is seen in them.")] = False,
    static: Annotated[bool, typer.Option("--static", help="Read the source alone, as `cgcheck lint` does; nothing is imported or run.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Write the repairs that are proved, and take out suppressions that suppress nothing. Each file is checked again, and what does no good is put back.")] = False,
    unsafe_fixes: Annotated[bool, typer.Option("--unsafe-fixes", help="Write those too that may change a value or a rare case.")] = False,
    add_ignore: Annotated[str | None, typer.Option(metavar="REASON", help="Suppress what is found by comments with this reason.", show_default=False)] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Show what --fix would change, and write nothing.")] = False,
    config: Annotated[str | None, typer.Option(metavar="FILE", help="Settings of this TOML file, not of the nearest pyproject.toml.", show_default=False)] = None,
    isolated: Annotated[bool, typer.Option("--isolated", help="No settings of any file.")] = False,
    show_settings: Annotated[bool, typer.Option("--show-settings", help="Show the settings that would hold, and stop.")] = False,
    show_files: Annotated[bool, typer.Option("--show-files", help="Show the files that would be looked at, and stop.")] = False,
    statistics: Annotated[bool, typer.Option("--statistics", help="How often each rule was found, in place of the text report.")] = False,
    color: Annotated[Color, typer.Option(metavar="WHEN", help="Colour in the text report: auto, always or never.")] = Color.AUTO,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only what is not right, and the last line.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Open notes, laws and inputs.")] = False,
    durations: Annotated[bool, typer.Option("--durations", help="Add times to the report.")] = False,
) -> None:  # fmt: skip
    """Check every custom gradient in the given files, folders or modules.

    Exit codes: 0 fine; 1 findings at or above --fail-on; 2 bad usage, or what was asked for could not be checked;
    3 a bug of cgcheck's; 130 interrupted.
    """
    from gradcheck_cli.cli.checking import checked
    from gradcheck_cli.cli.known import news, only_new
    from gradcheck_cli.cli.outputs import Outputs, Writing
    from gradcheck_cli.cli.repairs import show_repairs, write_ignores, write_repairs
    from gradcheck_cli.cli.scope import (
        as_toml,
        compiled_in,
        kept_in,
        named_paths,
        part_of,
        points_of,
        shown_names,
        targets_of,
        with_references,
    )
    from gradcheck_cli.cli.watch import watch as check_on_change
    from gradcheck_cli.project.finding_history import entries, remember
    from gradcheck_cli.run.session import Session

    formats = output_format or ["statistics" if statistics else "text"]
    outputs = Outputs.parse(formats, color.value, verbose, quiet)
    settings, root = load_for(paths[0], config, isolated=isolated)
    settings = with_flags(settings, context.params, "command line")
    paths = named_paths(paths, settings, root)
    settings = with_references(settings, reference or (), paths)
    if watch:
        raise typer.Exit(check_on_change(root))
    if show_settings:
        typer.echo(as_toml(settings), nl=False)
        raise typer.Exit
    if static:
        from gradcheck_cli.cli.static import static_report

        read = static_report(paths, settings, root, named=baseline, update=update_baseline)
        outputs.write(read, root)
        raise typer.Exit(read.summary.exit_code)
    asked = points_of(at or ())
    targets = part_of(targets_of(paths, settings, root, since, changed=changed), shard)
    if show_files:
        typer.echo("".join(f"{name}\n" for name in shown_names(targets, root)), nl=False)
        raise typer.Exit
    kept = kept_in(no_cache=no_cache)
    # What is found on nodes of a cluster may hold of their processors alone.
    results = None if kept is None or durations or settings.cluster else kept / "results"
    session = Session(settings, root, asked, durations, compiled_in(kept), reads=True, plots=outputs.draws, results=results)  # fmt: skip
    writing = Writing(
        outputs, root, len(targets), news(settings, root, named=baseline, update=update_baseline)
    )
    # Told at once is only what is final: repairs change it, and so do points that turn out to fit nothing.
    is_final = not (fix or unsafe_fixes or diff or at or update_baseline)
    result = checked(session, targets, writing.tell if is_final else None)
    if diff:
        raise typer.Exit(show_repairs(result.report, root, unsafe=unsafe_fixes))
    if (fix or unsafe_fixes) and not result.stopped:
        result = write_repairs(result, session, targets, unsafe=unsafe_fixes)
    # What was asked of certain points or dtypes alone says nothing of what others show.
    shown = {file.display for file in result.files if file.whole and not (at or dtype)}
    report = only_new(result.report, lambda: shown, settings, root, named=baseline, update=update_baseline)  # fmt: skip
    writing.end(report)
    if add_ignore is not None and not result.stopped:
        write_ignores(report, root, add_ignore)
    if result.stopped:
        typer.echo("cgcheck: interrupted; the report has what was done until then", err=True)
    if kept is not None:
        remember(entries(report, result.targets, settings, asked), root, kept)
    raise typer.Exit(report.summary.exit_code)
