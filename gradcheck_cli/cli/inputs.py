"""`cgcheck inputs PATH…`: what would be used as inputs, and why, without checking anything."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradcheck_cli.project.framework_marks import Backend

if TYPE_CHECKING:
    from gradcheck_cli.contract.report import Gradient, Input
    from gradcheck_cli.contract.worker import Candidates, Checked
    from gradcheck_cli.run.target_file import File

_MOST_REFUSED = 5


def inputs(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Files, folders, modules, or PATH:function.")
    ],
    write: Annotated[
        bool, typer.Option("--write", help="Put the richest inputs as comments into the files.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show what --write would change.")] = False,
    backend: Annotated[
        list[Backend] | None,
        typer.Option(
            metavar="BACKEND",
            help="Backends that Keras runs on. Repeatable.",
            show_default="as a check takes them",
        ),
    ] = None,
) -> None:
    """Show the inputs that each custom gradient would be checked with, and where they come from."""
    import msgspec

    from gradcheck_cli.project.cache_folder import folder
    from gradcheck_cli.project.files import resolve
    from gradcheck_cli.project.settings import load_for, with_flags
    from gradcheck_cli.report.from_here import seen_from
    from gradcheck_cli.run.session import Session

    settings, root = load_for(paths[0])
    settings = with_flags(settings, {"backend": backend}, "command line")
    settings = msgspec.structs.replace(settings, dtype=settings.dtype[:1])
    targets = resolve(paths, settings.exclude)
    session = Session(settings, root, cache=folder(), only_inputs=True)
    result = session.run(targets, lambda *_: None)
    if result.stopped:
        raise KeyboardInterrupt
    width, moved = shutil.get_terminal_size((80, 24)).columns, seen_from(Path.cwd(), root)
    for file in result.files:
        for line in _listings(file.gradients, width, moved):
            typer.echo(line.rstrip())
    for finding in result.report.findings:
        typer.echo(f"{moved(finding.path)}:{finding.line} {finding.rule}: {finding.message}")
    if write or diff:
        for file in result.files:
            for line in _comments(file, root, write=write and not diff):
                typer.echo(line)
    errors = any(f.severity.value == "error" for f in result.report.findings)
    raise typer.Exit(2 if errors else 0)


def _listings(
    gradients: Sequence[Checked], width: int, moved: Callable[[str], str]
) -> Iterator[str]:
    """Each gradient with its candidates; once for all backends on which they are the same."""
    backends: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for checked in gradients:
        gradient: Gradient = checked.gradient
        name = f"{moved(gradient.path)}:{gradient.line} {gradient.qualname}"
        on = [gradient.backend] if gradient.backend != gradient.framework else []
        backends.setdefault((name, tuple(_listing(checked, width))), []).extend(on)
    for (name, lines), on in backends.items():
        yield f"{name} on {', '.join(on)}" if on else name
        yield from (f"  {line}" for line in lines)


def _listing(checked: Checked, width: int) -> Iterator[str]:
    """The candidates in their order: judged, refused by the rule, in vain; and the comment to write down."""
    yield from _judged(checked.gradient.inputs) or [checked.gradient.reason or ""]
    for item in checked.not_covered:
        if item.is_whole and item.add:
            yield f"to check it, add {item.add}"
    if checked.candidates is None:
        return
    for line in _others(checked.candidates):
        yield from textwrap.wrap(line, width - 2, subsequent_indent="  ", break_on_hyphens=False)
    if checked.candidates.comment:
        yield f"as a comment: `# cgcheck: {checked.candidates.comment}`"


def _judged(arguments: Sequence[Input]) -> list[str]:
    """An argument a line, each way to call it with its number."""
    from gradcheck_cli.report.shapes import in_words

    lines = []
    for number, item in enumerate(arguments):
        first = not number or item.signature != arguments[number - 1].signature
        lines.append(f"{f'{item.signature}.' if first else '':<3}{in_words(item)}")
    return lines


def _others(candidates: Candidates) -> Iterator[str]:
    """Candidates that are not judged, with the reason, in a line each."""
    for refused in candidates.refused[:_MOST_REFUSED]:
        yield f"the rule refuses {refused.inputs}: {refused.reason}"
    more = len(candidates.refused) - _MOST_REFUSED
    if more > 0:
        yield f"and {more} more"
    if candidates.vain:
        calls = "another call" if candidates.vain == 1 else f"{candidates.vain} other calls"
        such = f", such as {candidates.first_refusal}" if candidates.first_refusal else ""
        yield f"the function refuses {calls}{such}"


def _comments(file: File, root: Path, *, write: bool) -> Iterator[str]:
    """What is written into one file, or would be; what is not, with the reason."""
    import difflib

    from gradcheck_cli.project.added_comments import Addition, edited, encoding_of

    rows = [(c.gradient.qualname, c.candidates) for c in file.gradients if c.candidates is not None]
    for name, candidates in rows:
        why = _why_not(candidates)
        if why:
            yield f"{file.display}: {name}: nothing is written: {why}"
    rows = [(name, c) for name, c in rows if not _why_not(c)]
    if not rows:
        return
    path = root / file.display
    encoding = encoding_of(path)
    with path.open(encoding=encoding, newline="") as stream:
        before = stream.read()
    after = edited(before, [Addition(c.first_line, c.last_line, c.comment) for _, c in rows])
    if not write:
        shown = before.splitlines(), after.source.splitlines(), file.display, file.display
        yield from difflib.unified_diff(*shown, lineterm="")
        return
    with path.open("w", encoding=encoding, newline="") as stream:
        stream.write(after.source)
    for (name, _), outcome in zip(rows, after.outcomes, strict=True):
        yield f"{file.display}: {name}: {outcome}"


def _why_not(candidates: Candidates) -> str:
    """Why no comment is written; empty where one is."""
    if candidates.stated_by:
        return f"its inputs are stated by {candidates.stated_by}"
    if not candidates.first_line:
        return "its definition is not in this file"
    return "" if candidates.comment else "no comment gives its inputs"
