"""Arguments that are one bound of a clip whose other bound is a number: who writes `clip(x, 0, n)` means no `n` below 0."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from gradcheck_cli.clues.source_text.handed_on import handed_on
from gradcheck_cli.clues.source_text.statements import given_once, nodes_of
from gradcheck_cli.clues.source_text.tree import Text, last_word, text_of
from gradcheck_cli.inputs.clue import Clue

_CLIPS = frozenset({"clip", "clamp", "clamp_", "clip_by_value"})
_LOWER = frozenset({"min", "a_min", "min_value", "clip_value_min", "lower", "x_min"})
_UPPER = frozenset({"max", "a_max", "max_value", "clip_value_max", "upper", "x_max"})
# What gives the same numbers in another shape: methods, and functions of libraries.
_MOVES = frozenset({"expand_dims", "unsqueeze", "reshape", "view", "broadcast_to", "expand", "astype", "cast", "asarray"})  # fmt: skip
_FILLED = {"zeros": 0.0, "zeros_like": 0.0, "ones": 1.0, "ones_like": 1.0}  # arrays of one number
_BOTH = 2
_OF_ARRAYS = frozenset(
    {"shape", "size", "ndim", "T", "mT", "dtype", "real", "imag", "data", "grad"}
)
_EXTREMES = frozenset({"minimum", "maximum", "fmin", "fmax", "min", "max", "clamp_min", "clamp_max", "clamp_min_", "clamp_max_"})  # fmt: skip


def clues(functions: Sequence[Callable[..., Any]], names: Collection[str]) -> dict[str, Clue]:
    """For each such parameter, or field of one, on which side of the number it is; also where a helper does it."""
    found: dict[str, Clue] = {}
    for text in filter(None, map(text_of, functions)):
        found = _in(text, names) | found
        changed = _stored(nodes_of([text]))
        for helper, handed in handed_on(text):
            for name, clue in _in(helper, handed).items():
                own, dot, field = name.partition(".")
                if handed[own] in names and handed[own] not in changed:
                    found.setdefault(f"{handed[own]}{dot}{field}", clue)
    return found


def _in(text: Text, names: Collection[str]) -> dict[str, Clue]:
    """For each parameter, or field of one, on which side of the number it is by one text."""
    found: dict[str, Clue] = {}
    nodes = nodes_of([text])
    known, stored = given_once(nodes), _stored(nodes)
    for low, high in (p for n in nodes if isinstance(n, ast.Call) for p in _bounds(n, text)):
        for bound, other, sign in ((high, low, ">"), (low, high, "<")):
            number, name = _number(other), _behind_moves(bound, known, stored)
            if number is not None and name.partition(".")[0] in names:
                source = f"the body, which clips between it and {number:g}"
                found.setdefault(name, Clue(source, domain=f"{sign} {number:g}"))
    return found


def cut_off_by(function: Callable[..., Any], names: Collection[str]) -> frozenset[str]:
    """The parameters at which a function cuts something off: of `minimum(weights, cap)`, `cap`. They may be anywhere.

    None with which it compares: beyond a threshold another formula may begin to hold.
    """
    text = text_of(function)
    nodes = nodes_of([text] if text is not None else [])
    compared = {
        part.id
        for node in nodes
        if isinstance(node, ast.Compare)
        for part in ast.walk(node)
        if isinstance(part, ast.Name)
    }
    calls = (node for node in nodes if isinstance(node, ast.Call))
    given_there = (
        part
        for call in calls
        if last_word(call.func) in _CLIPS | _EXTREMES
        for part in (*call.args, *(keyword.value for keyword in call.keywords))
    )
    cut = {part.id for part in given_there if isinstance(part, ast.Name)}
    return frozenset(cut & set(names) - compared)


def _bounds(call: ast.Call, text: Text) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The lower and the upper bound of a clip: `jnp.clip(x, low, high)`, `x.clamp(min=low, max=high)`, `lax.clamp(low, x, high)`."""
    if last_word(call.func) not in _CLIPS:
        return
    named = {k.arg: k.value for k in call.keywords if k.arg is not None}
    low = next((v for k, v in named.items() if k in _LOWER), None)
    high = next((v for k, v in named.items() if k in _UPPER), None)
    placed = list(call.args)
    if len(placed) > _BOTH:
        placed = [placed[0], placed[2]] if _is_of_jax_lax(call.func, text) else placed[1:]
    elif _is_of_a_module(call.func, text) or not isinstance(call.func, ast.Attribute):
        placed = placed[1:]
    elif low is not None and high is not None:
        placed = []
    if low is None and placed:
        low = placed.pop(0)
    if high is None and placed:
        high = placed.pop(0)
    if low is not None and high is not None:
        yield low, high


