"""A method is checked with an object made for it."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gradcheck_cli.discover.methods import attribute
from tests.conftest import check_json

NORMAL = """
import jax.numpy as jnp


class Normal:
    def __init__(self, mu, sigma, *, validate=None):
        self.mu, self.sigma = mu, sigma

    def log_prob(self, value):
        z = (value - self.mu) / self.sigma
        return -0.5 * z * z - jnp.log(self.sigma)

    @staticmethod
    def half(x):
        return x / 2
"""


class Line:
    def __init__(self, slope: float, x: float, *, name: str = "line") -> None:
        self.slope, self.x = slope, x

    def at(self, x: float, scale: float = 1.0) -> float:
        return self.slope * (x - self.x) * scale

    @staticmethod
    def half(x: float) -> float:
        return x / 2


def of_line(name: str) -> Any:
    module = ModuleType("lines")
    vars(module)["Line"] = Line
    return attribute(module, name)


def test_an_object_is_made_from_what_its_constructor_needs() -> None:
    method = of_line("Line.at")
    assert method(3.0, 1.0, 2.0) == 3.0
    assert list(inspect.signature(method).parameters) == ["slope", "x", "x_"]


def test_a_static_method_and_a_class_are_themselves() -> None:
    assert of_line("Line.half") is Line.half
    assert of_line("Line") is Line
    assert of_line("Line.gone") is None
    assert of_line("Gone.at") is None


@pytest.mark.slow  # starts cgcheck in a process of its own
def test_a_method_is_judged_in_what_its_object_is_made_of(tmp_path: Path) -> None:
    (tmp_path / "normal.py").write_text(NORMAL)
    run = check_json("normal.py:Normal.log_prob", cwd=tmp_path)
    (gradient,) = run.report["gradients"]
    assert gradient["verdict"] == "correct"
    assert (gradient["line"], gradient["qualname"]) == (9, "Normal.log_prob")
    assert {i["path"] for i in gradient["inputs"]} == {"mu", "sigma", "value"}
