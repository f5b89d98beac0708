"""Products: brought to stacks of matrices, multiplied by the domain."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.reals.tables.rule import Rule, batched, spread


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
    product = domain.matmul(
        step.out_avals[0],
        left.reshape(-1, *left.shape[-2:]),
        right.reshape(-1, *right.shape[-2:]),
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


TABLE: dict[str, Rule] = {"dot_general": _dot_general}
