"""Faults that only several arguments bring about together."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.together import brought_about_by
from tests.traced import traced


def hardening(x: Any, y: Any) -> Any:
    return 0.0 * x**y + x


def at(function: Any, *rows: tuple[float, ...]) -> Measurements:
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    return traced(function, *columns, ran=True)


def infinite(m: Measurements) -> Any:
    values = next(iter(m.floats.values())).value[0]
    return ~np.isfinite(values.reshape(m.count))


def finite(m: Measurements) -> Any:
    return ~infinite(m)


ORDINARY = ((1.5, 0.5), (1.25, 2.0), (1.75, 1.0))


def test_both_a_base_and_an_exponent_are_large() -> None:
    m = at(hardening, *ORDINARY, (100.0, 50.0))
    assert brought_about_by(m, [3], infinite, finite) == [["x", "y"]]


def test_one_argument_does_it_whatever_the_other_one_is() -> None:
    m = at(lambda x, y: jnp.exp(x) + y, *ORDINARY, (200.0, 50.0))
    assert brought_about_by(m, [3], infinite, finite) == [["x"]]


def test_of_a_single_argument_nothing_is_asked() -> None:
    m = at(jnp.exp, (1.5,), (200.0,))
    assert brought_about_by(m, [1], infinite, finite) == [[]]


def test_both_parts_of_a_complex_number_are_one_argument() -> None:
    columns = [np.array(column) for column in zip(*ORDINARY, (100.0, 50.0), strict=True)]
    m = traced(hardening, *columns, ran=True, names=("z.real", "z.imag"))
    assert brought_about_by(m, [3], infinite, finite) == [[]]


def test_without_an_ordinary_row_nothing_is_said() -> None:
    m = at(hardening, (100.0, 50.0))
    assert brought_about_by(m, [0], infinite, finite) == [[]]
