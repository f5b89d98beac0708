"""Rows at which no model is, and those at which one of several arguments is no number that it has in practice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.inputs.cotangents import BASE
from gradcheck_cli.measure.grading import grades, why_excused
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.unmet import uncommon, why_uncommon
from gradcheck_cli.subject.results import OP_BY_OP, VALUE
from tests.traced import NAMES, traced


def at(function: Any, *rows: tuple[float, ...], names: Sequence[str] = NAMES) -> Measurements:
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    return traced(function, *columns, names=names, cotangents=(BASE,), ran=True)


def square_of_a_square(x: Any, y: Any) -> Any:
    """A quotient whose parts are beyond the range long before it is."""
    return (x * x) ** 2 / ((x * x) ** 2 + y)


def test_of_several_arguments_one_may_be_of_no_everyday_size() -> None:
    m = at(square_of_a_square, (1.5, 1.0), (1e5, 1.0), (1.0, 1e-5), (0.0, 1.0))
    assert uncommon(m).tolist() == [False, True, True, False]
    assert why_uncommon(m, 1) == "`x` has no everyday size"


def test_of_a_single_argument_the_reach_says_it() -> None:
    assert not uncommon(at(jnp.sin, (1.5,), (1e8,))).any()


def test_a_name_says_which_numbers_it_never_has() -> None:
    m = at(lambda x, tau: x / tau, (1.5, 1.0), (1.5, -1.0), names=("x", "tau"))
    assert uncommon(m).tolist() == [False, True]
    assert why_uncommon(m, 1) == "`tau` is not positive"


def test_what_the_function_does_there_is_a_note() -> None:
    m = at(square_of_a_square, (1.5, 1.0), (1e12, 1.0))
    assert grades(m, OP_BY_OP, VALUE).severity.tolist() == [-1, Severity.NOTE.rank]
    assert why_excused(m, OP_BY_OP, VALUE, 1) == "`x` has no everyday size"


def test_what_it_does_among_everyday_numbers_is_an_error() -> None:
    m = at(lambda x, y: jnp.log1p(jnp.exp(x)) + y, (1.5, 1.0), (200.0, 1.0))
    assert grades(m, OP_BY_OP, VALUE).severity.tolist() == [-1, Severity.ERROR.rank]
    assert why_excused(m, OP_BY_OP, VALUE, 1) == ""


def test_an_exponent_is_no_hundred() -> None:
    m = at(lambda x, p: (x / 2) ** (p - 1), (1.5, 2.0), (1.5, -100.0))
    assert uncommon(m).tolist() == [False, True]
    assert why_uncommon(m, 1) == "`y` is an exponent larger than any that is met"
    m = at(lambda x, y: (x + y) ** 2.5, (1.5, 2.0), (1.5, 100.0))
    assert not uncommon(m).any()
    m = at(lambda x, y: y + jnp.power(10.0, x) / (1 + jnp.power(10.0, x)), (1.5, 2.0), (100.0, 1.0))
    assert not uncommon(m).any()  # a sigmoid in decades


def test_an_exponent_may_be_known_by_its_name_alone() -> None:
    m = at(lambda x, e: jnp.exp(x * e), (1.5, 2.0), (1.5, -100.0), names=("x", "tail_exponent"))
    assert why_uncommon(m, 1) == "`tail_exponent` is larger than any exponent that is met"
