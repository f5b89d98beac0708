"""Lanes that are known to hold 0 while a kernel is traced: padding, which its products leave out.

A block of 32 × 32 of which twelve lanes are inside of their tensors costs what twelve cost.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from gradcheck_cli.frameworks.torch.triton.numbers import is_traced

_KEY = "cgcheck.padding"

Array = np.ndarray[Any, Any]


def padding_of(handle: Any) -> Array:
    """Where a block is known to hold 0."""
    if not is_traced(handle.data):
        zero: Array = np.asarray(handle.data) == 0
        return zero
    known: Array | None = handle.attr.get(_KEY)
    return np.zeros(handle.data.shape, bool) if known is None else known


def padded(handle: Any, where: Array) -> Any:
    """The block, of which these lanes are known to hold 0."""
    if is_traced(handle.data) and where.any():
        handle.attr[_KEY] = np.broadcast_to(where, handle.data.shape)
    return handle


def combined(op: str, left: Any, right: Any) -> Array | None:
    """Where the result of an operation on two blocks is known to be 0."""
    if op == "multiply":
        return padding_of(left) | padding_of(right)
    if op in ("add", "subtract"):
        return padding_of(left) & padding_of(right)
    return None


def product(left: Any, right: Any, dtype: Any) -> tuple[Any, Array]:
    """The product of two matrices without their rows and columns of nothing, and where it is known to be 0."""
    zero, other = padding_of(left), padding_of(right)
    rows, columns = ~zero.all(axis=1), ~other.all(axis=0)
    inner = ~(zero.all(axis=0) | other.all(axis=1))
    a = jnp.asarray(left.data, dtype)[np.ix_(rows, inner)]
    b = jnp.asarray(right.data, dtype)[np.ix_(inner, columns)]
    small = jnp.matmul(a, b, preferred_element_type=dtype)
    whole = jnp.zeros((rows.size, columns.size), dtype).at[np.ix_(rows, columns)].set(small)
    return whole, ~np.outer(rows, columns)
