"""Shapes whose sizes can be divided."""

from __future__ import annotations

from gradcheck_cli.infer.divisible import divisible
from gradcheck_cli.inputs.clue import Clue


def test_sizes_grow_until_they_can_be_divided() -> None:
    assert divisible((3, 4), [Clue("", factor=2)]) == (6, 4)
    assert divisible((3, 5), [Clue("", last=("3*n",))]) == (3, 15)
    assert divisible((3, 5), [Clue("", first=("2*n",))]) == (6, 5)


def test_what_has_fewer_axes_than_are_named_stays() -> None:
    assert divisible((), [Clue("", last=("3*n",))]) == ()
    assert divisible((5,), [Clue("", last=("", "3*n"))]) == (5,)
