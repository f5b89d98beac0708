"""Objects that are made of the fields of their class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from gradcheck_cli.infer.objects import objects
from gradcheck_cli.inputs.signature import Built, Fixed, Hints, Leaf


class Bands(NamedTuple):
    gain: float
    ends: Sequence[int]
    sizes: tuple[int, int]
    weights: Any
    table: np.ndarray[tuple[int, int], np.dtype[np.float32]]
    spans: dict[str, tuple[int, int]]


@pytest.mark.parametrize("held", [False, True])
def test_fields_of_several_whole_numbers_are_tuples_of_these(held: bool) -> None:
    hints = Hints({}, {}, [], classes={"bands": Bands}, objects_are_held=held)
    (made,) = objects("bands", (3,), hints)
    assert isinstance(made, Built)
    parts = dict(zip(made.fields, made.parts, strict=True))
    assert {name: part.value for name, part in parts.items() if name in ("ends", "sizes")} == {
        "ends": (2, 5, 7),
        "sizes": (5, 2),
    }
    assert isinstance(parts["weights"], Fixed if held else Leaf)
    assert not any(isinstance(getattr(parts[n], "value", None), tuple) for n in ("table", "spans"))
