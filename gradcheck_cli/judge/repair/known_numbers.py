"""Numbers that the code around a rule writes, or has a name for: what a change brings in may be one of these."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterator
from types import FunctionType

from gradcheck_cli.judge.repair.edits import Edit
from gradcheck_cli.judge.source.rewritten import tree_of
from gradcheck_cli.judge.source.written import written
from gradcheck_cli.subject.protocol import CustomGradient

_LARGEST = 2**53  # what is larger is no factor


def may_be_named(edit: Edit, function: FunctionType) -> bool:
    """Is a number that is new in it, or one over it, one of the module, of a closure, or of an object that these hold?"""
    new = _numbers(edit.after) - _numbers(edit.before)
    known = {abs(n) for value in _around(function) for n in _held(value, function.__module__)}
    return any(n in known or 1 / n in known for n in new)


def literals(gradient: CustomGradient) -> frozenset[float]:
    """The numbers that stand in a rule, in its helpers, and in the function or class that it is a rule of."""
    place = gradient.place
    around = [node for node in _definitions(place.path) if place.line in _lines(node)]
    trees = [*around, *filter(None, map(tree_of, written(gradient)))]
    return frozenset(n for tree in trees for n in _numbers(tree))


@functools.lru_cache(maxsize=32)
def _definitions(path: str) -> tuple[ast.FunctionDef | ast.ClassDef, ...]:
    try:
        module = ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return ()
    return tuple(n for n in ast.walk(module) if isinstance(n, ast.FunctionDef | ast.ClassDef))


def _lines(node: ast.FunctionDef | ast.ClassDef) -> range:
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return range(first, (node.end_lineno or first) + 1)


def _numbers(tree: ast.AST) -> set[float]:
    """The numbers of a text, but for 0 and 1."""
    values = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    plain = (v for v in values if isinstance(v, int | float) and abs(v) <= _LARGEST)
    return {abs(float(v)) for v in plain} - {0.0, 1.0}


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
