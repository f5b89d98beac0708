"""Roots by many written steps: balls around rounded constants grow without end, and excuse no wrong formula."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

MODEL = """import jax
import jax.numpy as jnp


@jax.custom_vjp
def root(current, exchange):
    r = current / exchange
    u = jnp.where(r >= 0, jnp.log1p(jnp.abs(r)) / 0.375, -jnp.log1p(jnp.abs(r)) / 0.5)
    for _ in range(60):
        up, down = jnp.exp(0.375 * u), jnp.exp(-0.5 * u)
        u = u - (up - down - r) / (0.375 * up + 0.5 * down)
    return u / 38.92


def fwd(current, exchange):
    u = root(current, exchange)
    return u, (38.92 * u, current, exchange)


def bwd(kept, g):
    u, current, exchange = kept
    g = g / 38.92 / (0.375 * jnp.exp(0.375 * u) + LAST * jnp.exp(-0.5 * u))
    return g / exchange, -g * (current / exchange) / exchange


root.defvjp(fwd, bwd)


@jax.custom_jvp
def shares(x):
    return x * (1 / 3) * (1 / 7) * 21.0


shares.defjvp(lambda primals, tangents: (shares(*primals), tangents[0]))
"""


@pytest.mark.parametrize(("last", "is_wrong"), [("0.5", False), ("0.375", True)])
def test_an_implicit_gradient_of_many_steps(project: Path, last: str, is_wrong: bool) -> None:
    (project / "a.py").write_text(MODEL.replace("LAST", last))
    run = check_json("a.py", "--max-time", "480", cwd=project)  # sixty steps are dear
    assert (run.gradient("root")["verdict"] == "wrong") is is_wrong
    assert run.gradient("shares")["verdict"] == "correct"
