"""Products: brought to stacks of matrices, multiplied by the domain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.reals.rules.rule import Rule, batched, spread


def _dot_general(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    (left_sum, right_sum), (left_batch, right_batch) = step.params["dimension_numbers"]
    batch = batched(values)
    values = [
        domain.as_kind(step.out_avals[0].kind, aval.kind, value)
        for value, aval in zip(values, step.in_avals, strict=True)
    ]
    left, left_free = _matrices(spread(values[0], batch), left_batch, left_sum, last=True)
    right, right_free = _matrices(spread(values[1], batch), right_batch, right_sum, last=False)
    stack = left.shape[:-2]
    pieces = int(np.prod(stack, dtype=int))
    product = domain.matmul(
        step.out_avals[0],
        left.reshape(pieces, *left.shape[-2:]),
        right.reshape(pieces, *right.shape[-2:]),
    )
    return [product.reshape(*stack, *left_free, *right_free)]


def _matrices(
    x: Any, batch_dims: tuple[int, ...], sum_dims: tuple[int, ...], *, last: bool
) -> tuple[Any, tuple[int, ...]]:
    """The operand as (point, batch…, rows, columns), and the shape of its free axes."""
    batch = [d + 1 for d in batch_dims]
    summed = [d + 1 for d in sum_dims]
    free = [d for d in range(1, x.ndim) if d not in batch and d not in summed]
    order = [0, *batch, *free, *summed] if last else [0, *batch, *summed, *free]
    moved = x.transpose(order)
    head = tuple(x.shape[d] for d in (0, *batch))
    free_shape = tuple(x.shape[d] for d in free)
    inner = int(np.prod([x.shape[d] for d in summed], dtype=int))
    outer = int(np.prod(free_shape, dtype=int))
    sizes = (outer, inner) if last else (inner, outer)
    return moved.reshape(*head, *sizes), free_shape


def _ragged_dot(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    """One product for each group: the rows of a group, and zeros for the others."""
    left, right, sizes = values[:3]
    p = step.params["ragged_dot_dimension_numbers"]
    (ragged,) = p.lhs_ragged_dimensions
    ((summed, _), _) = p.dot_dimension_numbers
    rows = batched(values)
    left, right, sizes = spread(left, rows), spread(right, rows), spread(sizes, rows)
    if sizes.ndim != 2 or values[3:]:  # groups that differ along a stack
        return list(domain.native(step, values))
    ends = np.cumsum(sizes, axis=-1)
    place = np.arange(left.shape[ragged + 1])
    zero = domain.neutral("add", step.out_avals[0])
    products = []
    for g in range(sizes.shape[1]):
        inside = (place >= ends[:, g : g + 1] - sizes[:, g : g + 1]) & (place < ends[:, g : g + 1])
        shape = [rows, *(len(place) if d == ragged else 1 for d in range(left.ndim - 1))]
        part = np.where(inside.reshape(shape), left, zero)
        other = right
        if p.rhs_group_dimensions:
            (group,) = p.rhs_group_dimensions
            other = np.take(right, g, axis=group + 1)
        products.append(_dot_general(domain, _of_one_group(step, p), [part, other], walk)[0])
    if ragged in summed:
        return [np.stack(products, axis=1)]
    total = products[0]
    for product in products[1:]:
        total = domain.binary("add", total, product)
    return [total]


def _of_one_group(step: Any, p: Any) -> Any:
    """The plain product of one group: what comes after the group's axis moves up."""
    (left_sum, right_sum), (left_batch, right_batch) = p.dot_dimension_numbers
    for group in p.rhs_group_dimensions:
        right_sum, right_batch = (
            tuple(d - (d > group) for d in dims) for dims in (right_sum, right_batch)
        )
    numbers = ((left_sum, right_sum), (left_batch, right_batch))
    return replace(
        step, in_avals=step.in_avals[:2], params={**step.params, "dimension_numbers": numbers}
    )


TABLE: dict[str, Rule] = {"dot_general": _dot_general, "ragged_dot_general": _ragged_dot}
