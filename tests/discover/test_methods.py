"""A method is checked with an object made for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

pytestmark = pytest.mark.slow  # each starts cgcheck in a process of its own

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


def test_an_object_is_made_from_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "normal.py").write_text(NORMAL)
    run = check_json("normal.py:Normal.log_prob", cwd=tmp_path)
    (gradient,) = run.report["gradients"]
    assert gradient["verdict"] == "correct"
    assert (gradient["line"], gradient["qualname"]) == (9, "Normal.log_prob")
    assert {i["path"] for i in gradient["inputs"]} == {"mu", "sigma", "value"}


def test_a_static_method_is_a_function(tmp_path: Path) -> None:
    (tmp_path / "normal.py").write_text(NORMAL)
    (gradient,) = check_json("normal.py:Normal.half", cwd=tmp_path).report["gradients"]
    assert (gradient["verdict"], gradient["inputs"][0]["path"]) == ("correct", "x")
