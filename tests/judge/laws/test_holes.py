"""Holes that a function fills: with a value set apart from those beside it a rule's number is a convention."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.laws.formula import FORMULA
from gradcheck_cli.judge.laws.law import judgement
from tests.traced import ruled, traced


def share(x: Any, weight: Any) -> Any:
    """1 + x, and of no weight nothing at all."""
    total = jnp.sqrt(weight * weight)
    return jnp.where(total == 0, 0.0, (1 + x) * total / total)


def filled(x: Any, weight: Any) -> Any:
    """1 + x, of no weight, too."""
    total = jnp.sqrt(weight * weight)
    return jnp.where(total == 0, 1 + x, (1 + x) * total / total)


def rule(primals: Any, cotangent: Any) -> Any:
    _, weight = primals
    return jnp.where(weight == 0, 0.0, cotangent), 0.0 * weight


@pytest.mark.parametrize(
    ("function", "wrong"), [(share, False), (filled, True)], ids=["set apart", "filled"]
)
def test_at_a_hole_that_is_set_apart_nothing_is_wrong(function: Any, wrong: bool) -> None:
    columns = [np.array(c) for c in ((1.5, 0.5, 2.0), (1.0, 0.0, -0.5))]
    m = traced(ruled(function, rule), *columns, ran=True, kinks=True)
    rules = {failure.rule for failure in judgement(FORMULA, m).failures}
    assert (RuleName.GRADIENT_MISMATCH in rules) is wrong
