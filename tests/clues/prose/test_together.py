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
        ("Takes ``x`` [S, 2] and ``universe`` [2], giving [S, T].", ("f32[S 2]", "f32[2]")),
        ("Takes ``x`` [S, 2], of universe [2] nothing.", ("f32[S 2]", "")),
        ("Pooled: bool (B, L), (B, L, V) -> (B, V).", ("bool[B L]", "f32[B L V]")),
        ("universe is an int. All other arguments are (n, d) arrays.", ("f32[n d]", "3")),
    ],
)  # fmt: skip
def test_shapes_without_names(text: str, specs: tuple[str, str]) -> None:
    said = read(text, "x", "universe")
    assert tuple(said[n].spec if n in said else "" for n in ("x", "universe")) == specs


def test_what_begins_a_sentence_in_the_plural() -> None:
    said = read("Cells of the raster [G, 2] that are flagged get nothing.", "cells", "angle")
    assert said["cells"].spec == "f32[G 2]"
    assert "angle" not in read("Angle of the points [N, 2] is changed.", "cells", "angle")
    assert "cells" not in read("Cells of the grid [x, y] are shifted.", "cells", "angle")


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("Takes x [N, 3] and temperature [kelvin], one for all.", ""),
        ("Takes x [N, 3] and temperature [K].", ""),
        ("Takes x [N, 3] and temperature [N].", "f32[N]"),
        ("Takes x [N, 3] and temperature [12]; see [12].", ""),
    ],
)
def test_a_single_axis_in_a_list_is_no_unit_and_no_citation(text: str, spec: str) -> None:
    said = read(text, "x", "temperature")
    assert (said["temperature"].spec if "temperature" in said else "") == spec


def test_what_is_alike_in_brackets() -> None:
    said = read("Scores of x inside universe (bool, same shape as x).", "x", "universe")
    assert (said["universe"].kind, said["universe"].alike) == (Kind.BOOLS, "x")
