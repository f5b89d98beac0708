"""Axes as long as in a call, where the body counts with their lengths."""

from __future__ import annotations

from dataclasses import replace

from gradcheck_cli.infer.real_sizes import with_real_sizes
from gradcheck_cli.inputs.clue import Clue
from tests.infer.fitted import NO_HINTS

HINTS = replace(
    NO_HINTS,
    clues={
        "x": [Clue("the call `f(x, pattern)` in line 9", "f32[d12 d5]")],
        "pattern": [
            Clue("the call `f(x, pattern)` in line 9", "f32[d5 d48]"),
            Clue("the body `x @ pattern[:, :24] + x @ pattern[:, 24:]`"),
        ],
    },
)


def test_only_what_the_body_counts_with_is_as_long_as_it_is() -> None:
    real = with_real_sizes(HINTS)
    assert real is not None
    specs = {name: [clue.spec for clue in each if clue.spec] for name, each in real.clues.items()}
    assert specs == {"x": ["f32[d12 d5]"], "pattern": ["f32[d5 48]"]}


def test_where_the_body_counts_nothing_there_are_none() -> None:
    assert with_real_sizes(replace(HINTS, clues={"x": HINTS.clues["x"]})) is None
    small = [*HINTS.clues["pattern"][:1], Clue("the body `pattern[:, :2]`")]
    assert with_real_sizes(replace(HINTS, clues={"pattern": small})) is None
