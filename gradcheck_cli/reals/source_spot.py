"""The line of the user's source that made a step of a program."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jax._src import source_info_util

from gradcheck_cli.reals.program import Step

_OURS = "/gradcheck_cli/"


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in the user's source, and the text there."""

    path: str
    line: int
    column: int
    text: str


def spot(step: Step, plumbing: Iterable[str]) -> Spot | None:
    """The user's expression that made a step: the innermost frame outside JAX and the plumbing.

    `plumbing` names the packages that stand between a user's line and JAX.
    """
    paths = (_OURS, *(f"/site-packages/{package}/" for package in plumbing))
    frame = _frame(step.call, paths) or _frame(step.eqn, paths)
    if frame is None:
        return None
    lines = [
        linecache.getline(frame.file_name, n) for n in range(frame.start_line, frame.end_line + 1)
    ]
    if not any(lines):
        return None
    if len(lines) == 1:
        text = lines[0][frame.start_column : frame.end_column]
    else:
        middle = [line.strip() for line in lines[1:-1]]
        parts = [
            lines[0][frame.start_column :].strip(),
            *middle,
            lines[-1][: frame.end_column].strip(),
        ]
        text = " ".join(parts)
    return Spot(frame.file_name, frame.start_line, frame.start_column + 1, " ".join(text.split()))


def _frame(eqn: Any, paths: Sequence[str]) -> Any | None:
    if eqn is None:
        return None
    frames = source_info_util.user_frames(eqn.source_info.traceback)
    return next((f for f in frames if not any(path in f.file_name for path in paths)), None)
