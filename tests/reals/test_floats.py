"""Programs in plain float64: the rules agree with JAX, and a walk ends when it makes too much."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.reals.floats.domain import Floats, Meter, OverBudget
from gradcheck_cli.reals.program import build
from gradcheck_cli.reals.walk import NoRealMeaning, walk
from tests.reals.cases import CASES

NAMES = (
    "cumprod reversed", "sort", "gather rows", "scatter add", "scatter max", "dynamic update",
    "batched matmul", "select by integer", "cond", "reverse scan", "while", "top k", "max pool",
    "conv 2d", "rfft", "cholesky", "solve", "eigvalsh", "qr", "singular values",
)  # fmt: skip


def walked(function: Any, *rows: np.ndarray[Any, Any], values: int = 10**6) -> list[Any]:
    """The function's program at all rows at once."""
    with jax.enable_x64(True):
        program = build(jax.make_jaxpr(function)(*(row[0] for row in rows)))
    with np.errstate(all="ignore"):
        return walk(program, Floats(len(rows[0]), Meter(values, 10**6)), rows)


@pytest.mark.parametrize("name", NAMES)
def test_values_agree_with_those_of_jax(name: str) -> None:
    function, x = CASES[name]
    rows = np.stack([x, x * 1.25])
    ours = walked(lambda v: jax.tree.leaves(function(v)), rows)
    with jax.enable_x64(True):
        native = [jax.tree.leaves(function(jnp.asarray(row))) for row in rows]
    for k, got in enumerate(ours):
        if np.asarray(got).dtype.kind == "f":
            want = np.stack([np.asarray(leaves[k]) for leaves in native])
            np.testing.assert_allclose(np.broadcast_to(got, want.shape), want, rtol=1e-9, atol=1e-9)


def test_a_walk_that_makes_too_many_values_ends() -> None:
    def endless(x: Any) -> Any:
        return jax.lax.while_loop(lambda v: v < np.inf, lambda v: v * 1.0, x)

    with pytest.raises(OverBudget):
        walked(endless, np.ones(2), values=50)


def test_a_factorization_without_a_rule_says_so() -> None:
    with pytest.raises(NoRealMeaning, match="schur"):
        walked(lambda x: jax.scipy.linalg.schur(x)[0], np.ones((1, 2, 2)))
