"""How far rounded constants move a gradient."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradcheck_cli.measure.rounded_constants import movement
from gradcheck_cli.reals.program import build

GOAL = 60  # bits
A_PART = 2.0**-24  # about half an ulp of float32, as a part of the number


def moved(function: Any, x: float) -> float:
    program = build(jax.make_jaxpr(function)(jax.ShapeDtypeStruct((), jnp.float32)))
    (most,) = movement(program, [np.array([x])], GOAL, slice(None))
    return float(most[0])


def test_a_rounded_constant_moves_what_it_is_a_factor_of() -> None:
    assert 0 < moved(lambda x: 0.1 * x, 3.0) < 0.3 * 2 * A_PART


def test_so_it_does_in_every_trip_of_a_loop() -> None:
    once = moved(lambda x: 0.9 * x, 3.0)
    often = moved(lambda x: jax.lax.fori_loop(0, 10, lambda _, y: 0.9 * y, x), 3.0)
    assert 2 * once < often < 10 * once


def test_what_every_format_holds_does_not_move() -> None:
    assert moved(lambda x: 0.5 * x + 2.0, 3.0) == 0.0
