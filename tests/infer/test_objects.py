"""Objects that are made of the fields of their class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from gradcheck_cli.infer.objects import configurations, objects, of_no_class
from gradcheck_cli.inputs.clue import Clue, Kind
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


class Basin(NamedTuple):
    area: float = 3200.0
    calm: float = 0.01


def test_a_named_tuple_of_numbers_with_defaults_is_a_configuration_where_it_is_held() -> None:
    held = Hints({}, {}, [], classes={"basin": Basin}, objects_are_held=True)
    assert objects("basin", (), held) == []
    assert configurations("basin", held)[0].value == Basin()
    open_ = Hints({}, {}, [], classes={"basin": Basin})
    assert configurations("basin", open_) == []
    assert isinstance(objects("basin", (), open_)[0], Built)


def test_an_object_of_no_class_has_numbers_by_the_names_of_its_attributes() -> None:
    read = frozenset({"scale", "axis", "lo", "hi"})
    hints = Hints({}, {}, [], attributes={"cfg": read})
    made = of_no_class("cfg", hints)
    assert [each.text for each in made] == [
        "cfg(lo=0.5, axis=-1, scale=1.25, hi=1.625)",
        "cfg(lo=2, axis=-1, scale=4, hi=5)",
    ]
    assert all(each.invented for each in made)
    assert of_no_class("x", hints) == []


class Layer(NamedTuple):
    scale: float
    name: str
    mode: str


def test_fields_that_are_words_are_those_that_are_known_or_their_own_names() -> None:
    word = Clue("its annotation", kind=Kind.WORD)
    of_mode = Clue("the body", kind=Kind.WORD, values=("fan", "full"))
    clues = {"cfg.name": [word], "cfg.mode": [word, of_mode]}
    (made,) = objects("cfg", (3,), Hints({}, {}, [], classes={"cfg": Layer}, clues=clues))
    parts = dict(zip(made.fields, made.parts, strict=True))
    assert (parts["name"].value, parts["mode"].value) == ("name", "fan")
