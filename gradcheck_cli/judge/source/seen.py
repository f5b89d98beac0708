"""The numbers that stand in the places of a rule's text, and behind its names, while the rule runs once."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from keyword import iskeyword
from types import FunctionType
from typing import Any

import numpy as np

from gradcheck_cli.judge.source.rewritten import rewritten
from gradcheck_cli.judge.source.rule_text import Function, own_nodes

Array = np.ndarray[Any, Any]

_SHORT = 6
_PLACE, _NAMES = "_cgcheck_place_", "_cgcheck_names_"


@dataclass(slots=True)
class Seen:
    """Numbers by place and by name (`x`, `ctx.scale`); None where something stands that has no numbers yet, as a tangent that is traced.

    A place that was run several times, or not at all, is none of them.
    """

    places: dict[ast.expr, Array | None] = field(default_factory=dict)
    names: dict[str, Array] = field(default_factory=dict)
    plain: set[str] = field(default_factory=set)  # names of what is a number of Python's


def seen(
    function: FunctionType,
    tree: Function,
    part: Function,
    places: Sequence[ast.expr],
    names: Sequence[str],
    run: Callable[[], object],
) -> Seen:
    """What stands in the places of `part`, a function within the tree, and what its names are where it returns."""
    watch = _Watch(places, names)
    watched = _Watched(places, part, names).tree(tree)
    with _known(function, watch), rewritten(function, watched) as runs:
        if runs:
            run()
    return watch.seen()


class _Watch:
    """What the watched text calls: it hands on what it is given."""

    def __init__(self, places: Sequence[ast.expr], names: Sequence[str]) -> None:
        self._places, self._names = places, names
        self._values: dict[int, list[object]] = {}
        self._scope: dict[str, Array] = {}
        self._plain: set[str] = set()

    def place(self, number: int, value: object) -> object:
        self._values.setdefault(number, []).append(value)
        return value

    def returned(self, value: object, *names: Callable[[], object]) -> object:
        bound: dict[str, object] = {}
        for name, of in zip(self._names, names, strict=True):
            with suppress(NameError):  # not bound where it returns
                bound[name] = of()
        parts = {text: part for name, whole in bound.items() for text, part in _parts(name, whole)}
        known: set[int] = set()
        for text, number in (bound | parts).items():
            twice = id(number) in known and hasattr(number, "shape")
            found = None if twice else as_numbers(number)
            known.add(id(number))
            if found is not None:
                self._scope[text] = found
            if type(number) in (int, float):
                self._plain.add(text)
        return value

    def seen(self) -> Seen:
        once = {number: values[0] for number, values in self._values.items() if len(values) == 1}
        places = {self._places[n]: as_numbers(v) for n, v in once.items() if not _is_whole(v)}
        return Seen(places, self._scope, self._plain)


def _parts(name: str, value: object) -> Iterator[tuple[str, object]]:
    """What a value keeps under names (`ctx.scale`, `law.rate`), or a short tuple holds."""
    fields = getattr(value, "_fields", None)
    kept = {f: getattr(value, f) for f in fields} if fields else getattr(value, "__dict__", {})
    named = ((a, part) for a, part in kept.items() if str(a).isidentifier() and not iskeyword(a))
    yield from ((f"{name}.{attribute}", part) for attribute, part in named)
    if isinstance(value, tuple) and not fields and len(value) <= _SHORT:
        yield from ((f"{name}[{i}]", part) for i, part in enumerate(value))


@contextmanager
def _known(function: FunctionType, watch: _Watch) -> Iterator[None]:
    scope = function.__globals__
    scope[_PLACE], scope[_NAMES] = watch.place, watch.returned
    try:
        yield
    finally:
        del scope[_PLACE], scope[_NAMES]


class _Watched:
    """A function's text in which each place, and what is returned, is handed to the watch first."""

    def __init__(self, places: Sequence[ast.expr], part: Function, names: Sequence[str]) -> None:
        self._numbers = {id(place): number for number, place in enumerate(places)}
        self._names = names
        values = (n.value for n in own_nodes(part) if isinstance(n, ast.Return))
        whole = [part.body] if isinstance(part, ast.Lambda) else values
        self._returned = {id(value) for value in whole}

    def tree(self, node: Function) -> Function:
        found = self._copy(node)
        assert isinstance(found, ast.FunctionDef | ast.Lambda)
        return found

    def _copy(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self._copy(item) for item in node]
        if not isinstance(node, ast.AST):
            return node
        copied = copy.copy(node)
        for name, value in ast.iter_fields(node):
            if not (isinstance(node, ast.Call) and name == "func" and isinstance(value, ast.Name)):
                setattr(copied, name, self._copy(value))
        if isinstance(copied, ast.expr):
            copied = self._handed(id(node), copied)
        return copied

    def _handed(self, own: int, copied: ast.expr) -> ast.expr:
        if own in self._numbers:
            number = ast.Constant(self._numbers[own])
            copied = ast.Call(ast.Name(_PLACE, ast.Load()), [number, copied], [])
        if own in self._returned:
            later = [ast.Lambda(_nothing(), ast.Name(name, ast.Load())) for name in self._names]
            copied = ast.Call(ast.Name(_NAMES, ast.Load()), [copied, *later], [])
        return copied


def _nothing() -> ast.arguments:
    return ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])


def as_numbers(value: object) -> Array | None:
    """A value as an array of numbers, or of true and false; None if it is none, or has no numbers yet."""
    detached = getattr(value, "detach", None)
    if not isinstance(value, int | float) and not hasattr(value, "shape"):
        return None
    try:
        found = np.asarray(value if detached is None else detached())
        if found.dtype.kind == "c":
            return None
        return found if found.dtype == bool else found.astype(np.float64)
    except (TypeError, ValueError, AttributeError, RuntimeError):  # it is only traced
        return None


def _is_whole(value: object) -> bool:
    """Is it a number that counts, or true or false? No gradient is made of it."""
    kind = str(getattr(value, "dtype", type(value).__name__))
    return any(word in kind for word in ("int", "bool", "str"))
