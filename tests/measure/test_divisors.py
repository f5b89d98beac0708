"""Arguments that divide as they stand: at 0 of one of them no model is."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.inputs.cotangents import BASE
from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.measure.divisors import divided_by_zero
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.unmet import uncommon, why_uncommon
from gradcheck_cli.project.input_specs import Bounds
from tests.traced import traced


def at_zero(function: Any) -> Measurements:
    """Its second argument is 1, then 0."""
    columns = np.array([1.5, 1.5]), np.array([1.0, 0.0])
    return traced(function, *columns, cotangents=(BASE,), ran=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (x / y) ** 2,
        lambda x, y: jnp.arctan(x / -y),  # a number comes out, and its gradient is none
        lambda x, y: x / (2 * jnp.sqrt(y)),
        lambda x, y: x / jnp.abs(y) ** 3,
        lambda x, y: x * jnp.exp(1 / y),
        lambda x, y: jnp.arctan((y - x) / (0.5 * y)),  # -x above
    ],
)
def test_who_divides_by_an_argument_means_no_zero(function: Any) -> None:
    m = at_zero(function)
    assert divided_by_zero(m, 1).tolist() == [False, True]
    assert uncommon(m).tolist() == [False, True]
    assert why_uncommon(m, 1) == "`y` divides, and is 0"


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x * jnp.sin(y) / y,  # it has a limit
        lambda x, y: x * y * jnp.log(y),
        lambda x, y: x * (jnp.exp(y) - 1) / y,
        lambda x, y: (y * y + x * y) / y,
        lambda x, y: (x - x * jnp.exp(-y)) / y,
        lambda x, y: (jnp.sin(x + y) - jnp.sin(x)) / y,
        lambda x, y: x / (1 + y),
        lambda x, y: x / jnp.exp(y),
        lambda x, y: x * jnp.exp(-1 / y**2),  # it has a value
        lambda x, y: y / x,
        lambda x, y: jnp.where(y == 0, jnp.pi / 2, jnp.arctan(x / y)) ** 2,  # it says what it is
    ],
)
def test_of_what_does_not_divide_or_has_a_value_zero_is_one_of_its_numbers(function: Any) -> None:
    assert not divided_by_zero(at_zero(function), 1).any()


def test_what_only_a_derivative_divides_by_is_no_divisor() -> None:
    """The derivative of the logarithm is a quotient; the logarithm is none."""
    assert not divided_by_zero(at_zero(lambda x, y: x + jnp.log(y)), 1).any()


@pytest.mark.parametrize(
    ("source", "means_zero"),
    [("the name `depth`", False), ("the docstring `y: not negative`", True)],
)
def test_a_domain_of_a_name_does_not_say_that_zero_is_meant(source: str, means_zero: bool) -> None:
    columns = np.array([1.5, 1.5]), np.array([1.0, 0.0])
    domain = Domain(Bounds(low=0.0), source)
    m = traced(lambda x, y: (x / y) ** 2, *columns, cotangents=(BASE,), ran=True, domain=domain)
    assert uncommon(m).tolist() == [False, not means_zero]
