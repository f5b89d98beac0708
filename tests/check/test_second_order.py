"""A wrong second derivative is an error where one is wanted, and a note elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

CUBE = """import jax


@jax.custom_vjp
def cube(x):
    return x**3


def _forward(x):
    return x**3, jax.lax.stop_gradient(3 * x**2)


def _backward(slope, ct):
    return (ct * jax.lax.stop_gradient(slope),)


cube.defvjp(_forward, _backward)
"""

FIT = """import jax
from cubes import cube

curvature = jax.hessian(lambda x: cube(x) + x)
"""


@pytest.fixture
def cubes(project: Path) -> Path:
    (project / "cubes.py").write_text(CUBE)
    return project


def test_a_note_where_nobody_wants_one(cubes: Path) -> None:
    run = check_json("cubes.py", cwd=cubes)
    assert run.gradient("cube")["verdict"] == "correct"
    assert {f["severity"] for f in run.findings()} == {"note"}


def test_an_error_where_it_is_asked_for_which_the_command_shows_again(cubes: Path) -> None:
    run = check_json("cubes.py", "--order", "2", cwd=cubes)
    (finding,) = run.findings()
    assert (finding["rule"], finding["severity"]) == ("wrong-second-derivative", "error")
    assert finding["message"].endswith("`order = 2` is set")
    assert finding["reproduce"] == 'cgcheck cubes.py:cube --at "x=1" --order 2'


def test_an_error_where_the_project_differentiates_twice(cubes: Path) -> None:
    (cubes / "fit.py").write_text(FIT)
    run = check_json("cubes.py", cwd=cubes)
    assert run.gradient("cube")["verdict"] == "wrong"
    (finding,) = run.findings()
    assert "`fit.py:4` differentiates it twice" in finding["message"]
