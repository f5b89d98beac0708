"""A term or a factor at the wrong place is named by the expression that it comes from."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import check_json

pytestmark = pytest.mark.slow  # each starts cgcheck in a process of its own

RULES = """
import jax
import jax.numpy as jnp


@jax.custom_vjp
def swish(x):
    return x * jax.nn.sigmoid(x)


swish.defvjp(lambda x: (swish(x), x), lambda x, g: (g * jax.nn.sigmoid(x),))


@jax.custom_vjp
def bell(x):
    return jnp.exp(-x * x / 2)


bell.defvjp(lambda x: (bell(x), x), lambda x, g: (-g * jnp.exp(-x * x / 2),))


@jax.custom_vjp
def triple(x, y, z):
    return x * y * z


triple.defvjp(
    lambda x, y, z: (triple(x, y, z), (x, y, z)),
    lambda r, g: (g * r[1], g * r[0] * r[2] * jnp.sin(r[1]), g * r[0] * r[1]),
)


@jax.custom_vjp
def curve(x):
    return jnp.sin(x) + x * x * x


curve.defvjp(lambda x: (curve(x), x), lambda x, g: (g * (3 * x * x - jnp.cos(x)),))
"""
SAYS = {
    "swish": ["a term is missing, what comes through `jax.nn.sigmoid(x)` (line 8)"],
    "bell": ["a factor is missing: x"],
    "triple": ["d/dx: the formula is wrong: a factor is missing: z", "d/dy: the formula is wrong"],
    "curve": ["a term is missing or has the wrong sign, what comes through `jnp.sin(x)` (line 35)"],
}


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("terms")
    (folder / "rules_terms.py").write_text(RULES)
    return check_json("rules_terms.py", cwd=folder).report["findings"]


@pytest.mark.parametrize("name", SAYS)
def test_the_part_is_named(name: str, findings: list[dict[str, Any]]) -> None:
    told = [f["message"] for f in findings if f["gradient"] == name and f["severity"] == "error"]
    for says, message in zip(SAYS[name], told, strict=True):
        assert says in message
