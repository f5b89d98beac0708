"""What the lattice misses, hypothesis can be asked to look for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

pytestmark = pytest.mark.slow  # each is a whole run

HIDDEN = """
import jax
import jax.numpy as jnp


@jax.custom_vjp
def square(x):  # cgcheck: x=f32[]
    return x * x


square.defvjp(
    lambda x: (square(x), x),
    lambda x, g: (2 * g * x * (1 - jnp.exp(-(((x - 38) / 6) ** 2))),),
)
"""


def test_a_hidden_fault_is_found_and_its_witness_is_simple(tmp_path: Path) -> None:
    (tmp_path / "hidden.py").write_text(HIDDEN)
    few = ("hidden.py:square", "--points", "6")
    assert check_json(*few, cwd=tmp_path).gradient("square")["verdict"] == "correct"
    runs = [check_json(*few, "--search", "300", "--no-cache", cwd=tmp_path) for _ in range(2)]
    assert runs[0].out == runs[1].out
    finding = next(f for f in runs[0].report["findings"] if f["severity"] == "error")
    assert finding["rule"] == "gradient-mismatch"
    assert 15 < abs(finding["witness"]["inputs"][0]["value"]) < 65


def test_what_is_right_stays_right(tmp_path: Path) -> None:
    (tmp_path / "hidden.py").write_text(HIDDEN.replace(" * (1 - ", " * (1 - 0 * "))
    run = check_json("hidden.py", "--search", "100", cwd=tmp_path)
    assert run.gradient("square")["verdict"] == "correct"
