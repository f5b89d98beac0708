"""What is decided by a rounding on the way is forgiven; what is only lost beside a decision is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.measure.accuracy import grade
from gradcheck_cli.measure.ball_truth import Ask, Reals
from gradcheck_cli.measure.components import VALUES
from gradcheck_cli.measure.reference import Reference, goal_bits
from gradcheck_cli.reals.decisions import decided_otherwise
from gradcheck_cli.reals.program import Program, build

TINY = 2.0**-30


def masked(x: Any) -> Any:
    return jnp.where(jnp.sqrt(9 + x * x) <= 3, 1.0, 0.0)


def rounded_down(x: Any) -> Any:
    return jnp.floor(3 - x * x)


def counted(x: Any) -> Any:
    return (3 - x * x).astype(jnp.int32).astype(jnp.float32) + 0 * x


def nearest(x: Any) -> Any:
    return jnp.argmin(jnp.stack([1 + x, 1 + x * x])).astype(jnp.float32) + 0 * x


def lost(x: Any) -> Any:
    """A growth that is lost before it is compared, and no matter on which side it falls."""
    return jnp.where(jnp.exp(x) - 1 > 1e-7, 1.0, 2.0) * (jnp.exp(x) - 1)


def pullback(function: Callable[[Any], Any]) -> Program:
    def both(x: Any, weight: Any) -> tuple[Any, Any]:
        value, back = jax.vjp(function, x)
        return value, back(weight)[0]

    number = jax.ShapeDtypeStruct((), np.float32)
    return build(jax.make_jaxpr(both)(number, number))


def fine(function: Callable[[Any], Any]) -> bool:
    """Is the value that floats have at a tiny number forgiven?"""
    fmt = format_of("float32")
    source = Reals(pullback(function))
    points, cotangents = [np.array([TINY])], [np.ones(1)]
    truth = source.evaluate(points, cotangents, Ask(goal_bits(fmt), ties=True))
    got = [np.asarray(function(jnp.float32(TINY)), float)[None]]
    assert got[0] != float(truth.values[0][0])
    graded = grade(Reference(source, fmt, points, cotangents, truth, 0), got, VALUES)
    return bool(graded.fine.all())


@pytest.mark.parametrize("function", [masked, rounded_down, counted, nearest])
def test_a_decision_that_a_rounding_makes_is_forgiven(function: Callable[[Any], Any]) -> None:
    assert fine(function)


def test_digits_that_are_lost_whatever_is_decided_are_not() -> None:
    assert not fine(lost)


def test_what_compares_the_input_itself_is_left_alone() -> None:
    """Its neighbours are asked already, with all that hangs on them."""
    program = pullback(lambda x: jnp.where(x > 0, x * x, 0.0))
    assert not list(decided_otherwise(program, 2.0**-21, 0))
