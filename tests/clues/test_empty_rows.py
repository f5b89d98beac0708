"""Whether a function speaks of rows of a mask that are empty."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.clues.empty_rows import speaks_of_empty_rows


def plain(x: Any, mask: Any) -> Any:
    return np.where(mask, x, 0.0).sum(-1) / mask.sum(-1)


def guarded(x: Any, mask: Any) -> Any:
    return np.where(mask, x, 0.0).sum(-1) / np.maximum(mask.sum(-1), 1)


def filled(x: Any, mask: Any) -> Any:
    return np.maximum(np.where(mask, x, -1e9), 0.0)


@pytest.mark.parametrize(
    ("function", "text", "speaks"),
    [
        (plain, "mask: (b, n) bool.", False),
        (plain, "mask: (b, n) bool; rows without a true entry give 0.", True),
        (plain, "mask: (b, n) bool; an empty row gives 0.", True),
        (guarded, "mask: (b, n) bool.", True),
        (guarded, "mask: (b, n) bool; the count is at least one.", True),
        (guarded, "mask: (b, n) bool; not all tokens are valid.", True),
        (guarded, "mask: (b, n) bool; each row has some padding.", True),
        (guarded, "mask: (b, n) bool, at least one per row.", False),
        (guarded, "mask: (b, n) bool; no row is empty.", False),
        (guarded, "Every row has at least one valid entry.", False),
        (filled, "mask: (b, n) bool.", False),
    ],
)
def test_what_speaks_of_them(function: Any, text: str, speaks: bool) -> None:
    function.__doc__ = text
    assert speaks_of_empty_rows(function, []) is speaks
