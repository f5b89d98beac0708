"""Both branches of a rule are right, and its condition chooses the wrong one."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from gradcheck_cli.judge.diagnose.branches import wrong_choice
from tests.traced import ruled, traced

POINTS = np.array([-3.0, -0.5, 0.5, 3.0])


def bent(x):
    return jnp.where(x > 0, x * x, 3 * x)


def with_slope(slope: Any) -> Any:
    return ruled(bent, lambda residuals, ct: (ct * slope(residuals[0]),))


def verdict(function: Any, rows: list[int]) -> str | None:
    m = traced(function, POINTS, cotangents=["base"])
    program = m.subject.traces().rule
    assert program is not None
    args = [a[rows] for a in (*m.points, *m.cotangents)]
    return wrong_choice(program, len(m.cotangents), args, m.truth.gradients[0][rows])


def test_a_wrong_condition_is_named_with_its_line() -> None:
    def slope(x):
        return jnp.where(x > 1, 2 * x, 3.0)

    line = slope.__code__.co_firstlineno + 1
    assert verdict(with_slope(slope), rows=[2]) == (
        f"the condition of `jnp.where(x > 1, 2 * x, 3.0)` (line {line}) "
        "chooses the wrong branch: the other one is right there"
    )


def test_a_wrong_branch_is_another_fault() -> None:
    assert verdict(with_slope(lambda x: jnp.where(x > 0, 4 * x, 3.0)), rows=[2, 3]) is None


def test_a_condition_that_is_wrong_only_at_some_of_the_rows_is_another_fault() -> None:
    assert verdict(with_slope(lambda x: jnp.where(x > 1, 2 * x, 3.0)), rows=[2, 3]) is None


def test_a_rule_without_a_condition_has_none_that_is_wrong() -> None:
    assert verdict(with_slope(lambda x: 2 * x), rows=[0]) is None
