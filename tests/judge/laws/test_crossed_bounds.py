"""Rules that are wrong only where the bounds of a clip of the function cross."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

MODEL = """import jax
import jax.numpy as jnp


@jax.custom_vjp
def spent(x, fund):
    return jnp.minimum(jnp.maximum(x, LOW * fund), HIGH * fund)


def fwd(x, fund):
    return spent(x, fund), (x, fund)


def bwd(kept, g):
    x, fund = kept
    low, high = x < LOW * fund, x > HIGH * fund
    return g * ~(low | high), g * (LOW * low + FACTOR * high)


spent.defvjp(fwd, bwd)
"""


@pytest.mark.parametrize(
    ("low", "high", "factor", "verdict"),
    [
        ("0.25", "0.75", "0.75", "correct"),
        ("0.25", "0.75", "0.25", "wrong"),
    ],
)
def test_a_floor_above_a_cap(project: Path, low: str, high: str, factor: str, verdict: str) -> None:
    source = MODEL.replace("LOW", low).replace("HIGH", high).replace("FACTOR", factor)
    (project / "a.py").write_text(source)
    run = check_json("a.py", cwd=project)
    assert run.gradient("spent")["verdict"] == verdict
    told = [f["message"] for f in run.findings("spent") if f["rule"] == "gradient-mismatch"]
    if verdict == "correct":
        assert any("the lower bound of a clip" in message for message in told)
