"""Stand-ins for arguments that are not differentiated and have no telling name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcheck_cli.inputs.signature import Fixed

_SOURCE = "probing"


def static_stand_ins(
    shape: tuple[int, ...], functions: list[tuple[str, Callable[..., Any]]]
) -> list[Fixed]:
    """Values that commonly fill a non-differentiated argument."""
    values = [
        Fixed(0.5, "0.5", _SOURCE),
        Fixed(2, "2", _SOURCE),
        Fixed(True, "True", _SOURCE),
    ]
    values += [Fixed(function, name, _SOURCE) for name, function in functions]
    values += [
        Fixed(np.ones(shape, np.float32), f"ones{list(shape)}", _SOURCE),
        Fixed(np.zeros(shape, np.int32), f"i32{list(shape)}", _SOURCE),
        Fixed(None, "None", _SOURCE),
        Fixed((), "()", _SOURCE),
    ]
    return values


def whole_numbers(shape: tuple[int, ...]) -> list[Fixed]:
    """Small whole numbers, as places in an array are: an array, a single one, a Python number."""
    return [*(integers(s, _SOURCE) for s in dict.fromkeys((shape, shape[:1], ()))), Fixed(1, "1", _SOURCE)]  # fmt: skip


def integers(shape: tuple[int, ...], source: str) -> Fixed:
    """An integer array of 0, 2 and 1 in turn."""
    size = int(np.prod(shape, dtype=int))
    values = (np.arange(size) * 2 % 3).astype(np.int32).reshape(shape)
    return Fixed(values, f"i32{list(shape)}", source)
