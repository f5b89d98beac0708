"""Quantities by the names of parameters."""

from __future__ import annotations

import pytest

from gradcheck_cli.inputs.quantities import quantity_of


@pytest.mark.parametrize(
    ("path", "otherwise"),
    [
        ("slant_range", "negative"),
        ("params['wall_tolerance']", "not positive"),
        ("state.pressure", "not positive"),
        ("shares", "outside of 0 to 1"),
        ("tau_m", "not positive"),
        ("price_0", "negative"),
        ("rank_correlation", "outside of -1 to 1"),
    ],
)
def test_the_last_name_of_a_path_says_a_quantity(path: str, otherwise: str) -> None:
    quantity = quantity_of(path)
    assert quantity is not None
    assert quantity.otherwise == otherwise


@pytest.mark.parametrize(
    "path",
    [
        "x",
        "log_pressure",
        "pressure_error",
        "delta_tau",
        "rates[0].x",
        "",
        "rate_matrix",
        "range_min",
        "rho",
    ],
)
def test_what_is_taken_of_a_quantity_is_none(path: str) -> None:
    assert quantity_of(path) is None
