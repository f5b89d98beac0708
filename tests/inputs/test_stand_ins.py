"""Stand-ins for tables of integers."""

from __future__ import annotations

from gradcheck_cli.inputs.names import fixed_by_name
from gradcheck_cli.inputs.stand_ins import tuples


def test_members_of_a_tuple_differ_and_tuples_share_some() -> None:
    triples = tuples((4, 3), 5, 1, "test").value
    assert all(len(set(row)) == 3 for row in triples.tolist())
    assert len(set(triples[:, 0].tolist())) < 4
    assert triples.max() < 5


def test_pairs_may_stand_in_columns() -> None:
    pairs = tuples((2, 6), 4, 0, "test").value
    assert pairs.shape == (2, 6)
    assert (pairs[0] != pairs[1]).all()


def test_a_window_is_a_small_whole_number_by_its_name() -> None:
    assert [fixed.value for fixed in fixed_by_name("window", (3,), None)] == [2, 3, 1]
