"""The simplest witness: plain numbers, or none."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.inputs.simplify import simplest

POINT = [np.array(3.25), np.array(7.5)]


def test_numbers_that_do_not_matter_become_plain() -> None:
    point = simplest(POINT, lambda at: float(at[1]) > 2)
    assert point is not None
    assert [float(number) for number in point] == [0.0, 100.0]


def test_the_point_itself_is_not_simpler() -> None:
    assert simplest(POINT, lambda at: at == POINT) is None


def test_what_is_another_thing_at_each_call_has_no_simplest_witness() -> None:
    """A function that reads memory which nobody wrote."""
    calls = iter(range(10**6))
    assert simplest(POINT, lambda at: next(calls) == 1) is None