def _is_of_a_module(called: ast.expr, text: Text) -> bool:
    """Is it found in a library, and not called on what is clipped?"""
    return isinstance(called, ast.Attribute) and isinstance(_object(called.value, text), ModuleType)


def _is_of_jax_lax(called: ast.expr, text: Text) -> bool:
    """Is it the one function that takes what is clipped between its bounds?"""
    return last_word(called) == "clamp" and getattr(
        _object(called, text), "__module__", ""
    ).startswith("jax.")


def _object(node: ast.expr, text: Text) -> Any:
    """What a name, or an attribute of modules, stands for around the text."""
    if isinstance(node, ast.Name):
        return text.surroundings.get(node.id)
    owner = _object(node.value, text) if isinstance(node, ast.Attribute) else None
    if isinstance(node, ast.Attribute) and isinstance(owner, ModuleType):
        return vars(owner).get(node.attr)
    return None


def _stored(nodes: Sequence[ast.AST]) -> set[str]:
    """The names that get another value in any way: by a statement, a loop, a pattern, as an argument of an inner function."""
    names = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    return names | {n.arg for n in nodes if isinstance(n, ast.arg)}


def _number(node: ast.expr) -> float | None:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return float(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _number(operand)
            return None if inner is None else -inner
        case ast.Call(func=function):
            return _FILLED.get(last_word(function))
    return None


def _behind_moves(
    node: ast.expr, known: Mapping[str, ast.expr], stored: Collection[str], given_to: str = ""
) -> str:
    """The name of the parameter whose numbers it has: of `n` in `n[:, None]`, and in `bound = n.unsqueeze(-1)`.

    Within what is `given_to` a name, that name is still the parameter's: `n = n[:, None]`.
    """
    if isinstance(node, ast.Name):
        if node.id not in stored or node.id == given_to:
            return node.id
        rest = {name: value for name, value in known.items() if name != node.id}
        value = known.get(node.id)
        return "" if value is None else _behind_moves(value, rest, stored, node.id)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        own = node.value.id in stored or node.attr in _OF_ARRAYS
        return "" if own else f"{node.value.id}.{node.attr}"
    moved = _moved(node)
    return "" if moved is None else _behind_moves(moved, known, stored, given_to)


def _moved(node: ast.expr) -> ast.expr | None:
    """What is given in another shape, all of it."""
    match node:
        case ast.Subscript(value=value, slice=places) if _takes_all(places):
            return value
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=args) if name in _MOVES:
            of_library = isinstance(value, ast.Name | ast.Attribute) and len(args) > 1
            return args[0] if of_library else value
        case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in _MOVES:
            return first
    return None


def _takes_all(places: ast.expr) -> bool:
    """Does an index leave nothing out: `:`, `None`, `...`?"""
    each = places.elts if isinstance(places, ast.Tuple) else [places]
    return all(
        (isinstance(p, ast.Constant) and p.value in (None, ...))
        or (isinstance(p, ast.Slice) and p.lower is p.upper is p.step is None)
        for p in each
    )
