"""Inputs without configuration, end to end: one run for all."""

from __future__ import annotations

import pytest

from tests.conftest import check_json

pytestmark = pytest.mark.slow  # starts cgcheck in a process of its own

RULES = """
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Params(NamedTuple):
    w: jax.Array
    b: jax.Array


@jax.custom_vjp
def affine(p: Params, x):
    return p.w * x + p.b


affine.defvjp(lambda p, x: (affine(p, x), (p, x)), lambda r, g: (Params(g * r[1], g), g * r[0].w))


@jax.custom_vjp
def given(x, bias=None):
    return x * x if bias is None else x * x + bias


given.defvjp(
    lambda x, bias=None: (given(x, bias), (x, bias)),
    lambda r, g: (2 * r[0] * g, None if r[1] is None else 2 * g),  # wrong where bias is given
)


@jax.custom_vjp
def logdet(a):
    return 2 * jnp.log(jnp.diagonal(jnp.linalg.cholesky(a))).sum()


logdet.defvjp(lambda a: (logdet(a), a), lambda a, g: (g * jnp.linalg.inv(a),))


@jax.custom_vjp
def inside(x, s):
    return jnp.where(s > 0, jnp.log(s) + (x / s) ** 2, jnp.nan)


inside.defvjp(
    lambda x, s: (inside(x, s), (x, s)),
    lambda r, g: (g * 2 * r[0] / r[1] ** 2, g * (1 / r[1] - 2 * r[0] ** 2 / r[1] ** 3)),
)
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder = tmp_path_factory.mktemp("infer")
    (folder / "rules_infer.py").write_text(RULES)
    return check_json("rules_infer.py", cwd=folder).report


def _verdict(report: dict, name: str) -> str:
    return next(g["verdict"] for g in report["gradients"] if g["name"] == name)


def _source(report: dict, name: str, path: str) -> str:
    inputs = next(g["inputs"] for g in report["gradients"] if g["name"] == name)
    return next(i["source"] for i in inputs if i["path"] == path)


def test_an_object_of_the_annotated_class_is_built(report: dict) -> None:
    assert _verdict(report, "affine") == "correct"
    assert _source(report, "affine", "p.w") == "a field of Params"


def test_an_optional_argument_is_given_too(report: dict) -> None:
    assert _verdict(report, "given") == "wrong"
    (finding,) = (
        f for f in report["findings"] if f["gradient"] == "given" and f["severity"] == "error"
    )
    assert "d/dbias" in finding["message"]
    assert "2 times the truth" in finding["message"]


def test_matrices_are_definite_where_others_have_no_value(report: dict) -> None:
    assert _verdict(report, "logdet") == "correct"
    assert "no value at most plain numbers" in _source(report, "logdet", "a")


def test_where_one_value_is_undefined_no_gradient_is_asked_for(report: dict) -> None:
    assert _verdict(report, "inside") == "correct"
