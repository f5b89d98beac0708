"""Tables of which no two places are one."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.inputs.distinct_places import distinct_places, leave_room


@pytest.mark.parametrize("size", [3, 4, 5, 6, 7])
def test_a_permutation_is_not_its_own_inverse(size: int) -> None:
    order = distinct_places((size,), size, "here").value
    assert sorted(order) == list(range(size))
    assert list(order[order]) != list(range(size))


def test_rows_are_orders_of_their_own() -> None:
    rows = distinct_places((3, 5), 5, "here").value
    assert all(sorted(row) == [0, 1, 2, 3, 4] for row in rows)
    assert len({tuple(row) for row in rows}) == 3


@pytest.mark.parametrize("count", [3, 5, 8])
def test_pairs_along_an_axis_differ(count: int) -> None:
    pairs = distinct_places((2, 7), count, "here", axis=0, least=1).value
    assert len(np.unique(pairs, axis=1).T) == 7
    assert pairs.min() >= 1
    assert pairs.max() <= count


def test_pairs_share_no_row_and_no_column_where_there_are_enough() -> None:
    pairs = distinct_places((5, 2), 6, "here", axis=1).value
    assert all(len(set(column)) == 5 for column in pairs.T)


def test_there_has_to_be_a_place_for_each() -> None:
    assert leave_room((4,), 4)
    assert not leave_room((5,), 4)
    assert leave_room((2, 9), 3, axis=0)
    assert not leave_room((2, 10), 3, axis=0)
    assert not leave_room((), 4)


@pytest.mark.parametrize("size", [4, 5, 6, 7])
def test_two_permutations_do_not_commute(size: int) -> None:
    one, other = (distinct_places((size,), size, "here", turn=turn).value for turn in (0, 1))
    assert list(one[other]) != list(other[one])
    assert list(one[other]) != list(range(size))


def test_pairs_of_a_place_with_itself_come_last() -> None:
    pairs = distinct_places((6, 2), 3, "here", axis=1).value
    assert all(first != second for first, second in pairs)


@pytest.mark.parametrize(("shape", "axis"), [((0,), None), ((3, 0), None), ((2, 0), 0)])
def test_where_nothing_is_there_is_no_room(shape: tuple[int, ...], axis: int | None) -> None:
    assert not leave_room(shape, 4, axis)


def test_many_rows_are_ordered_too() -> None:
    rows = distinct_places((1200, 3), 4, "here").value
    assert all(len(set(row)) == 3 for row in rows.tolist())
