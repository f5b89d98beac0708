"""Loops that end by `break` as soon as they have converged, and calls in which one makes its last trip without.

`for _ in range(50): … if small: break`: where that has run out, what it gives is no solution yet, and neither
a right rule nor the derivative of its steps says anything of the other.
"""

from __future__ import annotations

import ast
import functools
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_OURS = str(Path(__file__).parents[2])
_INSTALLED = tuple(
    {sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


@dataclass(frozen=True, slots=True)
class _Loop:
    """The lines of a loop: where each trip begins, and what is inside."""

    head: int
    first: int
    last: int

    def __contains__(self, line: int) -> bool:
        return self.first <= line <= self.last


@dataclass(slots=True)
class Seen:
    """What was seen of the loops of some calls."""

    any: bool = False  # was there one?
    ran_out: bool = False


@contextmanager
def watched_loops() -> Iterator[Seen]:
    """While active, the user's loops with a `break` are watched."""
    seen = Seen()

    def called(frame: FrameType, event: str, argument: Any) -> Any:
        loops = _loops_of(frame.f_code)
        seen.any |= bool(loops)
        return _follower(loops, seen) if loops else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        yield seen
    finally:
        sys.settrace(before)


def _follower(loops: tuple[_Loop, ...], seen: Seen) -> Any:
    """Follows the lines of one call: a loop that is left from its head, after some trip, has run out."""
    came_from = 0
    entered: set[_Loop] = set()

    def follow(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal came_from
        if event not in ("line", "return"):
            return follow
        line = frame.f_lineno if event == "line" else 0
        for loop in loops:
            if line in loop:
                entered.add(loop)
            elif loop in entered and line != loop.head:
                seen.ran_out |= came_from == loop.head
                entered.discard(loop)
        came_from = line or came_from
        return follow

    return follow


def _loops_of(code: CodeType) -> tuple[_Loop, ...]:
    """The loops of a function of the user's that may end by `break`."""
    if code.co_filename.startswith((_OURS, *_INSTALLED)):
        return ()
    within = {line for _, _, line in code.co_lines() if line is not None}
    return tuple(loop for loop in _loops_in(code.co_filename) if loop.head in within)


@functools.cache
def _loops_in(path: str) -> tuple[_Loop, ...]:
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ()
    return tuple(
        _Loop(node.lineno, node.body[0].lineno, node.body[-1].end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.For) and node.body[0].lineno > node.lineno and _breaks(node)
    )


def _breaks(loop: ast.For) -> bool:
    """Is there a `break` of this very loop, or a `return` inside?"""
    waiting: list[ast.AST] = list(loop.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Break | ast.Return):
            return True
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        inner = ast.iter_child_nodes(node)
        loops = isinstance(node, ast.For | ast.While | ast.AsyncFor)
        waiting += [each for each in inner if not loops or _returns(each)]
    return False


def _returns(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Return) for each in ast.walk(node))
