"""The shape of a rule, and the batch-axis arithmetic that all tables share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Walk = Callable[..., list[Any]]
Rule = Callable[[Any, Any, list[Any], Walk], Sequence[Any]]


def aligned(values: Sequence[Array]) -> list[Array]:
    """Operands with equal rank: a scalar meets an array behind the batch axis."""
    rank = max(v.ndim for v in values)
    return [
        v if v.ndim == rank else v.reshape((v.shape[0],) + (1,) * (rank - v.ndim) + v.shape[1:])
        for v in values
    ]


def batched(values: Sequence[Array]) -> int:
    """The batch length that these values share."""
    return max((v.shape[0] for v in values), default=1)


def spread(value: Array, batch: int) -> Array:
    """The value with a full batch axis."""
    if value.shape[0] == batch:
        return value
    return np.broadcast_to(value, (batch, *value.shape[1:]))


def elements(flat: Sequence[Any], shape: tuple[int, ...]) -> Array:
    """An object array of these elements (numpy must not look into them)."""
    out = np.empty(len(flat), dtype=object)
    out[:] = flat
    return out.reshape(shape)
