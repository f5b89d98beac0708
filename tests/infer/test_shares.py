"""Axes of which others are shares."""

from __future__ import annotations

from gradcheck_cli.infer.shares import in_shares
from gradcheck_cli.infer.template import Hole


def shared(*dims: tuple[str, ...]) -> list[tuple[str, ...] | None]:
    return [hole.dims for hole in in_shares([Hole("x", "float", each) for each in dims])]


def test_a_half_is_the_unit() -> None:
    assert shared(("T", "R+E"), ("L", "R//2")) == [("T", "2*R_part+E"), ("L", "R_part")]


def test_halves_and_quarters_have_one_unit() -> None:
    found = shared(("3*n",), ("n//2+1",), ("n//4",))
    assert found == [("12*n_part",), ("2*n_part+1",), ("n_part",)]


def test_what_nothing_divides_stays() -> None:
    assert shared(("n", "2*n-1", "h*w"), ("k//m",)) == [("n", "2*n-1", "h*w"), ("k//m",)]
