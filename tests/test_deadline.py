"""A worker's time: what was found is told before it is up, and the rest of the file is checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

pytestmark = pytest.mark.slow  # each starts cgcheck in a process of its own

SLOW = """import jax
import jax.numpy as jnp


@jax.custom_gradient
def slow(x):
    def body(i, h):
        return jnp.tanh(1.1 * h + 0.3 * jnp.sin(h))

    def pulled(z):
        return jax.lax.scan(lambda h, _: (body(0, h), None), z, None, length=20000)[0]

    return jax.lax.fori_loop(0, 20000, body, x), lambda ct: jax.vjp(pulled, x)[1](ct)


@jax.custom_gradient
def after(x):
    return 2 * x, lambda ct: 2 * ct
"""


def test_what_takes_too_long_costs_itself_alone(project: Path) -> None:
    (project / "a.py").write_text(SLOW)
    run = check_json("a.py", "--max-time", "10", cwd=project)
    assert run.gradient("after")["verdict"] == "correct"
    late = [item for item in run.report["not_covered"] if item["gradient"] == "slow"]
    assert any("raise --max-time" in item["reason"] for item in late)
    assert "timed-out" not in run.rules()
