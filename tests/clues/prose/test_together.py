"""Shapes that a text gives without a name, and what stands in brackets behind one."""

from __future__ import annotations

import pytest

from gradcheck_cli.clues.docstrings import read_text
from gradcheck_cli.clues.documentation import Text
from gradcheck_cli.inputs.clue import Clue, Kind


def read(text: str, *names: str) -> dict[str, Clue]:
    return read_text(Text("here", text, near=True), names)


@pytest.mark.parametrize(
    ("text", "specs"),
    [
        ("Scores of (days, names) within universe (bool, same shape).", ("f32[days names]", "bool[days names]")),
        ("Maximum over tokens: (B, L, V), bool (B, L) -> (B, V).", ("f32[B L V]", "bool[B L]")),
        ("Rows of a table: (K, D), int64 (B, L) -> (B, D).", ("f32[K D]", "i32[B L]")),
        ("Curvature along (..., n, 2) polylines.", ("f32[lead n 2]", "")),
        ("Args:\n    x: Logits of the first pass, ``(batch, time)``.\n", ("f32[batch time]", "")),
        ("Scores of (easy, hard) rows.", ("", "")),
        ("``f(x, universe)`` with shapes (B, N, 2), (B,), giving (B,).", ("f32[B N 2]", "f32[B]")),
        ("f(x, universe) of shapes [T, D] and [D].", ("f32[T D]", "f32[D]")),
        ("f(x, universe) with shapes (B, N), (B,), (N,).", ("", "")),
        ("Universe of the raster [G, 2] flagged gets nothing.", ("", "f32[G 2]")),
        ("Takes ``x`` [S, 2] and ``universe`` [2], giving [S, T].", ("f32[S 2]", "f32[2]")),
        ("Takes ``x`` [S, 2], of universe [2] nothing.", ("f32[S 2]", "")),
        ("Pooled: bool (B, L), (B, L, V) -> (B, V).", ("bool[B L]", "f32[B L V]")),
        ("universe is an int. All other arguments are (n, d) arrays.", ("f32[n d]", "3")),
    ],
)  # fmt: skip
def test_shapes_without_names(text: str, specs: tuple[str, str]) -> None:
    said = read(text, "x", "universe")
    assert tuple(said[n].spec if n in said else "" for n in ("x", "universe")) == specs


def test_what_is_alike_in_brackets() -> None:
    said = read("Scores of x inside universe (bool, same shape as x).", "x", "universe")
    assert (said["universe"].kind, said["universe"].alike) == (Kind.BOOLS, "x")
