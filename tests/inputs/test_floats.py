"""Formats, ordinals and stress values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.inputs.lattice import PATTERNS, generic, make_points, stress_values
from gradcheck_cli.inputs.signature import Leaf

DTYPES = ("float64", "float32", "bfloat16", "float16")


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(value=st.floats(-60000, 60000))
def test_ordinals_go_there_and_back(dtype: str, value: float) -> None:
    fmt = format_of(dtype)
    rounded = fmt.round([value])
    assert fmt.from_ordinals(fmt.ordinals(rounded)) == rounded
    above = fmt.moved(rounded, 1)
    assert above > rounded
    assert fmt.ordinals(above) - fmt.ordinals(rounded) == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_read_back_as_the_same_float(dtype: str) -> None:
    fmt = format_of(dtype)
    for value in stress_values(fmt, [0.1, 20.0], 1e9):
        assert fmt.round([float(fmt.show(value))])[0] == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-100.0, "-100"),
        (0.1, "0.1"),
        (999999.94, "999999.94"),
        (1e6, "1e6"),
        (16777216.0, "1.6777216e7"),
        (-1e9, "-1e9"),
        (0.0002, "0.0002"),
        (1.5e-5, "1.5e-5"),
        (1e-45, "1e-45"),
    ],
)
def test_a_float32_is_written_with_as_few_digits_as_it_has(value: float, text: str) -> None:
    assert format_of("float32").show(value) == text


@pytest.mark.parametrize("dtype", DTYPES)
def test_stress_values_have_what_breaks_things(dtype: str) -> None:
    fmt = format_of(dtype)
    values = stress_values(fmt, [20.0], 1e9)
    assert {0.0, 1.0, -1.0, 100.0, -100.0, 1000.0, 20.0} <= set(values)
    assert any(v == 0 and np.signbit(v) for v in values)
    assert fmt.moved(fmt.round([20.0]), 1)[0] in values
    assert all(abs(v) <= 1e9 for v in values)


def test_points_are_deterministic_and_within_budget() -> None:
    leaves = (Leaf("x", (3,), "test"), Leaf("y", (), "test"))
    fmt = format_of("float32")
    first, second = (make_points(leaves, fmt, [2.5], 1e9, 40, 7) for _ in range(2))
    pair, *special = first.recipes[40:]
    assert (pair, set(special)) == ("x a pair along axis 0", {"numbers of their own"})
    own = {float(y) for y in first.leaves[1][41:]}
    assert own == {1.0, 0.0, 2.5}  # of `y`, beside three numbers that differ
    assert (np.diff(np.sort(first.leaves[0][41:], axis=1)) > 0).all()
    assert all(np.array_equal(a, b) for a, b in zip(first.leaves, second.leaves, strict=True))


def test_two_scalars_meet_at_zero() -> None:
    leaves = (Leaf("x", (), "test"), Leaf("y", (), "test"))
    points = make_points(leaves, format_of("float32"), [], 1e9, 256, 0)
    assert (0.0, 0.0) in set(zip(*(a.tolist() for a in points.leaves), strict=True))


def test_rows_in_which_nothing_is_zero_or_alike() -> None:
    rows = np.array([[[1.0, 2.0], [3.0, 4.0]], [[1.0, 1.0], [3.0, 4.0]], [[0.0, 2.0], [3.0, 4.0]]])
    assert generic([rows]).tolist() == [True, False, False]
    assert generic([rows[:0]]).tolist() == []


@pytest.mark.parametrize("pattern", PATTERNS)
def test_an_array_without_elements_has_each_pattern(pattern: str) -> None:
    assert PATTERNS[pattern](np.random.default_rng(1), (2, 0)).shape == (2, 0)
