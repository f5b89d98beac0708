"""Windows that slide: convolutions, windowed reductions, pooling and its derivatives.

Which elements a window holds is found once, on element numbers; the elements then
move as whole arrays, so that identity is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gradcheck_cli.reals.rules.rule import Rule, batched, spread

Array = np.ndarray[Any, Any]

_NOWHERE = -1  # the number of an element of the padding


def places(
    shape: tuple[int, ...],
    window: tuple[int, ...],
    strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    base_dilation: tuple[int, ...] | None = None,
    window_dilation: tuple[int, ...] | None = None,
) -> Array:
    """Element numbers in each window: (positions…, one axis for the window's elements)."""
    numbers = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)
    rank = len(shape)
    base = base_dilation or (1,) * rank
    apart = window_dilation or (1,) * rank
    for axis in range(rank):
        numbers = _dilated(numbers, axis, base[axis])
        numbers = _padded(numbers, axis, *padding[axis])
    reach = tuple((w - 1) * d + 1 for w, d in zip(window, apart, strict=True))
    if any(r > n for r, n in zip(reach, numbers.shape, strict=True)):  # no window fits
        room = [max(0, n - r + 1) for r, n in zip(reach, numbers.shape, strict=True)]
        return np.empty([*(-(-n // s) for n, s in zip(room, strides, strict=True)), 0], int)
    slid = np.lib.stride_tricks.sliding_window_view(numbers, reach)
    slid = slid[tuple(slice(None, None, s) for s in strides)]
    every = tuple(slice(None, None, d) for d in apart)
    slid = slid[(slice(None),) * rank + every]
    return slid.reshape(*slid.shape[:rank], -1)


def _dilated(numbers: Array, axis: int, step: int) -> Array:
    if step == 1 or not numbers.shape[axis]:
        return numbers
    shape = list(numbers.shape)
    shape[axis] = (shape[axis] - 1) * step + 1
    out = np.full(shape, _NOWHERE)
    out[(slice(None),) * axis + (slice(None, None, step),)] = numbers
    return out


def _padded(numbers: Array, axis: int, low: int, high: int) -> Array:
    """Padding may be negative: it crops."""
    widths = [(0, 0)] * numbers.ndim
    widths[axis] = (max(0, low), max(0, high))
    out = np.pad(numbers, widths, constant_values=_NOWHERE)
    crop = slice(max(0, -low), out.shape[axis] - max(0, -high))
    return out[(slice(None),) * axis + (crop,)]


def taken(x: Array, numbers: Array, fill: Any) -> Array:
    """Elements by number behind the batch axis; `fill` (one element) stands in the padding."""
    flat = x.reshape(x.shape[0], -1)
    out = flat[:, np.maximum(numbers, 0)] if flat.shape[1] else np.empty((len(x), *numbers.shape))
    return np.where(numbers[None] == _NOWHERE, fill, out)


def _window(step: Any) -> Array:
    p = step.params
    shape = step.in_avals[-1].shape if step.name.startswith("select") else step.in_avals[0].shape
    return places(
        shape,
        p["window_dimensions"],
        p["window_strides"],
        p["padding"],
        p.get("base_dilation"),
        p.get("window_dilation"),
    )


def _reduce_window(op: str) -> Rule:
    def rule(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
        numbers = _window(step)
        fill = domain.neutral(op, step.in_avals[0])
        held = taken(values[0], numbers, fill)
        return [domain.reduce(op, step.out_avals[0], held, (held.ndim - 1,))]

    return rule


def _fold(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    """A windowed reduction by the user's own function."""
    count = len(values) // 2
    operands, inits = values[:count], values[count:]
    (body,) = step.subs
    numbers = _window(step)
    batch = batched(values)
    shape = numbers.shape[:-1]
    fills = [spread(v, batch) for v in inits]

    def held(k: int) -> list[Array]:
        around = [v.reshape(batch, *(1,) * len(shape)) for v in fills]
        at = numbers[..., k]
        return [taken(spread(x, batch), at, v) for x, v in zip(operands, around, strict=True)]

    items = map(held, range(numbers.shape[-1]))
    return _folded(domain, body, walk, fills, items, shape)


def _reduce(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    """A reduction by the user's own function, one element after the other."""
    count = len(values) // 2
    operands, inits = values[:count], values[count:]
    (body,) = step.subs
    batch = batched(values)
    axes = [a + 1 for a in step.params["dimensions"]]
    shape = step.out_avals[0].shape
    moved = [np.moveaxis(spread(x, batch), axes, range(-len(axes), 0)) for x in operands]
    lines = [m.reshape(*m.shape[: m.ndim - len(axes)], -1) for m in moved]
    items = ([line[..., k] for line in lines] for k in range(lines[0].shape[-1]))
    return _folded(domain, body, walk, [spread(v, batch) for v in inits], items, shape)


def _folded(
    domain: Any, body: Any, walk: Any, inits: list[Array], items: Iterable[list[Array]],
    shape: tuple[int, ...],
) -> list[Any]:  # fmt: skip
    """The user's function over one array of items after the other, from the initial numbers."""
    batch = inits[0].shape[0]
    state = [np.broadcast_to(v.reshape(batch, *(1,) * len(shape)), (batch, *shape)) for v in inits]
    for item in items:
        state = _elementwise(domain, body, walk, [*state, *item], batch, shape)
    return state


def _elementwise(
    domain: Any, body: Any, walk: Any, values: list[Any], batch: int, shape: tuple[int, ...]
) -> list[Any]:
    """A program of single numbers on whole arrays: their elements become points of the batch."""
    size = int(np.prod(shape, dtype=int))
    rows = np.repeat(np.arange(batch), size)
    flat = [np.broadcast_to(v, (batch, *shape)).reshape(-1) for v in values]
    outs = walk(body, domain.view(rows, batch), flat)
    return [np.broadcast_to(o, (batch * size,)).reshape(batch, *shape) for o in outs]


def _best(domain: Any, step: Any, operand: Array, numbers: Array) -> Array:
    """The element number that each window selects: its first largest (or smallest)."""
    op = "min" if step.params["select_prim"].name == "le" else "max"
    held = taken(operand, numbers, domain.neutral(op, step.in_avals[-1]))
    which = domain.arg(op, held, held.ndim - 1)
    full = np.broadcast_to(numbers[None], held.shape)
    return np.take_along_axis(full, which[..., None], -1)[..., 0]


def _select_and_scatter_add(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    batch = batched(values)
    source, operand = (spread(v, batch) for v in values)
    chosen = _best(domain, step, operand, _window(step)).reshape(batch, -1)
    zero = domain.neutral("add", step.out_avals[0])
    out = np.full((batch, int(np.prod(step.out_avals[0].shape, dtype=int))), zero, operand.dtype)
    for row in range(batch):
        for at, update in zip(chosen[row], source[row].reshape(-1), strict=True):
            out[row, at] = domain.combine("add", out[row, at], update)
    return [out.reshape(batch, *step.out_avals[0].shape)]


def _select_and_gather_add(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    batch = batched(values)
    tangents, operand = (spread(v, batch) for v in values)
    chosen = _best(domain, step, operand, _window(step))
    flat = np.take_along_axis(tangents.reshape(batch, -1), chosen.reshape(batch, -1), 1)
    return [flat.reshape(chosen.shape)]


def _conv(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    """Patches times kernel, as one product for each feature group."""
    p = step.params
    numbers = p["dimension_numbers"]
    batch = batched(values)
    kinds = [aval.kind for aval in step.in_avals]
    x, kernel = (
        domain.as_kind(step.out_avals[0].kind, kind, spread(v, batch))
        for kind, v in zip(kinds, values, strict=True)
    )
    x = x.transpose(0, *(d + 1 for d in numbers.lhs_spec))  # point, image, feature, space…
    kernel = kernel.transpose(0, *(d + 1 for d in numbers.rhs_spec))  # point, out, in, space…
    groups, parts = p["feature_group_count"], p["batch_group_count"]
    images, space = x.shape[1], x.shape[3:]
    outs, inner = kernel.shape[1], kernel.shape[2]
    at = places(
        space,
        kernel.shape[3:],
        p["window_strides"],
        p["padding"],
        p["lhs_dilation"],
        p["rhs_dilation"],
    )
    zero = domain.neutral("add", step.out_avals[0])
    flat = taken(x.reshape(batch * x.shape[1] * x.shape[2], -1), at, zero)
    pieces = max(groups, parts)
    # Feature groups split the features, batch groups split the images; never both.
    if groups > 1:
        patches = flat.reshape(batch, images, groups, inner, -1, at.shape[-1])
        patches = patches.transpose(0, 2, 1, 3, 4, 5)
    else:
        patches = flat.reshape(batch, parts, images // parts, inner, -1, at.shape[-1])
    left = patches.transpose(0, 1, 2, 4, 3, 5)  # …, image, place, feature, window
    left = left.reshape(batch * pieces, -1, inner * at.shape[-1])
    right = kernel.reshape(batch * pieces, outs // pieces, inner * at.shape[-1])
    product = domain.matmul(step.out_avals[0], left, right.transpose(0, 2, 1))
    product = product.reshape(batch, pieces, images // parts, -1, outs // pieces)
    product = product.transpose(0, 2, 1, 4, 3)  # point, image, piece, feature, place
    product = product.reshape(batch, images // parts, outs, *at.shape[:-1])
    back = np.argsort(numbers.out_spec)
    return [product.transpose(0, *(int(d) + 1 for d in back))]


TABLE: dict[str, Rule] = {
    "conv_general_dilated": _conv,
    "reduce": _reduce,
    "reduce_window": _fold,
    "reduce_window_max": _reduce_window("max"),
    "reduce_window_min": _reduce_window("min"),
    "reduce_window_sum": _reduce_window("add"),
    "select_and_gather_add": _select_and_gather_add,
    "select_and_scatter_add": _select_and_scatter_add,
}
