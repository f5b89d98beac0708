"""A function whose values never change at what was tried is not found right."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import check_json

GATED = """import jax
import jax.numpy as jnp


@jax.custom_vjp
def gated(x):
    return jnp.sum(x * LIMIT(jnp.abs(x)), axis=-1)


def LIMIT(size):
    return jnp.where(size < -1.0, 1.0, 0.0)


gated.defvjp(lambda x: (gated(x), x), lambda x, g: (g[..., None] * LIMIT(jnp.abs(x)),))


@jax.custom_vjp
def stepped(x):
    return jnp.sign(x)


stepped.defvjp(lambda x: (stepped(x), None), lambda r, g: (g * 0.0,))


@jax.custom_vjp
def shared(x):
    return jnp.full(x.shape, 1.0 / x.size)


shared.defvjp(lambda x: (shared(x), None), lambda r, g: (jnp.zeros_like(g),))
"""


def test_values_that_never_change_show_nothing(project: Path) -> None:
    (project / "a.py").write_text(GATED)
    report = check_json("a.py", cwd=project).report
    verdicts = {g["name"]: g["verdict"] for g in report["gradients"]}
    assert verdicts == {"gated": "inconclusive", "stepped": "correct", "shared": "correct"}
    (item,) = [i for i in report["not_covered"] if i["gradient"] == "gated"]
    assert "the same at every input" in item["reason"]
