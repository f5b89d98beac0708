"""The line of the user's source that made a step of a program."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jax._src import source_info_util

from gradcheck_cli.reals.program import Step

_OURS = "/gradcheck_cli/"


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in the user's source, and the text there; columns count characters from one on, the end one beyond."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
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
    start, end = _prefix(lines[0], frame.start_column), _prefix(lines[-1], frame.end_column)
    text = "".join([*lines[:-1], end])[len(start) :]
    return Spot(
        path=frame.file_name,
        line=frame.start_line,
        column=len(start) + 1,
        end_line=frame.end_line,
        end_column=len(end) + 1,
        text=_on_one_line(text),
    )


def _on_one_line(text: str) -> str:
    """An expression without its line ends, and without comments behind them."""
    if "\n" in text:
        try:
            return ast.unparse(ast.parse(f"({text})", mode="eval"))
        except (SyntaxError, ValueError):
            pass
    return " ".join(text.split())


def _prefix(line: str, count: int) -> str:
    """The first bytes of a line, as text: Python counts its columns so."""
    return line.encode()[:count].decode(errors="ignore")


def _frame(eqn: Any, paths: Sequence[str]) -> Any | None:
    if eqn is None:
        return None
    frames = source_info_util.user_frames(eqn.source_info.traceback)
    return next((f for f in frames if not any(path in f.file_name for path in paths)), None)
