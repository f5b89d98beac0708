"""Loops that end by `break`: which of them came to their last trip without."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gradcheck_cli.frameworks.shared.run_out import watched_loops


def root(a: float, trips: int = 6) -> float:
    x = 1.0
    for _ in range(trips):
        step = (x * x - a) / (2 * x)
        x = x - step
        if abs(step) < 1e-9:
            break
    return x


def returned(a: float) -> float:
    x = 1.0
    for _ in range(6):
        x = (x + a / x) / 2
        if abs(x * x - a) < 1e-9:
            return x
    return x


def twice(a: float) -> float:
    total = 0.0
    for k in range(3):
        total += k * root(a)
    return total


def searched(a: float) -> float:
    for k in range(5):
        for _ in range(int(a)):
            if k > 2:
                break
    return a


@pytest.mark.parametrize(
    ("function", "a", "ran_out"),
    [
        (root, 2.0, False),
        (root, 1e9, True),
        (returned, 2.0, False),
        (returned, 1e9, True),
        (twice, 2.0, False),
        (twice, 1e9, True),
        (lambda a: root(a, trips=0), 2.0, False),  # it makes no trip at all
        (searched, 0.0, False),
    ],
)
def test_a_loop_has_run_out_where_its_last_trip_comes_before_its_break(
    function: Callable[[float], float], a: float, ran_out: bool
) -> None:
    with watched_loops() as seen:
        function(a)
    assert seen.ran_out is ran_out
