"""Values as a file writes them; nothing of it is run but constructors of its classes."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.discover.written_values import Scope, UnreadableError
from gradcheck_cli.subject.user_code import UserCodeError


@dataclass(frozen=True)
class Survey:
    spacing: float
    places: Any = None


Survey.__module__ = "wells"

MODULE = ModuleType("wells")
vars(MODULE).update(np=np, Survey=Survey, SIZE=4, load=lambda: 1 / 0)

FUNCTION = """
def demo(seed=3, *, scale=2.0, given):
    rng = np.random.default_rng(seed)
    nlat, nlon = 10, 18
    shape = (nlat, nlon)
    rows, columns = np.zeros(shape).shape
    twice = 1
    twice = 2
    for step in range(3):
        pass
    field = np.ones(shape) * scale
"""


def read(expression: str) -> Any:
    (function,) = ast.parse(FUNCTION).body
    assert isinstance(function, ast.FunctionDef)
    return Scope(MODULE, (function,)).value(ast.parse(expression, mode="eval").body)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("-2.5", -2.5),
        ("SIZE + 1", 5),
        ("(nlat, nlon - 1, [seed])", (10, 17, [3])),
        ("{'a': scale}", {"a": 2.0}),
        ("rows * columns", 180),
        ("shape[-1]", 18),
        ("np.arange(6).reshape(2, 3)[0].tolist()", [0, 1, 2]),
        ("field.shape", (10, 18)),
        ("tuple(range(3))", (0, 1, 2)),
        ("Survey(10.0, places=(1, 2))", Survey(10.0, (1, 2))),
    ],
)
def test_what_is_written_is_read(expression: str, value: Any) -> None:
    assert read(expression) == value


def test_random_numbers_of_a_seed_are_those_that_the_file_would_draw() -> None:
    expected = np.random.default_rng(3).uniform(-40, 40, 60)
    assert np.array_equal(read("rng.uniform(-40, 40, 60)"), expected)


@pytest.mark.parametrize(
    "expression",
    [
        "load()", "given", "twice", "step", "unknown", "np.save('x', 1)", "np.zeros((1 << 30,))", "open('x')",
        "[n for n in shape]", "(lambda: 1)()", "Survey(**{})", "__import__('os')", "np.zeros((2000, 2000))",
    ],
)  # fmt: skip
def test_what_would_have_to_be_run_is_not_read(expression: str) -> None:
    with pytest.raises(UnreadableError):
        read(expression)


def test_what_raises_is_the_users() -> None:
    with pytest.raises(UserCodeError):
        read("SIZE / 0")
