"""Weights by what is done with their sum: who keeps it from zero by `clamp(min=1e-8)` means none of them below zero."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradcheck_cli.clues.source_text.handed_on import handed_on
from gradcheck_cli.clues.source_text.statements import given, given_once, nodes_of
from gradcheck_cli.clues.source_text.tree import Text, last_word, text_of
from gradcheck_cli.inputs.clue import Clue
from gradcheck_cli.inputs.names import is_data

_SUMS = frozenset(
    {"sum", "nansum", "reduce_sum", "segment_sum", "unsorted_segment_sum", "index_add", "index_add_"}
    | {"scatter_add", "scatter_add_", "bincount"}
)  # fmt: skip
# What takes the bound from below behind the number, and what takes both in any order.
_CLIPS = frozenset({"clamp", "clamp_", "clamp_min", "clamp_min_", "clip", "clip_by_value"})
_LARGER = frozenset({"maximum", "fmax"})
_CHOICES = frozenset({"where", "select"})
_LOWER = ("min", "a_min", "clip_value_min")
_EPSILON = re.compile(r"(?:\w*_)?(?:eps|epsilon|tiny|small)", re.IGNORECASE)
_CASTS = frozenset({"cast", "astype", "to", "float", "double", "type_as", "convert_to_tensor"})
_FUNCTIONS = frozenset({"cast", "convert_to_tensor"})  # of a library: `tf.cast(mask, x.dtype)`
_TURNS = frozenset({"abs", "absolute", "square", "exp", "exp2", "expm1", "softplus", "relu", "relu6", "sigmoid", "softmax", "cosh", "abs_"})  # fmt: skip
_DEEPEST = 4  # names for other names
_MASK = re.compile(r"(?:\w+_)?(?:mask|valid|keep|kept|present|seen|active|flag)s?|(?:is|has)_\w+")
# What makes a mask, and not what a mask has been laid on, as of `apply_mask`.
_MAKES_A_MASK = re.compile(r"(?!_*(?:apply|add|use|with|fill|lay|put|set)_)(?:\w*_)?masks?")
_ONES = frozenset({"ones_like", "ones", "zeros_like", "zeros", "full_like"})


def clues(functions: Sequence[Callable[..., Any]], names: Collection[str]) -> dict[str, Clue]:
    """For each parameter whose sum a function keeps above zero, or a helper that it is handed to, that it is not negative."""
    texts = [text for text in map(text_of, functions) if text is not None]
    found = _guarded_in(texts, names)
    changed = {name for node in nodes_of(texts) for name in _changed(node)}
    for helper, handed in (pair for text in texts for pair in handed_on(text)):
        found |= {handed[own] for own in _guarded_in([helper], handed)} & set(names) - changed
    return {name: Clue("the body, which keeps its sum above zero", domain=">= 0") for name in found}


def _changed(node: ast.AST) -> Iterator[str]:
    """The name to which a statement gives another value: what is handed on after `x = abs(x)` is not x."""
    match node:
        case ast.Assign(targets=targets):
            yield from (
                n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)
            )
        case ast.AugAssign(target=ast.Name(id=name)) | ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _guarded_in(texts: Sequence[Text], names: Collection[str]) -> set[str]:
    """The parameters among these names whose sum the texts keep above zero."""
    nodes = nodes_of(texts)
    values = [pair for node in nodes for pair in given(node)]
    asked = {name for node in nodes for name in _conditions(node)}
    casts = {name for name, value in values if _of_a_mask(value, asked, name)}
    once = given_once(nodes)
    terms = _Terms(names, casts, {n: v for n, v in once.items() if _stays(n, nodes, values)})
    summed: dict[str, set[str]] = {}
    for name, value in values:
        summed[name] = summed.get(name, set()) | terms.summed(value)
    compared = {n: value for n, value in once.items() if isinstance(value, ast.Compare)}
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    guarded = [sum_ for call in calls for sum_ in _guarded(call, compared)]
    found: set[str] = set()
    for sum_ in guarded:
        by_name = summed.get(sum_.id, set()) if isinstance(sum_, ast.Name) else set()
        found |= by_name or terms.summed(sum_)
    return found - {name for name, value in values if _turns(value, name)}


def _stays(name: str, nodes: Sequence[ast.AST], values: Sequence[tuple[str, ast.expr]]) -> bool:
    """Is a name given a value by plain statements alone: in no loop, in part, or as an argument of an inner function?"""
    given_to = [
        n
        for n in nodes
        if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)
    ]
    parts = (
        n.value for n in nodes if isinstance(n, ast.Subscript) and not isinstance(n.ctx, ast.Load)
    )
    arguments = (n.arg for n in nodes if isinstance(n, ast.arg))
    plain = sum(given == name for given, _ in values)
    return len(given_to) == plain and name not in arguments and not any(_is(p, name) for p in parts)


def _turns(value: ast.expr, name: str) -> bool:
    """Is it what no number below zero comes out of: the sum of `x = abs(x)` says nothing of x?"""
    match value:
        case ast.Call(func=called, args=args):
            own = called.value if isinstance(called, ast.Attribute) else None
            return last_word(called) in _TURNS and any(_is(each, name) for each in (*args, own))
        case ast.BinOp(left=left, op=ast.Pow() | ast.Mult(), right=right):
            return _is(left, name) and (isinstance(value.op, ast.Pow) or _is(right, name))
    return False


def _is(node: ast.expr | None, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _conditions(node: ast.AST) -> Iterator[str]:
    """The names that are taken for truth values: of `where(valid, x, 0)` and of `~valid`."""
    match node:
        case ast.Call(func=called, args=[ast.Name(id=name), _, _]) if last_word(called) in _CHOICES:
            yield name
        case ast.UnaryOp(op=ast.Invert(), operand=ast.Name(id=name)):
            yield name


def _of_a_mask(node: ast.expr, asked: Collection[str], name: str = "") -> bool:
    """Is it a mask as floats: `tf.cast(valid, x.dtype)`, `(ids > 0).astype(x.dtype)`, or what is called one, as by `_mask(ok, x)`?"""
    if isinstance(node, ast.Call) and _MAKES_A_MASK.fullmatch(last_word(node.func)):
        return True
    if not isinstance(node, ast.Call) or last_word(node.func) not in _CASTS:
        return False
    method = isinstance(node.func, ast.Attribute) and node.func.attr not in _FUNCTIONS
    cast = node.func.value if method and isinstance(node.func, ast.Attribute) else next(iter(node.args), None)  # fmt: skip
    if isinstance(cast, ast.Name):
        return cast.id in asked or is_data(cast.id) or _MASK.fullmatch(name) is not None
    return isinstance(cast, ast.Compare)


@dataclass(frozen=True, slots=True)
class _Terms:
    """What is added up, in terms of the parameters of these names."""

    names: Collection[str]
    casts: Collection[str]  # names of masks that were made floats
    once: Mapping[str, ast.expr]  # what other names stand for

    def summed(self, node: ast.expr) -> set[str]:
        """The parameters that a call adds up, each as it is, where a mask lets it through, or over something."""
        if not isinstance(node, ast.Call) or last_word(node.func) not in _SUMS:
            return set()
        operands = [*node.args, *(k.value for k in node.keywords)]
        if isinstance(node.func, ast.Attribute):
            operands.append(node.func.value)
        return {name for each in operands if (name := self._behind(each)) in self.names}

    def _behind(self, node: ast.expr, deep: int = 0) -> str:
        """The parameter of a term: `w` of `w`, of `mask * w` for a mask that was made floats, and of `w / density`."""
        match node:
            case ast.Name(id=name) if name in self.names:
                return name
            case ast.Name(id=name) if name in self.once and deep < _DEEPEST:
                return self._behind(self.once[name], deep + 1)
            case ast.BinOp(left=left, op=ast.Div(), right=ast.Name() | ast.Attribute() as divisor):
                name = self._behind(left, deep)
                own = any(isinstance(n, ast.Name) and _is(n, name) for n in ast.walk(divisor))
                return "" if own else name
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                for mask, one in ((left, right), (right, left)):
                    named = isinstance(mask, ast.Name) and mask.id in self.casts
                    if named or _of_a_mask(mask, ()):
                        return self._behind(one, deep)
        return ""


def _guarded(call: ast.Call, compared: Mapping[str, ast.expr]) -> Iterator[ast.expr]:
    """What a call keeps from below by a positive number, or replaces where it is not above zero."""
    name, args = last_word(call.func), call.args
    lower = [k.value for k in call.keywords if k.arg in _LOWER]
    if name in _CLIPS:
        if any(map(_is_positive, lower or args[1:2])):  # `clip(total, 1e-8)`
            yield from args[:1]
        if isinstance(call.func, ast.Attribute) and any(map(_is_positive, lower or args[:1])):
            yield call.func.value  # `total.clamp(min=1e-8)`
    elif name in _LARGER or (name == "max" and isinstance(call.func, ast.Name)):
        if any(map(_is_positive, args)):
            yield from (node for node in args if not _is_positive(node))
    elif name in _CHOICES:
        condition = args[0] if args else None
        named = compared.get(condition.id) if isinstance(condition, ast.Name) else None
        yield from _replaced([named, *args[1:]] if named is not None else args)


def _replaced(args: Sequence[ast.expr]) -> Iterator[ast.expr]:
    """The sum of `where(total > 0, total, 1)`, or of `where(total > 0, x / total, 0)`: no other branch hangs on it."""
    match args:
        case [ast.Compare(left=left, ops=[ast.Gt()], comparators=[bound]), taken, other]:
            used = (
                taken.right
                if isinstance(taken, ast.BinOp) and isinstance(taken.op, ast.Div)
                else taken
            )
            above = _is_zero(bound) or _is_positive(bound)
            if above and _same(used, left) and _is_fixed(other):
                yield left


def _same(one: ast.expr, other: ast.expr) -> bool:
    return ast.dump(one) == ast.dump(other)


def _is_fixed(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (
        isinstance(node, ast.Call) and last_word(node.func) in _ONES
    )


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _is_positive(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=int() | float() as value):
            return value > 0
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _EPSILON.fullmatch(name) is not None
    return False
