"""What no float resolves: exponentials and sines of numbers that have no units left."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from gradcheck_cli.measure.resolution import largest_exponents
from gradcheck_cli.reals.program import build


def program(function, *shapes):
    avals = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    return build(jax.make_jaxpr(function)(*avals))


def test_the_largest_number_of_which_an_exponential_is_taken() -> None:
    softmax = program(lambda x: (jax.nn.softmax(x),), (2,))
    rows = np.array([[1.0, 2.0], [0.0, 1e8]])
    assert largest_exponents(softmax, [rows]).tolist() == [1.0, 1e8]


def test_a_program_without_exponentials_resolves_everything() -> None:
    squares = program(lambda x: (x * x,), ())
    assert largest_exponents(squares, [np.array([1e9])]).tolist() == [0.0]


def test_a_wave_is_an_exponential_of_a_complex_number() -> None:
    wave = program(lambda x: (jnp.exp(1j * x).real,), ())
    assert largest_exponents(wave, [np.array([3.0, 1e8])]).tolist() == [3.0, 1e8]
