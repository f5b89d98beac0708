"""Constants of a program at whose sides faults live."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gradcheck_cli.measure.mined_constants import mined
from gradcheck_cli.reals.program import build


def test_constants_of_comparisons_and_branches_are_mined_simplest_first() -> None:
    def f(x):
        return jax.lax.cond(x > 2.5, lambda v: v * 20.0, lambda v: v + 1.0, x)

    numbers = mined([build(jax.make_jaxpr(f)(jnp.float32(1)))])
    assert {2.5, 20.0} <= set(numbers)
    assert 1.0 not in numbers, "0 and ±1 are tried anyway"
    assert numbers == sorted(numbers, key=lambda v: (len(repr(v)), abs(v), v))


def test_infinite_ones_and_arrays_are_left_out() -> None:
    def f(x):
        return jnp.where(x > 0, x * jnp.array([3.0, 4.0]), -jnp.inf)

    assert mined([build(jax.make_jaxpr(f)(jnp.float32(1)))]) == []
