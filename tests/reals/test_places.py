"""Writes at computed places: in turns, so that each turn writes to an element once."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.reals.rules.places import OUTSIDE, in_turns


def test_a_turn_writes_to_no_element_twice_and_turns_keep_the_order() -> None:
    places = np.array([[2, 0, 2, OUTSIDE, 2], [1, 1, 0, 3, OUTSIDE]])
    turns = list(in_turns(places))
    for rows, targets, _ in turns:
        assert len({*zip(rows.tolist(), targets.tolist(), strict=True)}) == len(rows)
    written = [[(r, t, c) for r, t, c in zip(*turn, strict=True)] for turn in turns]
    assert written == [
        [(0, 0, 1), (0, 2, 0), (1, 0, 2), (1, 1, 0), (1, 3, 3)],
        [(0, 2, 2), (1, 1, 1)],
        [(0, 2, 4)],
    ]


def test_what_lies_outside_is_written_in_no_turn() -> None:
    assert list(in_turns(np.full((2, 3), OUTSIDE))) == []
