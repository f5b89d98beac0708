"""Integers for what a text takes as places."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.discover.place_tables import pairs, places


@pytest.mark.parametrize(
    "written",
    [
        "counts = jnp.bincount(house, length=n)",
        "total = jax.ops.segment_sum(x, house, n)",
        "y = tf.gather(x, house, axis=1)",
        "return x - effects[house]",
    ],
)
def test_what_is_taken_for_places_gets_some_more_than_once(written: str) -> None:
    (table,) = places("house", written)
    assert table.dtype == np.int32
    assert set(table.tolist()) == {0, 1, 2}
    assert len(table) > 3


def test_what_is_unpacked_in_pairs_gets_pairs() -> None:
    (each,) = pairs("ends", "first = [a for a, _ in ends]")
    assert all(len(pair) == 2 for pair in each)
    assert not pairs("ends", "first = [a for a in ends]")


@pytest.mark.parametrize("written", ["y = house[0]", "z = [house]", "tf.gather(house, x)"])
def test_what_is_no_place_gets_nothing(written: str) -> None:
    assert places("house", written) == []


@pytest.mark.parametrize(
    "written",
    [
        "sink = np.bincount(ends[:, 0], minlength=n)",
        "idx = tf.constant(ends, tf.int32); src = ends[:, 0]",
        "y = x[ends[:, 0]] - x[ends[:, 1]]",
    ],
)
def test_columns_that_are_places_get_pairs(written: str) -> None:
    (table,) = pairs("ends", written)
    assert (table.dtype, table.shape[1]) == (np.int32, 2)


def test_columns_of_numbers_get_none() -> None:
    assert pairs("ends", "width = ends[:, 1] - ends[:, 0]") == []


def test_what_ends_below_zero_in_a_tree_gets_one() -> None:
    (tree,) = places("above", "while above[node] >= 0: node = above[node]  # up the tree")
    assert tree.tolist().count(-1) == 1
    assert all(0 <= over < node for node, over in enumerate(tree.tolist()) if over >= 0)
    assert places("above", "kept = x[above >= 0]") == []
