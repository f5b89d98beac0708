"""Tables of which a text promises that no two places are one."""

from __future__ import annotations

import pytest

from gradcheck_cli.clues.docstrings import read_text
from gradcheck_cli.clues.documentation import Text


@pytest.mark.parametrize(
    "text",
    [
        "ids: int (2, e), the rows and columns; every cell is named at most once.",
        "ids: int (3, e), unique triples.",
        "ids: (k,) distinct row indices",
        "ids: (I, J) int64; row i lists the zones from the nearest on.",
        "Reorders x by ids, a permutation of 0..n-1.",
        "ids: integer array (k,) without repeats",
        "ids: (k,) integers, no two of them alike",
        "ids: (k,) int, all different",
        "ids: (b, k) int, in each row distinct ids below v",
        "ids: (k,) int; no id appears twice",
        "ids: (k,) int, distinct and below v",
    ],
)
def test_promised(text: str) -> None:
    assert read_text(Text("here", text, near=True), ["x", "ids"])["ids"].distinct


@pytest.mark.parametrize(
    "text",
    [
        "ids: (k,) integers, which need not be distinct indices",
        "ids: (k,) int, not necessarily unique",
        "ids: (k,) integers of the k distinct groups",
        "ids: (k,) integers that may name a row at most once or more",
        "ids: (k,) integers; the number of unique ids is small",
        "ids: (k,) integers",
        "ids: (k,) int below v; they don't have to be unique.",
        "ids: (k,) int below v, which aren't all distinct.",
        "ids: (k,) int; there is no requirement that they be distinct.",
        "ids: (k,) int, which of the v distinct nodes each edge begins at",
        "ids: (k,) int, indices into the unique rows of the table",
        "ids: (k,) int, one of v classes, each class has a unique id",
        "ids: (k,) int; each of them is looked up exactly once",
        "ids: (k,) int. No duplicates are merged: each counts.",
        "ids: (k,) int, rows drawn with or without replacement",
        "ids: (k,) int with k unique ids among them",
        "ids: int (k,), unique indices are faster",
        "ids: int (k,), a permutation or any selection with repeats",
        "ids: int (k,); without repeats, a plain gather, with them a row is used more often",
        "ids: int (k,), unique, or with repeats",
        "ids: int (k,), the row of each sample, samples are distinct",
        "ids: int (k,), no row is read twice in a row",
        "ids: int (k,), no two rows equal in weight",
        "ids: int (k,), the permutation is applied later",
        "ids: (m,) int, lists the rows from which to read.",
        "ids: (n,) int, orders the rows by increasing distance class.",
        "ids: int (k,), no repeats, hopefully",
    ],
)
def test_not_promised(text: str) -> None:
    assert not read_text(Text("here", text, near=True), ["x", "ids"])["ids"].distinct
