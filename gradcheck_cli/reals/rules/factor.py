"""Linear algebra: factorizations and solves, each matrix of a stack by itself.

Signs, phases and pivots are the library's choice (SEMANTICS B5): they follow the native
result, and what is enclosed is the exact factorization with those choices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcheck_cli.reals.rules.rule import Rule, batched, spread

Array = np.ndarray[Any, Any]


def _stacked(domain: Any, step: Any, values: list[Any], one: Callable[..., list[Any]]) -> list[Any]:
    """Run `one` on each matrix; what stands before its axes is the stack."""
    batch = batched(values)
    heads = len(_stack_shape(step))
    full = [spread(v, batch) for v in values]
    stack = full[0].shape[: 1 + heads]
    flat = [v.reshape(-1, *v.shape[1 + heads :]) for v in full]
    rows = [one(*(v[i] for v in flat)) for i in range(len(flat[0]))]
    return [
        np.stack([row[k] for row in rows]).reshape(*stack, *np.shape(rows[0][k]))
        for k in range(len(rows[0]))
    ]


def _stack_shape(step: Any) -> tuple[int, ...]:
    last = {"tridiagonal_solve": 1}.get(step.name, 2)
    shape: tuple[int, ...] = step.in_avals[0].shape
    return shape[: len(shape) - last]


def _factor(method: str, *params: str) -> Rule:
    """What the domain calls it, with the parameters that it needs."""

    def rule(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
        options = {name: step.params[name] for name in params}
        algebra = domain.algebra(step)
        return _stacked(
            domain, step, values, lambda *parts: getattr(algebra, method)(*parts, **options)
        )

    return rule


def _custom_linear_solve(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    """The solve that the user's code runs; its derivative comes from JAX as another such step."""
    lengths = step.params["const_lengths"]
    start = lengths.matvec + lengths.vecmat
    consts = values[start : start + lengths.solve]
    right = values[sum(lengths) :]
    (solve,) = step.subs
    outs: list[Any] = walk(solve, domain, [*consts, *right])
    return outs


TABLE: dict[str, Rule] = {
    "cholesky": _factor("cholesky"),
    "cholesky_update": _factor("cholesky_update"),
    "custom_linear_solve": _custom_linear_solve,
    "eig": _factor("eig", "compute_left_eigenvectors", "compute_right_eigenvectors"),
    "eigh": _factor("eigh", "lower"),
    "geqp3": _factor("geqp3"),
    "geqrf": _factor("geqrf"),
    "hessenberg": _factor("hessenberg"),
    "householder_product": _factor("householder_product"),
    "lu": _factor("lu"),
    "ormqr": _factor("ormqr", "left", "transpose"),
    "qr": _factor("qr", "full_matrices", "pivoting"),
    "schur": _factor("schur", "compute_schur_vectors", "sort_eig_vals", "select_callable"),
    "svd": _factor("svd", "full_matrices", "compute_uv"),
    "symmetric_product": _factor("symmetric_product", "alpha", "beta"),
    "tridiagonal": _factor("tridiagonal", "lower"),
    "triangular_solve": _factor(
        "triangular_solve", "left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal"
    ),
    "tridiagonal_solve": _factor("tridiagonal_solve"),
}
