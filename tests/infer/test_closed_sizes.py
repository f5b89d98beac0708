"""Sizes that a rule closes over."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.infer.closed_sizes import closed_sizes


class Layers:
    def __init__(self) -> None:
        self.first, self.layers, self.name = np.zeros((5, 1)), 36, "core"


class Odd:
    __slots__ = ()

    @property
    def shape(self) -> Any:
        raise RuntimeError

    def __array__(self) -> Any:
        raise TypeError


def test_numbers_and_arrays_in_cells_and_objects() -> None:
    held, width, odd, layers, marks = Layers(), 7, Odd(), 1, (True,) * 11

    def rule(g: Any) -> Any:
        return held, width, odd, layers, marks

    def own(g: Any, steps: int) -> Any:
        return g.size

    assert closed_sizes([rule], {}) == {5, 36, 7, 11}
    assert closed_sizes([rule, own], {"layers": 9, "steps": 4}) == {5, 36, 7, 9, 11}
