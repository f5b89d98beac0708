"""Compiled batches: their sizes, rows that fill them, and what they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradcheck_cli.subject.results import Array


def batch_size(count: int) -> int:
    """The size of the compiled batch for so many rows: a power of two, so that there are few."""
    return max(16, 1 << (count - 1).bit_length())


def padded(array: Array, size: int, dtype: str) -> Array:
    """Rows in the function's dtype, the last one repeated up to the batch's size."""
    cast = np.asarray(array).astype(jnp.dtype(dtype))
    if len(cast) == size:
        return cast
    fill = np.broadcast_to(cast[-1:], (size - len(cast), *cast.shape[1:]))
    return np.concatenate([cast, fill])


def host(arrays: Sequence[Any], count: int) -> list[Array]:
    """The first rows of each, as arrays of ours; JAX's `float0`, which holds no numbers, is nothing but zeros."""
    rows = [np.asarray(a)[:count] for a in arrays]
    return [
        np.zeros(r.shape) if r.dtype == jax.dtypes.float0 else r.astype(np.float64) for r in rows
    ]
