"""Repairs of the linter, file by file: written, or shown as a difference."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

from gradcheck_cli.lint.fixed import fixed
from gradcheck_cli.project.files import NOTEBOOK
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.change import Change, text_of
from gradcheck_cli.run.linting import SHOWN_AS, STANDARD_INPUT, files_of, findings_of


def changes(
    paths: Sequence[str], settings: Settings, root: Path, *, unsafe: bool
) -> Iterator[Change]:
    """The files that repairs change, no notebooks; what cannot be read is the report's business."""
    for path, display in files_of(paths, settings, root):
        if path.suffix == NOTEBOOK:
            continue
        text = text_of(path)
        if text is None:
            continue
        find = functools.partial(findings_of, display=display, settings=settings)
        done = fixed(text.source, find, unsafe=unsafe)
        if done.repaired:
            yield Change(path, display, text.encoding, text.source, done.text, done.repaired)


def change_of_input(source: str, settings: Settings, *, unsafe: bool) -> Change:
    """What standard input is once it is repaired; it has no file to be written to."""
    find = functools.partial(findings_of, display=SHOWN_AS, settings=settings)
    done = fixed(source, find, unsafe=unsafe)
    return Change(Path(STANDARD_INPUT), SHOWN_AS, "utf-8", source, done.text, done.repaired)
