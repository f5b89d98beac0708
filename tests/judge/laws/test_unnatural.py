"""Formulas that are wrong only where an argument is what its name denies."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.laws.formula import FORMULA
from gradcheck_cli.judge.laws.law import judgement
from tests.traced import ruled, traced


def drag(x: Any, load: Any) -> Any:
    return jnp.sqrt(load * load) * x


def right_above_zero(primals: Any, cotangent: Any) -> Any:
    x, load = primals
    return cotangent * jnp.abs(load), cotangent * x


def wrong_everywhere(primals: Any, cotangent: Any) -> Any:
    x, load = primals
    return cotangent * jnp.abs(load), cotangent * x * 2 * jnp.sign(load)


@pytest.mark.parametrize(
    ("rule", "name", "expected"),
    [
        (right_above_zero, "load", RuleName.INCONCLUSIVE_GRADIENT),
        (right_above_zero, "y", RuleName.GRADIENT_MISMATCH),
        (wrong_everywhere, "load", RuleName.GRADIENT_MISMATCH),
    ],
)
def test_what_is_right_at_natural_numbers_is_left_open(rule: Any, name: str, expected: Any) -> None:
    columns = [np.array(c) for c in ((1.5, 0.5, 2.0, 0.75), (0.5, -2.0, 1.25, -0.25))]
    m = traced(ruled(drag, rule), *columns, names=("x", name), ran=True)
    (failure,) = judgement(FORMULA, m).failures
    assert failure.rule == expected
