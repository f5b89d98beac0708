"""Fields of classes: what stands beside them, and what the objects hold that a file makes."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from gradcheck_cli.clues.class_fields import (
    clues_of_objects,
    names_of_dimensions,
    with_signs_of_fields,
)
from gradcheck_cli.clues.reading import read
from gradcheck_cli.inputs.clue import Clue, Kind
from tests.infer.fitted import parameters_of

SOURCE = '''
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Cell(NamedTuple):
    """Weights of a cell. offset: (2 * width,)"""

    mix: "np.ndarray"  # (inputs, 2 * width)
    offset: "np.ndarray"
    gain: "Float[Array, 'width']" = None
    open: "np.ndarray" = None  # bool, False for a gate that is shut


class Law(NamedTuple):
    free: "np.ndarray"  # m/s, speed with nobody around
    jam: "np.ndarray"  # 1/m^2, density at which all stand
    width: "np.ndarray"  # < 3


def speed(x, law: Law):
    return law.free * (x - law.jam) / law.width


class Head(NamedTuple):
    mix: "np.ndarray"
    offset: "np.ndarray"


class Layer:
    pass


class Moved(NamedTuple):
    shift: "np.ndarray"  # either sign


@dataclass
class Block:
    mix: "np.ndarray"
    rate: float

    def __init__(self, n, rank):
        self.mix = np.ones((n, rank))
        self.rate = 0.1


def start(n_in, n_out, rng=0.1):
    return Head(rng * np.ones((n_in, 3 * n_out)), np.zeros(3 * n_out))


def block():
    return Block(4, 2)
'''


@pytest.fixture
def module(tmp_path: Path) -> Iterator[ModuleType]:
    path = tmp_path / "cells_of_a_test.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("cells_of_a_test", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    yield made
    del sys.modules[spec.name]


def specs(cls: type, taken: frozenset[str] = frozenset()) -> dict[str, str]:
    found = clues_of_objects({"p": cls}, taken)
    return {path: next((c.spec for c in clues if c.spec), "") for path, clues in found.items()}


def test_annotations_comments_and_the_docstring_speak_of_fields(module: ModuleType) -> None:
    assert specs(module.Cell) == {
        "p.mix": "f32[inputs 2*width]",
        "p.offset": "f32[2*width]",
        "p.gain": "f32[width]",
        "p.open": "",
    }


def test_what_is_said_of_an_array_is_said_of_its_elements(module: ModuleType) -> None:
    found = clues_of_objects({"p": module.Cell}, ())["p.open"]
    assert [clue.kind for clue in found] == [Kind.ARRAY, Kind.BOOLS]


def test_objects_that_the_file_makes_show_their_fields(module: ModuleType) -> None:
    assert specs(module.Head) == {"p.mix": "f32[n_in 3*n_out]", "p.offset": "f32[3*n_out]"}
    assert specs(module.Block)["p.mix"] == "f32[d4 d2]"


def test_names_that_are_taken_mean_other_sizes(module: ModuleType) -> None:
    found = specs(module.Head, frozenset({"n_in"}))
    assert found["p.mix"] == "f32[n_in_ 3*n_out]"


def test_what_is_said_of_the_numbers_of_a_field_holds(module: ModuleType) -> None:
    found = read(module.speed, parameters_of(module.speed), []).domains
    domains = {path: domain.bounds.text for path, domain in found.items()}
    assert domains == {"law.width": "< 3"}


def test_a_class_without_a_source_says_nothing() -> None:
    assert clues_of_objects({"p": type("Made", (tuple,), {"_fields": ("w",)})}, ()) == {}


def test_the_names_of_dimensions_are_those_in_brackets() -> None:
    assert names_of_dimensions({"x": [Clue("", "f32[n 2*d] in 0..k"), Clue("")]}) == {"n", "d"}


def test_what_is_said_of_all_inputs_is_not_of_fields_of_either_sign(module: ModuleType) -> None:
    said = {"p": [Clue("a docstring", domain="> 0", for_all=True)]}
    assert not with_signs_of_fields(said, {"p": module.Moved})["p"][0].for_all
    assert with_signs_of_fields(said, {"p": module.Head})["p"][0].for_all
