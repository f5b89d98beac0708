"""Rules that whole float64 arrays have of their own: matrices by numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from gradcheck_cli.reals import rules
from gradcheck_cli.reals.rules import scattered
from gradcheck_cli.reals.rules.rule import Rule
from gradcheck_cli.reals.walk import NoRealMeaning

Array = np.ndarray[Any, Any]


def _whole(function: Callable[..., list[Array]], *params: str) -> Rule:
    """A function of stacks of matrices, with the parameters that it needs."""

    def rule(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
        return function(*values, **{name: step.params[name] for name in params})

    return rule


def _cholesky(x: Array) -> list[Array]:
    lower = np.tril(x)
    whole = lower + np.swapaxes(np.tril(x, -1), -1, -2)
    return [_or_nan(np.linalg.cholesky, whole)]


def _eigh(x: Array, *, lower: bool) -> list[Array]:
    part = np.tril(x) if lower else np.swapaxes(np.triu(x), -1, -2)
    values, vectors = np.linalg.eigh(part)
    return [vectors, values]


def _lu(x: Array) -> list[Array]:
    """Factors in one matrix, the rows exchanged in turn, and the order that these make."""
    stack = x.reshape(-1, *x.shape[-2:])
    factors, pivots, _ = zip(*map(scipy.linalg.lapack.dgetrf, np.nan_to_num(stack)), strict=True)
    orders = [_order(p, x.shape[-2]) for p in pivots]
    heads = x.shape[:-2]
    columns = (np.stack(factors), np.stack(pivots).astype(np.int32), np.stack(orders))
    return [c.reshape(*heads, *c.shape[1:]) for c in columns]


def _order(pivots: Array, size: int) -> Array:
    order = np.arange(size, dtype=np.int32)
    for i, p in enumerate(pivots):
        order[[i, p]] = order[[p, i]]
    return order


def _svd(x: Array, *, full_matrices: bool, compute_uv: bool) -> list[Array]:
    if not compute_uv:
        return [np.linalg.svd(x, compute_uv=False)]
    left, values, right = np.linalg.svd(x, full_matrices=full_matrices)
    return [values, left, right]


def _qr(x: Array, *, full_matrices: bool, pivoting: bool) -> list[Array]:
    if pivoting:
        raise NoRealMeaning("qr")
    return list(np.linalg.qr(x, mode="complete" if full_matrices else "reduced"))


def _triangular_solve(
    a: Array, b: Array, *, left_side: bool, lower: bool, transpose_a: bool, unit_diagonal: bool
) -> list[Array]:
    a = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        a = a * (1 - np.eye(a.shape[-1])) + np.eye(a.shape[-1])
    a = np.swapaxes(a, -1, -2) if transpose_a else a
    if left_side:
        return [_or_nan(np.linalg.solve, a, b)]
    turned = _or_nan(np.linalg.solve, np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2))
    return [np.swapaxes(turned, -1, -2)]


def _or_nan(function: Callable[..., Array], *stacks: Array) -> Array:
    """The function of each matrix of a stack; NaN where there is none."""
    try:
        return function(*stacks)
    except np.linalg.LinAlgError:
        return np.full(np.broadcast_shapes(stacks[-1].shape), np.nan)


RULES: dict[str, Rule] = {
    **rules.RULES,
    **scattered.TABLE,
    "cholesky": _whole(_cholesky),
    "eigh": _whole(_eigh, "lower"),
    "lu": _whole(_lu),
    "qr": _whole(_qr, "full_matrices", "pivoting"),
    "svd": _whole(_svd, "full_matrices", "compute_uv"),
    "triangular_solve": _whole(
        _triangular_solve, "left_side", "lower", "transpose_a", "unit_diagonal"
    ),
}
