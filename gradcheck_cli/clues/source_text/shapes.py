"""Shapes that a text takes apart: `b, t, d = x.shape`, `x.shape[-1]`, `x.ndim`, `tf.shape(x)[1]`, `len(x)`."""

from __future__ import annotations

import ast
from dataclasses import replace

from gradcheck_cli.clues.source_text.facts import Facts
from gradcheck_cli.clues.source_text.tree import last_word
from gradcheck_cli.clues.source_text.values import (
    Call,
    Constant,
    Dim,
    Fresh,
    Many,
    Part,
    Rank,
    Shape,
    Turned,
    Value,
    itself,
    whole,
)
from gradcheck_cli.inputs.clue import Kind

_SHAPE = ("shape", "int_shape", "get_shape")
_RANK = ("ndim", "rank", "dim")


def attribute(part: Part, name: str, facts: Facts) -> Value:
    """The shape, or the number of axes, of an array."""
    if name in ("shape", "ndim"):
        facts.array(part)
        return Shape(part) if name == "shape" else Rank(part)
    if name in ("T", "mT", "H", "mH"):
        facts.least_rank(part, 2)
        return Turned(part)
    return None


def call(made: Call, facts: Facts) -> Value:
    """What a call gives of an array's shape."""
    first = made.argument(0, "x", "input", "a", "tensor")
    if isinstance(first, Shape) and made.name in ("as_list", "list", "tuple"):
        return first
    if isinstance(first, Shape) and made.name == "len":
        return Rank(first.part) if first.whole else None
    if not isinstance(first, Part):
        return None
    if made.name in _SHAPE and len(made.operands) < 2:
        return Shape(first)
    if made.name in _RANK and len(made.operands) == 1 and not made.keywords:
        return Rank(first)
    if made.method and made.name == "size":
        return _size(first, made, facts)
    if made.name == "len" and not made.library:
        return facts.sized(first)
    if made.name == "assert_rank" and whole(made.argument(1)) is not None:
        facts.rank(first, whole(made.argument(1)) or 0)
    return None


def dim(part: Part, axis: int, facts: Facts) -> Dim:
    """One dimension of an array, which then has so many axes at least."""
    facts.least_rank(part, axis + 1 if axis >= 0 else -axis)
    found = facts.axis(part, axis)
    if facts.shapes_hold:
        facts.dims.root(found)
    return found


def subscript(shape: Shape, index: ast.expr, value: Value, facts: Facts) -> Value:
    """`x.shape[-1]`, `x.shape[:2]`, `x.shape[axis]`."""
    if isinstance(index, ast.Slice):
        return _sliced(shape, index)
    number = whole(value)
    if number is None:
        if shape.whole and not isinstance(value, Constant):
            facts.kind(value, Kind.AXIS)
        return None
    if number >= 0:
        return dim(shape.part, number + shape.start, facts) if shape.start >= 0 else None
    return dim(shape.part, number, facts) if shape.stop is None else None


def unpacked(value: Value, target: ast.expr, facts: Facts) -> dict[str, Value] | None:
    """The names that `b, t, *rest = x.shape` gives; None if the value is no shape."""
    if not isinstance(value, Shape) or not isinstance(target, (ast.Tuple, ast.List)):
        return None
    names = target.elts
    starred = [i for i, name in enumerate(names) if isinstance(name, ast.Starred)]
    if len(starred) > 1:
        return {}
    start, count = value.start, len(names)
    if value.whole and not starred:
        facts.rank(value.part, count)
    front = starred[0] if starred else count
    found: dict[str, Value] = {}
    for i, name in enumerate(names):
        if i == front:
            continue
        axis = start + i if i < front else i - count
        if i < front and start < 0 and value.stop is not None:
            continue
        if i > front and value.stop is not None:
            continue
        size = dim(value.part, axis, facts)
        if isinstance(name, ast.Name):
            facts.name(size, name.id)
            found[name.id] = size
    return found


def same_shape(one: Value, other: Value, facts: Facts) -> None:
    """Two whole shapes are equal: the arrays are alike."""
    if isinstance(one, Shape) and isinstance(other, Shape) and one.whole and other.whole:
        facts.alike(one.part, other.part)


def fresh(made: Call) -> Value:
    """An array that is made of sizes: `jnp.zeros((n, d))`, `jnp.arange(n)`, `x.new_zeros(n)`.

    JAX's zeros of `float0` stand for no gradient at all.
    """
    if made.name in ("zeros", "zeros_like") and _is_of_float0(made):
        return Constant(None)
    if made.name == "arange" and made.library and len(made.operands) == 1:
        return Fresh(made.operands, counts=True, along=made.operands[0])
    if made.method and made.name in ("new_zeros", "new_ones", "new_empty"):
        return _of_sizes(made.argument(1, "size"), made.operands[1:], several=True)
    if made.name not in ("zeros", "ones", "full", "empty") or made.method or not made.library:
        return None
    torch = made.library.startswith("torch")
    return _of_sizes(made.argument(0, "shape", "size"), made.operands, several=torch)


def _is_of_float0(made: Call) -> bool:
    """Is it an array of the type that what is no float has for its gradient: `np.zeros(ids.shape, jax.dtypes.float0)`?"""
    node = made.node
    given = [] if node is None else [*node.args[1:], *(k.value for k in node.keywords)]
    return any(last_word(each) == "float0" for each in given)


def _of_sizes(sizes: Value, operands: tuple[Value, ...], *, several: bool) -> Value:
    """An array whose sizes are the first operand, or all, where each may be one."""
    if isinstance(sizes, Many):
        return Fresh(sizes.items)
    if isinstance(sizes, Shape):
        return replace(sizes.part, itself=False) if sizes.whole else None
    plain = all(isinstance(s, (Dim, Constant)) or itself(s) is not None for s in operands)
    return Fresh(operands if several and plain else (sizes,))


def _size(part: Part, made: Call, facts: Facts) -> Value:
    """torch's `x.size()` and `x.size(1)`."""
    facts.array(part)
    place = made.argument(1, "dim")
    if place is None and len(made.operands) == 1:
        return Shape(part)
    number = whole(place)
    if number is None:
        facts.kind(place, Kind.AXIS)
        return None
    return dim(part, number, facts)


def _sliced(shape: Shape, index: ast.Slice) -> Value:
    if index.step is not None or not shape.whole:
        return None
    low, high = _number(index.lower, 0), _number(index.upper, None)
    if low is None or (index.upper is not None and high is None):
        return None
    return Shape(shape.part, low, high)


def _number(node: ast.expr | None, otherwise: int | None) -> int | None:
    if node is None:
        return otherwise
    try:
        number = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return None
    return number if type(number) is int else None
