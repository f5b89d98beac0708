"""Integers whose places in a table do not count: what the text compares a table with."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.clues.left_out import (
    left_out,
    marked_below_zero,
    outside,
    paired,
    told_below_zero,
)

NAMES = ("probs", "labels", "void", "smooth")


def test_what_a_table_is_compared_with_is_one() -> None:
    def dice(probs: Any, labels: Any, void: int = 255, smooth: float = 1.0) -> Any:
        return np.where(labels == void, 0.0, probs) + smooth

    assert left_out([dice], NAMES) == {"labels", "void"}


def test_a_call_that_compares_says_the_same() -> None:
    def dice(probs: Any, labels: Any, void: int = 255, smooth: float = 1.0) -> Any:
        return probs * np.not_equal(labels, void) + smooth

    assert "void" in left_out([dice], NAMES)


def test_what_a_constant_is_compared_with_is_none() -> None:
    def dice(probs: Any, labels: Any, void: int = 255, smooth: float = 1.0) -> Any:
        return probs if smooth == 0.0 else probs * (labels != -1)

    assert left_out([dice], NAMES) == frozenset()


def test_numbers_below_zero_are_asked_for_on_either_side() -> None:
    def clicks(probs: Any, labels: Any, void: int = 255, smooth: float = 1.0) -> Any:
        return np.where(labels < 0, 0.0, probs) + (smooth > 1) + (void >= 0)

    assert marked_below_zero([clicks], NAMES) == {"labels", "void"}


UNKNOWN = -1


def test_the_module_may_have_a_name_for_what_is_below_zero() -> None:
    def clicks(probs: Any, labels: Any, void: int = 255, smooth: float = 1.0) -> Any:
        return probs * np.not_equal(labels, UNKNOWN) * (void != UNKNOWN) + np.equal(smooth, 0)

    assert marked_below_zero([clicks], NAMES) == {"labels", "void"}


def test_a_size_that_is_compared_with_zero_asks_for_nothing_below() -> None:
    def clicks(probs: Any, labels: Any, void: int = 255, smooth: float = 1.0) -> Any:
        return probs if void > 0 and smooth == 0 else labels

    assert marked_below_zero([clicks], NAMES) == frozenset()


def test_what_an_entry_says_of_minus_one() -> None:
    def f(x: Any, bus: Any, axis: Any, last: Any, tail: Any, head: Any) -> None:
        """Sums.

        Args:
            x: [n, d], in [0, n-1], reshaped to (..., -1).
            bus: int array [n], and -1 mutes the row.
            axis: which one, axis=-1.
            last: integers [n], `-1` = padding.
            tail: integers [n], padded with -1.
            head: class ids along dim -1, never -1; -1 is not allowed.
        """

    names = ["x", "bus", "axis", "last", "tail", "head"]
    assert told_below_zero(f, names) == {"bus", "last", "tail"}


def test_a_table_is_compared_with_itself() -> None:
    def loss(probs: Any, labels: Any, void: int = 255, smooth: float = 1.0) -> Any:
        same = labels[:, None] == labels[None, :]
        near = np.equal(np.expand_dims(void, 0), void)
        return probs * same * near * (probs == smooth)

    assert paired([loss], NAMES) == {"labels", "void"}


def test_a_method_compares_its_array_too() -> None:
    def loss(probs: Any, labels: Any, void: int = 255, smooth: float = 1.0) -> Any:
        return probs * labels.unsqueeze(0).ne(labels.unsqueeze(1))

    assert paired([loss], NAMES) == {"labels"}


def test_tables_that_may_hold_integers_which_name_no_place() -> None:
    def spread(x: Any, seg: Any, ids: Any, bins: Any, rows: Any) -> Any:
        """Sums.

        Args:
            x: [n, d].
            seg: (n,) group of each row; numbers that are no group are dropped.
            ids: (n,) cluster of each row; not all numbers need occur.
            bins: (n,) the bin of each row.
            rows: (n,) the row of each.
        """
        return np.where(bins < 5, x, 0.0) + ids + seg + rows

    names = ("x", "seg", "ids", "bins", "rows")
    assert outside([spread], names, spread) == {"seg", "bins"}


def test_where_places_outside_are_dropped_any_table_may_hold_some() -> None:
    def spread(x: Any, ids: Any) -> Any:
        return x.at[ids].add(1.0, mode="drop")

    assert outside([spread], ("x", "ids"), spread) == {"x", "ids"}


NO_CELL = -1
NO_LABEL = -100


def test_a_mark_may_have_a_name() -> None:
    def pooled(cells: Any, labels: Any, ids: Any) -> None:
        """Pools.

        Args:
            cells: (words,) int cell of each word, ``NO_CELL`` for words outside the table.
            labels: (words,) int, NO_LABEL for none.
            ids: (words,) int.
        """

    assert told_below_zero(pooled, ("cells", "labels", "ids")) == {"cells"}


def test_what_is_counted_may_come_once() -> None:
    library: Any = np

    def spread(probs: Any, labels: Any, void: Any, smooth: Any) -> Any:
        _, who = library.unique(labels, return_inverse=True)
        size = library.segment_sum(library.ones_like(probs), void)
        return who, size, library.segment_sum(probs, smooth)

    assert paired([spread], NAMES) == {"labels", "void"}
