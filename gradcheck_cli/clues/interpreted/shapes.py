"""Shapes of arrays that are interpreted: literals, broadcasting, reshapes, indices, reductions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradcheck_cli.clues.interpreted.ranges import Range
from gradcheck_cli.clues.interpreted.values import (
    A_FLOAT,
    BOOL,
    FLOAT,
    INT,
    Array,
    Dim,
    Shape,
    Sum,
    Symbol,
    Value,
)

MOST_RANK = 6
_MARKS = (-99, -100, -255, -999, -1000, -9999)  # what labels hold that are left out
_SAYS_SHAPE = re.compile(r".*shapes?|sizes?|(.*_)?dims")  # such a parameter is one size or several


def is_size(value: Value) -> bool:
    """Is it the size of an axis: a whole number that is not negative, or a name for one?"""
    return isinstance(value, (Symbol, Sum)) or (type(value) is int and value >= 0)


def shape_of(value: Value) -> Shape | None:
    """The shape that `(3, 4)` or `5` says; sizes that cannot be read are open."""
    if isinstance(value, (tuple, list)):
        if len(value) > MOST_RANK:
            return None
        return tuple(dim(v) for v in value)
    if isinstance(value, Symbol):
        return None if _SAYS_SHAPE.fullmatch(value.name) else (value,)
    return (dim(value),) if is_size(value) else None


def dim(value: Value) -> Dim:
    """A value as the size of one axis."""
    if isinstance(value, (Symbol, Sum)):
        return value
    return value if type(value) is int and value >= 0 else None


def literal(value: Value) -> Array | None:
    """Nested lists of numbers as an array."""
    if isinstance(value, Array):
        return value
    if isinstance(value, bool):
        return Array(BOOL, ())
    if isinstance(value, int):
        return Array(INT, (), Range(value, value))
    if isinstance(value, float) or value is A_FLOAT:
        return Array(FLOAT, ())
    if not isinstance(value, (tuple, list)) or not value:
        return None
    rows = [literal(v) for v in value]
    return stacked([row for row in rows if row is not None]) if None not in rows else None


def stacked(rows: Sequence[Array]) -> Array | None:
    """Arrays of one shape along a new first axis."""
    first = rows[0]
    if any(row.shape != first.shape for row in rows):
        return None
    kinds = {row.kind for row in rows}
    kind = FLOAT if FLOAT in kinds else INT if INT in kinds else BOOL
    if kind != INT:
        return Array(kind, (len(rows), *first.shape))
    spans = _without_mark([row.range for row in rows])
    span = Range(min(s.low for s in spans), max(s.high for s in spans))
    return Array(kind, (len(rows), *first.shape), span)


def _without_mark(spans: Sequence[Range]) -> Sequence[Range]:
    """The ranges without what stands for no place by habit: `[3, -100, 4]`."""
    places = [span for span in spans if span.low >= 0]
    below = {(span.low, span.high) for span in spans if span.low < 0}
    if not places or len(below) != 1 or not below <= {(mark, mark) for mark in _MARKS}:
        return spans
    far = min(below)[0] <= -2 * max(span.high for span in places)
    return places if far else spans


def broadcast(a: Shape, b: Shape) -> Shape | None:
    """The shape of `a + b`; None where they do not fit, or nobody can say."""
    rank = max(len(a), len(b))
    pairs = zip(((1,) * (rank - len(a))) + a, ((1,) * (rank - len(b))) + b, strict=True)
    dims: list[Dim] = []
    for left, right in pairs:
        if left == 1 or right == 1:
            dims.append(right if left == 1 else left)
        elif left is right or left == right:
            dims.append(left)
        else:
            return None
    return tuple(dims)


def product(a: Shape, b: Shape) -> Shape | None:
    """The shape of `a @ b`."""
    if not a or not b or not _same(a[-1], b[-2] if len(b) > 1 else b[0]):
        return None
    batch = broadcast(a[:-2], b[:-2])
    if batch is None:
        return None
    return (*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def reshaped(shape: Shape, wanted: Value) -> Shape | None:
    """The shape after `reshape`; one size may be -1."""
    sizes = wanted if isinstance(wanted, (tuple, list)) else (wanted,)
    count = _count(shape)
    if any(type(s) is not int for s in sizes) or len(sizes) > MOST_RANK:
        return tuple(dim(s) for s in sizes) if all(map(is_size, sizes)) else None
    given = _count([s for s in sizes if s != -1 and isinstance(s, int)])
    if list(sizes).count(-1) > 1 or not given or count is None:
        return None
    if -1 in sizes:
        return (
            None if count % given else tuple(count // given if s == -1 else dim(s) for s in sizes)
        )
    return tuple(dim(s) for s in sizes) if given == count else None


def permuted(shape: Shape, axes: Sequence[Value]) -> Shape | None:
    """The shape after `transpose` or `permute`."""
    numbers = [axis_of(axis, len(shape)) for axis in axes]
    known = [n for n in numbers if n is not None]
    if sorted(known) != list(range(len(shape))):
        return None
    return tuple(shape[n] for n in known)


def swapped(shape: Shape, one: Value, other: Value) -> Shape | None:
    """The shape with two axes exchanged."""
    i, j = axis_of(one, len(shape)), axis_of(other, len(shape))
    if i is None or j is None:
        return None
    dims = list(shape)
    dims[i], dims[j] = dims[j], dims[i]
    return tuple(dims)


def expanded(shape: Shape, axis: Value) -> Shape | None:
    """The shape with a new axis of size 1."""
    at = axis_of(axis, len(shape) + 1)
    return None if at is None else (*shape[:at], 1, *shape[at:])


def squeezed(shape: Shape, axis: Value) -> Shape | None:
    """The shape without an axis of size 1; without all of them, for None."""
    if axis is None:
        return tuple(d for d in shape if d != 1) if None not in shape else None
    at = axis_of(axis, len(shape))
    return None if at is None or shape[at] != 1 else (*shape[:at], *shape[at + 1 :])


def reduced(shape: Shape, axis: Value, keep: bool) -> Shape | None:
    """The shape after a sum over an axis, over several, or over all."""
    axes = range(len(shape)) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)  # fmt: skip
    gone = [axis_of(a, len(shape)) for a in axes]
    if None in gone:
        return None
    if keep:
        return tuple(1 if i in gone else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in gone)


def joined(shapes: Sequence[Shape], axis: Value) -> Shape | None:
    """The shape of a concatenation."""
    at = axis_of(axis, len(shapes[0]))
    sizes = [s[at] for s in shapes if at is not None and len(s) == len(shapes[0])]
    if at is None or len(sizes) < len(shapes) or any(type(n) is not int for n in sizes):
        return None
    rest = {(*s[:at], *s[at + 1 :]) for s in shapes}
    total = sum(n for n in sizes if isinstance(n, int))
    return (*shapes[0][:at], total, *shapes[0][at + 1 :]) if len(rest) == 1 else None


def indexed(shape: Shape, index: Value) -> Shape | None:
    """The shape of `x[index]`; None for what is no plain index."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if any(isinstance(p, (Array, list)) for p in parts):
        only = parts[0]
        takes = len(parts) == 1 and isinstance(only, Array) and only.kind == INT and shape
        return (*only.shape, *shape[1:]) if takes and isinstance(only, Array) else None
    used = sum(p is not None and p is not Ellipsis for p in parts)
    if used > len(shape) or parts.count(Ellipsis) > 1:
        return None
    at = parts.index(Ellipsis) if Ellipsis in parts else len(parts)
    whole: list[Value] = [slice(None)] * (len(shape) - used)
    dims: list[Dim] = []
    rest = list(shape)
    for part in (*parts[:at], *whole, *parts[at + 1 :]):
        if part is None:
            dims.append(1)
        elif isinstance(part, slice):
            dims.append(_sliced(rest.pop(0), part))
        elif type(part) is int:
            rest.pop(0)
        else:
            return None
    return tuple(dims)


def axis_of(axis: Value, rank: int) -> int | None:
    """The number of an axis from the first one."""
    if type(axis) is not int or not -rank <= axis < rank:
        return None
    return axis % rank


def _sliced(size: Dim, part: slice) -> Dim:
    if part == slice(None):
        return size
    ends = (part.start, part.stop, part.step)
    if type(size) is not int or any(e is not None and type(e) is not int for e in ends):
        return None
    return len(range(size)[part]) if part.step != 0 else None


def _count(shape: Sequence[Dim]) -> int | None:
    count = 1
    for size in shape:
        if not isinstance(size, int):
            return None
        count *= size
    return count


def _same(a: Dim, b: Dim) -> bool:
    return a is not None and (a is b or a == b)
