"""End to end: the fault of a large rule is found, and the report says what was looked at."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_a_large_wrong_rule(tmp_path: Path) -> None:
    (tmp_path / "large.py").write_text(FILE)
    command = [sys.executable, "-m", "gradcheck_cli", "large.py", "--output-format", "json"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    report = json.loads(run.stdout)
    assert {f["rule"] for f in report["findings"] if f["severity"] == "error"} == {
        "gradient-mismatch"
    }
    told = [n for n in report["not_covered"] if "components" in n["what"]]
    assert told, report["not_covered"]
    assert "of 40,001 components at x: float[]" in told[0]["what"]
    assert "float64 balls at 8 points" in told[0]["reason"]
