"""An array that is not differentiated, and of which no source says a shape: the shapes of the others say it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

MADE = '''import jax
import jax.numpy as jnp


def make_cost(table):
    @jax.custom_vjp
    def cost(near, targets):
        """near (B, P), targets (B, C)."""
        return jnp.sum(near * jnp.matmul(targets, jnp.asarray(table)), axis=1)

    def fwd(near, targets):
        return cost(near, targets), (near, targets)

    def bwd(kept, g):
        near, targets = kept
        return g[:, None] * (targets @ table), (g[:, None] * near) @ WEIGHT

    cost.defvjp(fwd, bwd)
    return cost
'''


@pytest.mark.parametrize(("weight", "verdict"), [("table.T", "correct"), ("abs(table.T)", "wrong")])
def test_what_a_factory_multiplies_with_has_the_axes_that_fit(
    project: Path, weight: str, verdict: str
) -> None:
    (project / "a.py").write_text(MADE.replace("WEIGHT", weight))
    gradient = check_json("a.py", cwd=project).gradient("cost")
    assert gradient["verdict"] == verdict
    shapes = {item["path"]: item["shape"] for item in gradient["inputs"]}
    assert shapes["table"] == [shapes["targets"][1], shapes["near"][1]]
