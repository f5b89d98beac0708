"""Both ends of a range, by their names."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.ends import are_crossed, in_order, is_in_order
from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.inputs.signature import Fixed, Leaf, Signature
from gradcheck_cli.project.input_specs import Bounds

FMT = format_of("float32")


def ordered(low: object, high: object, *names: str) -> list[np.ndarray]:
    rows = [np.asarray(low, float), np.asarray(high, float)]
    leaves = [Leaf(n, r.shape[1:], "test") for n, r in zip(names, rows, strict=True)]
    return in_order(leaves, rows, FMT)


@pytest.mark.parametrize(
    "names",
    [
        ("low", "high"),
        ("min_vals", "max_vals"),
        ("x_lower", "x_upper"),
        ("lo", "hi"),
        ("attach", "detach"),
    ],
)
def test_ends_are_exchanged_where_they_are_the_wrong_way_round(names: tuple[str, str]) -> None:
    low, high = ordered([1.0, 5.0, 2.0], [3.0, 4.0, 2.0], *names)
    assert low.tolist() == [1.0, 4.0, 2.0]
    assert high.tolist() == [3.0, 5.0, 2.03125]


def test_an_end_for_all_is_above_each() -> None:
    low, high = ordered([[1.0, 7.0]], [[[3.0, 5.0], [4.0, 9.0]]], "low", "high")
    assert low.tolist() == [[1.0, 7.0]]
    assert high.tolist() == [[[3.0, 9.0], [4.0, 9.0]]]
    low, high = ordered([[1.0, 7.0]], [3.0], "low", "high")
    assert (low.tolist(), high.tolist()) == ([[1.0, 7.0]], [11.0])


@pytest.mark.parametrize("size", [1e-3, 1.0, 100.0, 1e30])
def test_what_was_put_in_order_once_stays(size: float) -> None:
    rows = ordered([size, 0.0, -size], [size, size * 1.001, size], "low", "high")
    leaves = [Leaf(name, (), "test") for name in ("low", "high")]
    again = in_order(leaves, rows, FMT)
    assert [a.tolist() for a in again] == [r.tolist() for r in rows]
    assert all(is_in_order(leaves, [r[i] for r in rows], FMT) for i in range(3))
    assert not is_in_order(leaves, [np.float64(size), np.float64(size)], FMT)


@pytest.mark.parametrize(
    ("of_low", "of_high"),
    [
        (Bounds(0.0, 1.0), Bounds(0.0, 1.0)),
        (Bounds(0.0, 1.0, True, True), Bounds(0.0, 1.0, True, True)),
        (Bounds(0.0, low_open=True), Bounds(0.0, 1.0, True, True)),
        (Bounds(), Bounds(0.0, 1.0, True, True)),
        (Bounds(0.0), Bounds(0.0)),
        (Bounds(high=0.0), Bounds(high=0.0)),
    ],
)
def test_domains_do_not_turn_the_ends_round(of_low: Bounds, of_high: Bounds) -> None:
    leaves = [
        Leaf("low", (), "test", domain=Domain(of_low)),
        Leaf("high", (), "test", domain=Domain(of_high)),
    ]
    numbers = [-1e9, -3.0, -1.0, -0.5, 0.0, 1e-6, 0.25, 0.999, 1.0, 1.25, 100.0, 1e30]
    rows = [FMT.round(each) for each in zip(*itertools.product(numbers, numbers), strict=True)]
    held = [
        leaf.domain.into(row, FMT) for leaf, row in zip(leaves, rows, strict=True) if leaf.domain
    ]
    low, high = in_order(leaves, held, FMT)
    assert (low < high).all()
    assert Domain(of_low).has(low, FMT)
    assert Domain(of_high).has(high, FMT)


def test_what_is_said_to_be_above_two_others_is_above_both() -> None:
    said = Domain(Bounds(), above=("near", "mid"))
    leaves = [
        Leaf("top", (), "test", domain=said),
        Leaf("mid", (), "test"),
        Leaf("near", (), "test"),
    ]
    rows = [np.array([1.0, 5.0]), np.array([2.0, 1.0]), np.array([3.0, 2.0])]
    top, mid, near = in_order(leaves, rows, FMT)
    assert (top > mid).all()
    assert (top > near).all()


@pytest.mark.parametrize("names", [("left", "right"), ("slow", "high"), ("low", "top")])
def test_other_names_are_left_alone(names: tuple[str, str]) -> None:
    low, high = ordered([5.0], [4.0], *names)
    assert (low.tolist(), high.tolist()) == ([5.0], [4.0])


def test_plain_ends_are_crossed_where_they_leave_no_range() -> None:
    def call(low: object, high: object) -> Signature:
        ends = {"qmin": low, "qmax": high}
        return Signature(tuple((n, Fixed(v, repr(v), "test")) for n, v in ends.items()))

    assert are_crossed(call(3, 3))
    assert not are_crossed(call(-8, 7))
    assert not are_crossed(call(None, 7))


def test_of_no_rows_there_is_nothing_to_order() -> None:
    low, high = ordered(np.zeros((0, 3, 7)), np.zeros((0, 1, 1)), "low", "high")
    assert (low.shape, high.shape) == ((0, 3, 7), (0, 1, 1))
