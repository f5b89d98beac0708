"""Arrays that a text computes: which dimensions of the parameters their last axes have."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gradcheck_cli.clues.source_text.values import (
    Call,
    Computed,
    Constant,
    Dim,
    Extents,
    Many,
    Part,
    Scalar,
    Turned,
    Value,
    whole,
    wholes,
)

_SUMS = (
    "sum", "mean", "max", "min", "amax", "amin", "prod", "var", "std", "logsumexp", "norm",
    "reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_logsumexp",
)  # fmt: skip
_VIEWS = ("reshape", "view")


def axis_of(value: Value, number: int) -> Dim | None:
    """The size of this axis of an array, as one of a parameter."""
    if isinstance(value, Computed):
        return value.axis(number)
    if isinstance(value, Part):
        return Dim(value.path, number if number < 0 else number + value.dropped)
    if isinstance(value, Turned) and number < 0:
        return Dim(value.part.path, {-1: -2, -2: -1}.get(number, number))
    return None


def product(left: Value, right: Value, matrices: bool = False) -> Value:
    """A matrix product: the rows of the left operand, the columns of the right one."""
    axes = axis_of(left, -2), axis_of(right, -1)
    return Computed(axes, matrices) if any(axes) else None


def together(left: Value, right: Value) -> Value:
    """The result of arithmetic between two arrays, of which one is not followed or is another one."""
    products_first = isinstance(left, Part) and isinstance(right, Computed)
    first, second = map(_axes, (right, left) if products_first else (left, right))
    longest = max(len(first), len(second))
    if not longest:
        return None
    filled = [(None,) * (longest - len(axes)) + axes for axes in (first, second)]
    pairs = zip(*filled, strict=True)
    known = (
        isinstance(left, Computed) and isinstance(right, Computed) and left.whole and right.whole
    )
    return Computed(tuple(one or other for one, other in pairs), known)


def attribute(value: Computed | Turned, name: str) -> Value:
    """The shape of a computed array; the array with its last two axes exchanged."""
    if name in ("T", "mT"):
        return value.part if isinstance(value, Turned) else _turned(value)
    return Extents(value) if name == "shape" and isinstance(value, Computed) else None


def _turned(value: Computed) -> Value:
    *before, row, column = (None, *value.axes) if len(value.axes) == 1 else value.axes
    return Computed((*before, column, row), value.whole and len(value.axes) > 1)


def call(made: Call) -> Value:
    """A sum of a computed array, or its elements in a new shape."""
    first = made.operands[0] if made.operands else None
    if made.name in _VIEWS and made.method and not isinstance(first, Part):
        return _viewed(made)
    if made.name in _SUMS and isinstance(first, Computed):
        return _reduced(first, made)
    sums_all = len(made.operands) == 1 and not made.keywords and (made.library or made.method)
    return Scalar() if made.name in _SUMS and sums_all else None


def _axes(value: Value) -> tuple[Dim | None, ...]:
    """The last axes, as far as they are known; those of a parameter count as long as its last one."""
    if isinstance(value, Computed):
        return value.axes
    return (Dim(value.path, -1),) if isinstance(value, Part) else ()


def _viewed(made: Call) -> Value:
    """`x.view(b, -1, d)`: as many axes as there are sizes."""
    nodes: Sequence[ast.expr] = () if made.node is None else made.node.args
    sizes = made.operands[1:]
    if any(isinstance(node, ast.Starred) for node in nodes) or made.keywords:
        return None
    if len(sizes) == 1 and isinstance(sizes[0], Many):
        sizes = sizes[0].items
    elif len(sizes) == 1 and not isinstance(sizes[0], (Dim, Constant)):
        return None
    return Computed(tuple(s if isinstance(s, Dim) else None for s in sizes), whole=bool(sizes))


def _reduced(first: Computed, made: Call) -> Value:
    """The array without the axes that are summed over."""
    kept = [made.keywords.get(name) for name in ("keepdims", "keepdim")]
    axis = made.argument(1, "axis", "dim")
    numbers = wholes(axis)
    if axis is None and not made.keywords:
        return Scalar()
    if not numbers or (not first.whole and max(numbers) >= 0):
        return None
    count = len(first.axes)
    gone = {n % count for n in numbers if -count <= n < count}
    if any(isinstance(flag, Constant) and flag.value for flag in kept):
        return Computed(
            tuple(None if i in gone else a for i, a in enumerate(first.axes)), first.whole
        )
    return Computed(tuple(a for i, a in enumerate(first.axes) if i not in gone), first.whole)


def along(value: Value, axis: Value) -> Dim | None:
    """The size of the axis along which an array is cut; a product is cut along its columns."""
    number = whole(axis)
    if number is None:
        return None
    if isinstance(value, Computed) and not value.whole and number == len(value.axes) - 1 > 0:
        return value.axes[number]
    return axis_of(value, number)
