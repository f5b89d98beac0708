"""Roots by many written steps: balls around rounded constants grow without end, and excuse no wrong formula."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

MODEL = """import jax
import jax.numpy as jnp


@jax.custom_vjp
def root(r):
    u = jnp.arcsinh(r)
    for _ in range(40):
        up, down = jnp.exp(0.3 * u), jnp.exp(-0.7 * u)
        u = u - (up - down - r) / (0.3 * up + 0.7 * down)
    return u


def fwd(r):
    u = root(r)
    return u, u


def bwd(u, g):
    return (g / (0.3 * jnp.exp(0.3 * u) + LAST * jnp.exp(-0.7 * u)),)


root.defvjp(fwd, bwd)


@jax.custom_jvp
def shares(x):
    return x * (1 / 3) * (1 / 7) * 21.0


shares.defjvp(lambda primals, tangents: (shares(*primals), tangents[0]))
"""


@pytest.mark.parametrize(("last", "is_wrong"), [("0.7", False), ("0.3", True)])
def test_an_implicit_gradient_of_many_steps(project: Path, last: str, is_wrong: bool) -> None:
    (project / "a.py").write_text(MODEL.replace("LAST", last))
    run = check_json("a.py", cwd=project)
    assert (run.gradient("root")["verdict"] == "wrong") is is_wrong
    assert run.gradient("shares")["verdict"] == "correct"
