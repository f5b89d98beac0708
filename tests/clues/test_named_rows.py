"""Arrays that go along a row of numbers that has a name."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.clues.named_rows import clues, with_lengths
from gradcheck_cli.inputs.clue import Clue, Kind

SPEEDS = (11.0, 16.0, 22.0, 31.0)
CHANNEL_EDGES = np.linspace(0, 1, 7)
ENDS = (0.0, 1.0)
WORDS = ("a", "b", "c")


def test_a_table_at_a_row_is_as_long() -> None:
    def read(table: Any, gains: Any, span: Any, words: Any, x: Any) -> None:
        """Reads a table.

        ``table`` holds the logarithm at ``SPEEDS``.

        Args:
            gains: one for each of CHANNEL_EDGES.
            span: at ENDS.
            words: one for each of WORDS.
            x: any shape.
        """

    found = clues(read, ["table", "gains", "span", "words", "x"])
    assert {name: clue.spec for name, clue in found.items()} == {"table": "f32[4]", "gains": "f32[7]"}  # fmt: skip
    assert found["table"].source == "the docstring `at SPEEDS`"


def test_an_axis_that_is_called_as_a_row_is_as_long() -> None:
    knots = np.linspace(0, 1, 5)

    def read(table: Any, distance: Any, depths: Any = (1.0, 2.0, 4.0)) -> Any:
        return table, distance, depths, knots

    stated = {
        "table": [Clue("test", "f32[lies knots]", kind=Kind.ARRAY)],
        "distance": [Clue("test", "f32[n depths]"), Clue("test", "f32[]")],
    }
    specs = {n: [c.spec for c in each] for n, each in with_lengths(stated, read).items()}
    assert specs == {"table": ["f32[lies 5]"], "distance": ["f32[n 3]", "f32[]"]}
