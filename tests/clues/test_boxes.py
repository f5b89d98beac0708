"""Arrays of boxes, by the words of a text."""

from __future__ import annotations

from typing import Any

import pytest

from gradcheck_cli.clues.boxes import clues
from gradcheck_cli.inputs.clue import Clue

STATED = {"pred": [Clue("a docstring", spec="f32[n 4]")], "weight": [Clue("a docstring", spec="f32[n]")], "deltas": [Clue("a docstring", spec="f32[n 4]")]}  # fmt: skip


def by_format(pred: Any, weight: Any) -> Any:
    """IoU of paired xyxy boxes, pred: (n, 4), weight: (n,)."""


def by_names(pred: Any, weight: Any) -> Any:
    """pred: (n, 4) as (x_min, y_min, x_max, y_max)."""


def by_body(pred: Any, weight: Any) -> Any:
    x1, y1, x2, y2 = pred.unbind(-1)
    return weight * (x2 - x1) * (y2 - y1)


def by_centres(pred: Any, weight: Any) -> Any:
    """pred: (n, 4) as (cx, cy, w, h)."""


@pytest.mark.parametrize(
    ("function", "expected"),
    [(by_format, {"pred"}), (by_names, {"pred"}), (by_body, {"pred"}), (by_centres, set())],
)
def test_corners(function: Any, expected: set[str]) -> None:
    found = clues([function], STATED)
    assert found.keys() == expected
    assert all(clue.domain == "in boxes" for clue in found.values())
