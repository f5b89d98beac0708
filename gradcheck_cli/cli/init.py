"""`cgcheck init`: settings, a hook, and comments for what looks meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gradcheck_cli.contract.report import Report
    from gradcheck_cli.run.change import Change

_ADDED = {
    "pyproject.toml": "a table [tool.cgcheck]",
    ".pre-commit-config.yaml": "a hook; `pre-commit install` makes git call it",
}


def init(
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH", help="Files and folders whose rules are looked at.", show_default="the project")
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Show what would be written, and write nothing.")] = False,
    no_check: Annotated[bool, typer.Option("--no-check", help="Look at no rule: only settings and the hook.")] = False,
) -> None:  # fmt: skip
    """Set a project up: a table of settings, a pre-commit hook, comments for rules that look meant.

    What is there already is left as it is.
    """
    from gradcheck_cli.project.settings import root_of
    from gradcheck_cli.run.declaring import declaring

    root = root_of(Path((paths or ["."])[0]))
    own, said = _of_project(root)
    report = None if no_check else _checked(paths or [str(root)])
    comments = [] if report is None else list(declaring(report, root))
    if diff:
        typer.echo("".join(change.difference() for change in (*own, *comments)), nl=False)
        for line in (*said, *_next_steps(report)):
            typer.echo(line, err=True)
        return
    for change in own:
        _write(change, _ADDED[change.display])
    for change in comments:
        names = ", ".join(finding.gradient or "" for finding in change.repaired)
        _write(change, f"comments that declare what looks meant: {names}")
    for line in (*said, *_next_steps(report)):
        typer.echo(line)


def _of_project(root: Path) -> tuple[list[Change], list[str]]:
    """The project's own files with what is missing in them, and what is to be said of the others."""
    from gradcheck_cli.project.starting import (
        HOOKS,
        PYPROJECT,
        CannotExtendError,
        with_hook,
        with_settings,
    )
    from gradcheck_cli.run.change import Change

    changes: list[Change] = []
    said: list[str] = []
    for name, extended in ((PYPROJECT, with_settings), (HOOKS, with_hook)):
        file = root / name
        if name == HOOKS and not (root / ".git").exists():
            said.append(f"{name}: no hook, for this is no repository")
            continue
        try:
            before = file.read_bytes().decode("utf-8") if file.is_file() else ""
            plain = extended(before.replace("\r\n", "\n"))
        except (OSError, UnicodeDecodeError, CannotExtendError) as error:
            said.append(f"{name}: left alone: {error}")
            continue
        if plain is None:
            said.append(f"{name}: has it already")
            continue
        ends = before.count("\r\n")
        if ends not in (0, before.count("\n")):
            said.append(f"{name}: left alone: its lines end in two ways")
            continue
        after = plain.replace("\n", "\r\n") if ends else plain
        changes.append(Change(file, name, "utf-8", before, after, ()))
    return changes, said


def _checked(paths: Sequence[str]) -> Report:
    """What a run finds; nothing of it is shown but its progress."""
    from gradcheck_cli.cli.scope import compiled_in, kept_in, targets_of
    from gradcheck_cli.cli.terminal import progress
    from gradcheck_cli.project.settings import load_for
    from gradcheck_cli.run.session import Session

    settings, root = load_for(paths[0])
    targets = targets_of(paths, settings, root, None, changed=False)
    kept = kept_in(no_cache=False)
    results = None if kept is None else kept / "results"
    session = Session(settings, root, cache=compiled_in(kept), results=results)
    with progress(len(targets)) as show:
        result = session.run(targets, show)
    if result.stopped:
        raise KeyboardInterrupt
    return result.report


def _write(change: Change, what: str) -> None:
    done = change.write()
    left = "left alone, for it was changed in the meantime"
    typer.echo(f"{change.display}: {what if done else left}")


def _next_steps(report: Report | None) -> Iterator[str]:
    """What only the user can tell, and what to do now."""
    from gradcheck_cli.report.closing import closing
    from gradcheck_cli.run.declaring import questions

    if report is None:
        yield "next: cgcheck ."
        return
    yield closing(report)
    for finding in questions(report):
        place = f"{finding.path}:{finding.gradient_line or finding.line}"
        yield f"{place}: is `{finding.gradient}` meant? Then write `# cgcheck: {finding.expect}` above it"
    if report.summary.errors:
        yield "next: `cgcheck .` tells what is wrong; `cgcheck . --baseline known.json --update-baseline` takes it as known"
