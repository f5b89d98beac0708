"""Inputs that the user gives: by a comment on the definition, or in the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import cgcheck, check_json

pytestmark = pytest.mark.slow  # each starts cgcheck in a process of its own

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

LABELS = """from functools import partial

import jax
import jax.numpy as jnp


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
"""


def test_a_comment_says_where_inputs_live(project: Path) -> None:
    (project / "a.py").write_text(ENTROPY)
    run = check_json("a.py", cwd=project)
    gradient = run.gradient("entropy")
    assert gradient["verdict"] == "correct"
    (p,) = gradient["inputs"]
    assert (p["shape"], p["source"]) == ([3], "the comment for line 6")
    assert p["domain"] == "[0, 1]"


def test_the_settings_say_it_by_name(project: Path) -> None:
    (project / "a.py").write_text(LABELS)
    (project / "pyproject.toml").write_text(
        "[tool.cgcheck.inputs]\npicked = 'table=f32[n k], rows=i32[m] in 0..n, power=3'\n"
    )
    run = check_json("a.py", cwd=project)
    assert {i["path"] for i in run.gradient("picked")["inputs"]} == {"table", "rows", "power"}
    assert run.gradient("picked")["status"] == "checked"


def test_inputs_are_shown_with_their_source_and_nothing_is_checked(project: Path) -> None:
    (project / "a.py").write_text(ENTROPY)
    run = cgcheck("inputs", "a.py", cwd=project)
    assert run.code == 0
    assert "p: float32[3] simplex because of the comment for line 6" in run.out


def test_a_bad_spec_is_told_where_it_stands(project: Path) -> None:
    (project / "a.py").write_text(ENTROPY.replace("p=f32[n] in simplex", "p=f32[n] in simplest"))
    (told,) = (f for f in check_json("a.py", cwd=project).findings() if f["rule"] == "malformed-comment")  # fmt: skip
    assert told["line"] == 6
    assert "simplest" in told["message"]
    (project / "pyproject.toml").write_text("[tool.cgcheck.inputs]\nentropy = 'p=f32[n'\n")
    run = check_json("a.py", cwd=project)
    assert run.code == 2
    assert "the inputs of `entropy`" in run.err


def test_a_name_that_is_no_argument_is_told(project: Path) -> None:
    (project / "a.py").write_text(ENTROPY.replace("p=f32[n] in simplex", "q=f32[n] in simplex"))
    run = check_json("a.py", cwd=project)
    assert any("speak of `q`; it takes p" in f["message"] for f in run.findings())
