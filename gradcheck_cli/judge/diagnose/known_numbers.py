"""Numbers that a change brings in, and that the code around the rule has a name for: so many may be another one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import FunctionType

from gradcheck_cli.judge.diagnose.edits import Edit


def may_be_named(edit: Edit, function: FunctionType) -> bool:
    """Is a number that is new in it, or one over it, one of the module, of a closure, or of an object that these hold?"""
    new = _numbers(edit.after) - _numbers(edit.before)
    known = {abs(n) for value in _around(function) for n in _held(value, function.__module__)}
    return any(n in known or 1 / n in known for n in new)


def _numbers(tree: ast.expr) -> set[float]:
    """The numbers of an expression, but for 0 and 1."""
    values = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {abs(float(v)) for v in values if isinstance(v, int | float)} - {0.0, 1.0}


def _around(function: FunctionType) -> Iterator[object]:
    """Values of the module, and of what the function closes over, with what functions there close over."""
    yield from list(function.__globals__.values())
    for cell in function.__closure__ or ():
        try:
            held = cell.cell_contents
        except ValueError:  # not filled yet
            continue
        yield held
        if isinstance(held, FunctionType) and held is not function:
            yield from _cells(held)


def _cells(function: FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue


def _held(value: object, module: str) -> Iterator[float]:
    """A number, and the numbers that an object of the user's own keeps under names."""
    if isinstance(value, int | float):
        yield float(value)
    elif type(value).__module__ == module and not isinstance(value, type):
        kept = getattr(value, "__dict__", {}).values()
        yield from (float(n) for n in kept if isinstance(n, int | float))
