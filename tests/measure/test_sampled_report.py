"""End to end: the fault of a large rule is found, and the report says what was looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

pytestmark = pytest.mark.slow  # each is a whole run

FILE = """
import jax, jax.numpy as jnp

W = jnp.sin(jnp.arange(40_000.0))

@jax.custom_vjp
def layer(x):
    return jnp.tanh(x * W)

def forward(x):
    return layer(x), (x, layer(x))

def backward(res, ct):
    x, y = res
    return (jnp.sum(ct * (1 - y) * W),)  # the square is missing

layer.defvjp(forward, backward)
"""


def test_a_large_wrong_rule(project: Path) -> None:
    (project / "large.py").write_text(FILE)
    report = check_json("large.py", "--max-time", "280", cwd=project).report
    assert {f["rule"] for f in report["findings"] if f["severity"] == "error"} == {
        "gradient-mismatch"
    }
    told = [n for n in report["not_covered"] if "components" in n["what"]]
    assert told, report["not_covered"]
    assert "of 40,001 components at x: float[]" in told[0]["what"]
    assert "float64 balls at 8 points" in told[0]["reason"]
