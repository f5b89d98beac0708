"""A signed logarithmic axis."""

from __future__ import annotations

import itertools

import pytest

from gradcheck_cli.report.picture.axis import Axis

WIDE = Axis.over([-1000.0, -0.01, 0.0, 0.01, 1000.0], 0.0, 600.0)


def test_the_ends_and_zero_have_their_places() -> None:
    assert [WIDE.place(v) for v in (-1000.0, 0.0, 1000.0)] == [0.0, 300.0, 600.0]


def test_decades_are_alike() -> None:
    one, ten, hundred = (WIDE.place(v) for v in (1.0, 10.0, 100.0))
    assert hundred - ten == pytest.approx(ten - one)


def test_near_zero_it_is_linear() -> None:
    assert WIDE.place(0.005) - 300 == pytest.approx((WIDE.place(0.01) - 300) / 2)


def test_what_lies_outside_is_at_the_end() -> None:
    assert WIDE.place(1e30) == 600.0
    assert WIDE.place(float("-inf")) == 0.0


def test_a_number_next_to_zero_does_not_take_the_room() -> None:
    assert Axis.over([0.0, 1e-45, 1.0, 10.0], 0.0, 100.0).near == 1.0


def test_labels_are_no_closer_than_can_be_read() -> None:
    axis = Axis.over([-1e9, 1e-9, 0.0, 1e9], 34.0, 708.0)
    places = sorted(axis.place(value) for value, _ in axis.ticks())
    assert min(b - a for a, b in itertools.pairwise(places)) > 40
    assert [text for _, text in axis.ticks()][:3] == ["0", "-1e-6", "1e-6"]


def test_an_axis_of_one_number_has_a_middle() -> None:
    assert Axis.over([3.0], 0.0, 10.0).place(3.0) == 5.0
