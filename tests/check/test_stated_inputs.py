"""Inputs that the user states, by a comment on the definition or in the settings, end to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import cgcheck, check_json

pytestmark = pytest.mark.slow  # each is a whole run

ENTROPY = """import jax
import jax.numpy as jnp


@jax.custom_vjp
def entropy(p):  # cgcheck: p=f32[n] in simplex
    return -jnp.sum(p * jnp.log(p + 1e-3))


entropy.defvjp(
    lambda p: (entropy(p), p),
    lambda p, ct: (-ct * (jnp.log(p + 1e-3) + p / (p + 1e-3)),),
)
"""

OTHERS = """

from functools import partial


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def picked(table, rows, power):
    if not isinstance(power, int) or rows.dtype != "int32":
        raise TypeError("whole numbers, please")
    return table[rows] ** power


def fwd(table, rows, power):
    return picked(table, rows, power), table


def bwd(rows, power, table, ct):
    return (jnp.zeros_like(table).at[rows].add(ct * power * table[rows] ** (power - 1)),)


picked.defvjp(fwd, bwd)


@jax.custom_gradient
def double(x):  # cgcheck: q=f32[n]
    return 2 * x, lambda ct: 2 * ct
"""


def test_inputs_are_those_of_the_comment_and_of_the_settings(project: Path) -> None:
    (project / "a.py").write_text(ENTROPY + OTHERS)
    (project / "pyproject.toml").write_text(
        "[tool.cgcheck.inputs]\npicked = 'table=f32[n k], rows=i32[m] in 0..n, power=3'\n"
    )
    run = check_json("a.py", cwd=project)
    gradient = run.gradient("entropy")
    assert gradient["verdict"] == "correct"
    (p,) = gradient["inputs"]
    assert (p["shape"], p["source"]) == ([3], "the comment for line 6")
    assert p["domain"] == "[0, 1]"
    assert {i["path"] for i in run.gradient("picked")["inputs"]} == {"table", "rows", "power"}
    assert run.gradient("picked")["status"] == "checked"
    assert any("speak of `q`; it takes x" in f["message"] for f in run.findings("double"))


def test_inputs_are_shown_with_their_source_and_nothing_is_checked(project: Path) -> None:
    (project / "a.py").write_text(ENTROPY)
    run = cgcheck("inputs", "a.py", cwd=project)
    assert run.code == 0
    assert "p: float32[3] simplex — the comment for line 6" in run.out
