"""What is wrong only where a loop seeks a solution for no such quantity is told apart."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from gradcheck_cli.judge.laws.infinities import short_of_infinity
from tests.traced import traced

X = np.array([0.25, 0.5, 2.0, 3.0])


def sought(x: Any) -> Any:
    return jax.lax.fori_loop(0, 3, lambda _, z: z + x * z, x)


def plain(x: Any) -> Any:
    return x + x * x


@pytest.mark.parametrize(
    ("function", "name", "left"),
    [(sought, "porosity", 2), (sought, "x", 4), (plain, "porosity", 4)],
)
def test_beyond_a_quantity_only_loops_may_fail(function: Any, name: str, left: int) -> None:
    m = traced(function, X, names=(name,))
    rows = m.base_rows
    near, _ = short_of_infinity(m, rows, slice(0, 1))
    assert len(near) == left
    beyond = rows[[bool(m.points[0][row] > 1) for row in rows]]
    near, why = short_of_infinity(m, beyond, slice(0, 1))
    assert (len(near) == 0) is (left == 2)
    assert ("`porosity` is outside of 0 to 1" in why) is (left == 2)
