"""The numbers on the way to a value, with the expressions that made them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from gradcheck_cli.judge.diagnose.parts import Part, parts
from gradcheck_cli.reals.program import Program
from tests.traced import traced

POINTS = np.array([0.5, 2.0])


def product(x, y):
    return jnp.square(x) * jnp.exp(y)


def taken_apart(times: int = 1) -> list[Part]:
    """The parts of the product, or of a program that has each of its steps several times."""
    m = traced(product, POINTS, POINTS, cotangents=["base"])
    program: Program | None = m.subject.traces().primal
    assert program is not None
    longer = replace(program, steps=program.steps * times)
    return parts(longer, ["x", "y"], [*m.points, *m.cotangents])


def numbers(part: Part) -> list[float]:
    values: Any = part.value
    return [float(ball) for ball in values.flat]


def test_inputs_come_first_by_their_names() -> None:
    x, y, *_ = taken_apart()
    assert (x.text, y.text) == ("x", "y")
    assert numbers(x) == numbers(y) == POINTS.tolist()


def test_a_step_has_its_expression_its_line_and_its_numbers() -> None:
    line = product.__code__.co_firstlineno + 1
    exponential = next(p for p in taken_apart() if p.text == f"`jnp.exp(y)` (line {line})")
    np.testing.assert_allclose(numbers(exponential), np.exp(POINTS))


def test_a_program_of_very_many_steps_is_not_taken_apart() -> None:
    assert taken_apart(times=400) == []
