"""What a program loses by itself in float64."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.measure.own_rounding import holds_in_float64
from gradcheck_cli.reals.draws import program_of

pytestmark = pytest.mark.needs("jax")

AT = np.array([1.0, 2.0])


def holds(function: Any, run: Any) -> list[bool]:
    program = program_of(jax.make_jaxpr(function)(jax.ShapeDtypeStruct((), "float32")))
    return holds_in_float64(program, [AT], [np.asarray(run, float)], last=False).tolist()


def test_a_run_that_loses_no_more_than_the_program_is_held() -> None:
    assert holds(lambda x: 1 - jnp.exp(-x * 2.0**-60), [0.0, 0.0]) == [True, True]
    assert holds(lambda x: 1 - jnp.exp(-x), [0.5, 1 - np.exp(-2.0)]) == [False, True]


def test_what_has_no_bounds_holds_nothing() -> None:
    assert holds(lambda x: 1 / (jnp.sqrt(x) ** 2 - x), [7.0, 7.0]) == [False, False]
