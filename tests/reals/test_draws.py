"""Random draws are constants of a program, as the floats that they are."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradcheck_cli.reals.draws import program_of

KEY = jax.random.key(3)


def program(f: Any) -> Any:
    return program_of(jax.make_jaxpr(f)(jnp.ones(3, jnp.float32)))


def test_what_draws_alone_make_is_a_constant() -> None:
    made = program(lambda x: x * (1 + jax.random.normal(KEY, x.shape)))
    assert made.primitives() == {"mul"}
    (noise,) = (v for v in made.constants.values() if np.shape(v) == (3,))
    expected = 1 + jax.random.normal(KEY, (3,))
    np.testing.assert_array_max_ulp(np.asarray(noise), np.asarray(expected), maxulp=4)


def test_a_draw_that_rests_on_the_input_stays() -> None:
    made = program(lambda x: x * jax.random.uniform(jax.random.key(x.astype(jnp.int32)[0]), (3,)))
    assert "random_bits" in made.primitives() or "threefry2x32" in made.primitives()


def test_a_program_without_draws_is_left_alone() -> None:
    made = program(lambda x: jnp.arange(3.0) * x)
    assert made.primitives() >= {"iota", "mul"}
