"""Stand-ins for tables of integers."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.inputs.names import fixed_by_name, is_data
from gradcheck_cli.inputs.stand_ins import integers, mask, table, tuples


def test_members_of_a_tuple_differ_and_tuples_share_some() -> None:
    triples = tuples((4, 3), 5, 1, "test").value
    assert all(len(set(row)) == 3 for row in triples.tolist())
    assert len(set(triples[:, 0].tolist())) < 4
    assert triples.max() < 5


def test_pairs_may_stand_in_columns() -> None:
    assert tuples((4, 3), 5, 1, "test", least=1).value.min() == 1
    pairs = tuples((2, 6), 4, 0, "test").value
    assert pairs.shape == (2, 6)
    assert (pairs[0] != pairs[1]).all()


def test_a_window_is_a_small_whole_number_by_its_name() -> None:
    assert [fixed.value for fixed in fixed_by_name("window", (3,), None)] == [2, 3, 1]


@pytest.mark.parametrize("count", [2, 3, 4, 6, 30])
def test_a_turned_table_holds_all_its_integers_but_one_of_many(count: int) -> None:
    values = table((2 * count,), count, "test", turn=1, least=-1).value
    absent = set(range(-1, count - 1)) - set(values.tolist())
    assert len(absent) == (count > 3)
    assert -1 not in absent


@pytest.mark.parametrize("shape", [(4, 3), (3, 3), (2, 6, 3), (3, 2, 3, 3)])
def test_a_mask_is_mixed_along_every_axis(shape: tuple[int, ...]) -> None:
    values = mask(shape, "test").value
    for axis, size in enumerate(shape):
        if size > 2:
            assert values.any(axis).all()
            assert (
                not values.all(axis).all() if axis == len(shape) - 1 else not values.all(axis).any()
            )
        assert not (np.take(values, 0, axis) == np.take(values, 1, axis)).all()


@pytest.mark.parametrize("shape", [(2, 3), (2, 4), (4, 3), (4, 5), (2, 6, 3)])
def test_rows_of_a_mask_do_not_all_count_as_many(shape: tuple[int, ...]) -> None:
    counts = mask(shape, "test").value.reshape(-1, shape[-1]).sum(axis=1)
    assert (counts > 1).all()
    assert len(set(counts.tolist())) > 1


def test_short_tables_do_not_repeat_the_same_places() -> None:
    first = table((3,), 4, "test").value
    second = table((3,), 4, "test", turn=1).value
    assert first[0] == first[2]
    assert second[0] != second[2] and len(set(second.tolist())) == 2


@pytest.mark.parametrize("name", ["event", "censored", "observed", "dones", "targets"])
def test_what_was_observed_is_data(name: str) -> None:
    assert is_data(name)


def test_two_rows_of_a_table_differ() -> None:
    edges = table((2, 2), 3, "test").value
    assert edges[0].tolist() != edges[1].tolist()
    assert set(edges.ravel().tolist()) <= {0, 1, 2}


def test_one_integer_of_three_comes_once() -> None:
    """A class of a single row has no pairs."""
    for made in (integers((6,), "test"), table((6,), 3, "test", turn=1)):
        counts = np.unique(made.value, return_counts=True)[1]
        assert (len(counts), counts.min()) == (3, 1)


def test_a_pair_of_rows_repeats_in_tables_that_are_read_together() -> None:
    columns = [
        table((6,), count, "test", turn=turn).value for count, turn in ((5, 0), (3, 1), (4, 2))
    ]
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    assert len(set(rows)) < len(rows)


@pytest.mark.parametrize(("shape", "count", "least"), [((4, 5), 5, -1), ((3, 3), 3, 0)])
def test_rows_do_not_all_hold_the_same_integers(
    shape: tuple[int, int], count: int, least: int
) -> None:
    rows = np.sort(table(shape, count, "here", least=least).value, axis=1)
    assert len({tuple(row) for row in rows}) > 1


@pytest.mark.parametrize("shape", [(6,), (4, 3), (6, 5), (3, 4, 2)])
def test_what_two_masks_mark_hangs_on_neither_of_them(shape: tuple[int, ...]) -> None:
    first, second = (mask(shape, "test", turn).value for turn in (0, 1))
    pairs = set(zip(first.flat, second.flat, strict=True))
    assert {
        (True, True),
        (True, False),
        (False, True),
    } <= pairs  # what is marked in none is no pair of marks


@pytest.mark.parametrize("count", [2, 3])
def test_a_mask_beside_a_table_marks_each_of_its_integers_and_leaves_each_out(count: int) -> None:
    shape = (6, 5)
    marks, numbers = mask(shape, "test", 1).value, table(shape, count, "test", False, 0, 0).value
    pairs = set(zip(marks.flat, numbers.flat, strict=True))
    assert len(pairs) == 2 * count


@pytest.mark.parametrize("size", range(3, 10))
@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("ascending", [False, True])
def test_two_tables_agree_in_some_places_and_differ_in_others(
    size: int, count: int, ascending: bool
) -> None:
    one, two = (table((size,), count, "test", ascending, turn).value for turn in (0, 1))
    assert (one == two).any()
    assert (one != two).any()


@pytest.mark.parametrize("turn", range(1, 6))
@pytest.mark.parametrize("shape", [(2,), (3,), (4,), (2, 3), (1, 3), (3, 2), (2, 2)])
def test_no_later_mask_is_the_first_or_keeps_nothing(shape: tuple[int, ...], turn: int) -> None:
    first, later = (mask(shape, "test", n).value for n in (0, turn))
    assert (first != later).any()
    assert later.any()


@pytest.mark.parametrize("turn", range(6))
def test_what_is_one_is_kept(turn: int) -> None:
    assert mask((1,), "test", turn).value.all()
    assert mask((3, 1), "test", turn).value.any()


@pytest.mark.parametrize("size", range(3, 10))
@pytest.mark.parametrize("count", [2, 3, 4])
def test_three_tables_differ_from_each_other_and_hold_several_integers(
    size: int, count: int
) -> None:
    tables = [table((size,), count, "test", turn=turn).value.tolist() for turn in range(3)]
    assert len({tuple(t) for t in tables}) == 3
    assert all(len(set(t)) > 1 for t in tables)


@pytest.mark.parametrize("shape", [(3,), (4,), (2, 3), (3, 2)])
def test_three_masks_differ_from_each_other(shape: tuple[int, ...]) -> None:
    assert len({mask(shape, "test", turn).value.tobytes() for turn in range(3)}) == 3


@pytest.mark.parametrize("shape", [(4, 5), (3, 5), (6, 10)])
def test_a_table_adds_to_one_place_twice_in_some_column(shape: tuple[int, int]) -> None:
    values = table(shape, shape[0], "test").value
    assert any(len(set(column)) < len(column) for column in values.T.tolist())
    assert len({tuple(row) for row in values.tolist()}) == len(values)
