"""Sizes of axes beside its arguments' own: of arrays that a function refers to, and of halves that it takes."""

from __future__ import annotations

import ast
import copy
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gradcheck_cli.clues.source_text.named_functions import with_helpers
from gradcheck_cli.clues.source_text.tree import last_word, text_of

_MOST = 4
_STEPS = 3  # assignments that an array is followed through
_HALF = re.compile(r"//\s*2\b|%\s*2\b|\b[ih]?r?fftn?\b|\b[ir]+fft[2n]?\b|nyquist", re.IGNORECASE)

_SCANS = frozenset({"scan", "associative_scan", "cumsum", "cumprod", "cumlogsumexp", "map_fn"})
_RANGES = frozenset({"range", "arange"})


def sizes(function: Callable[..., Any]) -> list[int]:
    """Dimensions of arrays among its globals, its closure and its object, each once."""
    dimensions: dict[int, None] = {}
    for value in _referred(function):
        try:
            dims = [int(n) for n in getattr(value, "shape", ())]
        except (TypeError, ValueError):
            continue
        dimensions |= dict.fromkeys(n for n in dims if n > 1)
    return list(dimensions)[:_MOST]


def halves(functions: Sequence[Callable[..., Any]]) -> bool:
    """Does one of these take half of an axis, by its text? What becomes of the odd one is easily forgotten.

    Where it takes what is below a place and what is above it, as a rotation of both halves does, there is none.
    """
    lines = list(_lines(functions))
    places = _cut_at(lines)
    return any(_HALF.search(ast.unparse(_without(places, line))) for line in lines)


def _cut_at(lines: Sequence[ast.stmt]) -> set[str]:
    """The texts of places at which an array is cut, and both sides are taken: `h` of `x[..., :h]` and `x[..., h:]`."""
    nodes = [node for line in lines for node in ast.walk(line)]
    parts = [
        (ast.unparse(node.value), part)
        for node in nodes
        if isinstance(node, ast.Subscript)
        for part in ast.walk(node.slice)
        if isinstance(part, ast.Slice) and part.step is None
    ]
    below = {(of, ast.unparse(s.upper)) for of, s in parts if s.upper and not s.lower}
    above = {(of, ast.unparse(s.lower)) for of, s in parts if s.lower and not s.upper}
    return {place for _, place in below & above}


def _without(places: set[str], line: ast.stmt) -> ast.stmt:
    """The line without cuts at these places, and without what gives one its name: `h = x.shape[-1] // 2`."""
    match line:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp(op=ast.FloorDiv())):
            if name in places:
                return ast.Pass()
    cut: ast.stmt = _WithoutCuts(places).visit(copy.deepcopy(line))
    return cut


class _WithoutCuts(ast.NodeTransformer):
    def __init__(self, places: set[str]) -> None:
        self._places = places

    def visit_Slice(self, node: ast.Slice) -> ast.Slice:
        lower, upper = (
            None if end is not None and ast.unparse(end) in self._places else end
            for end in (node.lower, node.upper)
        )
        return ast.Slice(lower, upper, node.step)


def loops(functions: Sequence[Callable[..., Any]]) -> bool:
    """Does one of these go along an axis step by step, by its text or a helper's? Then a short one ends too soon to tell."""
    nodes = (node for line in _lines(with_helpers(functions)) for node in ast.walk(line))
    return any(_goes_along(node) for node in nodes)


def counts_axes(functions: Sequence[Callable[..., Any]]) -> frozenset[str]:
    """The names of the arrays of which one of these takes all axes but some, by their number: `range(x.ndim - 1)`."""
    nodes = (node for line in _lines(functions) for node in ast.walk(line))
    ranges = (
        argument
        for node in nodes
        if isinstance(node, ast.Call) and last_word(node.func) in _RANGES
        for argument in node.args
    )
    counted = (_counted(part) for argument in ranges for part in ast.walk(argument))
    return frozenset(name for name in counted if name)


def _counted(node: ast.AST) -> str:
    """The name of the array whose axes are counted here, if any are."""
    match node:
        case (
            ast.Attribute(value=ast.Name(id=name), attr="ndim")
            | ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="dim"))
            | ast.Call(
                func=ast.Name(id="len"), args=[ast.Attribute(value=ast.Name(id=name), attr="shape")]
            )
            | ast.Call(func=ast.Attribute(attr="rank" | "ndim"), args=[ast.Name(id=name)])
            | ast.Attribute(
                value=ast.Attribute(value=ast.Name(id=name), attr="shape"), attr="rank" | "ndims"
            )
        ):
            return name
    return ""


def open_axes(function: Callable[..., Any]) -> frozenset[str]:
    """The names of arrays of which it takes what stands along the last axes, whatever there is before: `logits[..., 0]`.

    An array that is made of another one is open as that is.
    """
    nodes = [node for line in _lines([function]) for node in ast.walk(line)]
    taken = {name for node in nodes if (name := _taken_after_dots(node))}
    made = [node for node in nodes if isinstance(node, ast.Assign)]
    for _ in range(_STEPS):
        sources = (a.value for a in made if any(ast.unparse(t) in taken for t in a.targets))
        taken |= {name for value in sources if (name := _made_of(value))}
    return frozenset(taken)


def _made_of(value: ast.expr) -> str:
    """The name of the array that an expression is first of all made of: `logits` of `log_softmax(logits / scale, -1)`."""
    match value:
        case ast.Name(id=name):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name)), args=[]):
            return name
        case ast.Call(args=[first, *_]) | ast.BinOp(left=first) | ast.UnaryOp(operand=first):
            return _made_of(first)
        case ast.Subscript(value=inner) | ast.Attribute(value=inner):
            return _made_of(inner)
    return ""


def _taken_after_dots(node: ast.AST) -> str:
    match node:
        case ast.Subscript(
            value=ast.Name(id=name), slice=ast.Tuple(elts=[ast.Constant(value=first), *rest])
        ) if first is ... and not all(ast.unparse(part) == "None" for part in rest):
            return name
    return ""


def _goes_along(node: ast.AST) -> bool:
    """A loop over what is no fixed count, or a slice whose ends or steps leave something out."""
    match node:
        case ast.For(iter=ast.Call(func=ast.Name(id="range"), args=[ast.Constant()])):
            return False
        case ast.For() | ast.Slice(step=ast.expr()):
            return True
        case ast.Slice(lower=ast.Constant(value=int(first))):
            return first > 1
        case ast.Slice(upper=ast.UnaryOp(operand=ast.Constant(value=int(last)))):
            return last > 1
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _SCANS
    return False


def _lines(functions: Sequence[Callable[..., Any]]) -> Iterator[ast.stmt]:
    for text in map(text_of, functions):
        yield from () if text is None else text.statements


def _referred(function: Callable[..., Any]) -> list[Any]:
    inner = inspect.unwrap(function)
    owner = getattr(inner, "__self__", None)
    try:
        names = inspect.getclosurevars(getattr(inner, "__func__", inner))
    except (TypeError, ValueError):
        return []
    held = list(vars(owner).values()) if hasattr(owner, "__dict__") else []
    return [*names.nonlocals.values(), *names.globals.values(), *held]
