"""What is wrong, in words: each class of mistake is named, on functions that no fixture has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from gradcheck_cli import check_gradient
from tests.conftest import check_json


def ruled(function: Callable[..., Any], backward: Callable[..., Any]) -> Any:
    """The function with this for a rule: (inputs, cotangent) → gradients."""
    rule = jax.custom_vjp(function)
    rule.defvjp(lambda *args: (function(*args), args), backward)
    return rule


def product(x: Any, y: Any) -> Any:
    return jnp.sin(x) * y


WRONG: dict[str, tuple[Any, str | None]] = {
    "it is the gradient of y": (
        ruled(product, lambda r, ct: (ct * jnp.sin(r[0]), ct * jnp.cos(r[0]) * r[1])),
        None,
    ),
    "its sign is reversed": (ruled(jnp.tanh, lambda r, ct: (ct * (jnp.tanh(r[0]) ** 2 - 1),)), None),
    "only the first element of the cotangent is used": (
        ruled(lambda x: jnp.exp(-x * x), lambda r, ct: (ct[0] * -2 * r[0] * jnp.exp(-r[0] ** 2),)),
        "x=f32[n] in [-2, 2]",
    ),
    "the sum of the cotangent is used for each": (
        ruled(jnp.sinh, lambda r, ct: (ct.sum() * jnp.cosh(r[0]),)),
        "x=f32[n] in [-2, 2]",
    ),
    "the cotangent of output 0 is ignored": (
        ruled(lambda x: (jnp.sin(x), x**3), lambda r, ct: (ct[1] * 3 * r[0] ** 2,)),
        None,
    ),
    "the cotangents of the two outputs are exchanged": (
        ruled(lambda x: (jnp.sin(x), x**3), lambda r, ct: (ct[1] * jnp.cos(r[0]) + ct[0] * 3 * r[0] ** 2,)),
        None,
    ),
    "it is the truth transposed": (
        ruled(
            lambda m, v, w: v @ m @ w,
            lambda r, ct: (ct * jnp.outer(r[2], r[1]), ct * r[0] @ r[2], ct * r[1] @ r[0]),
        ),
        "m=f32[n n], v=f32[n], w=f32[n]",
    ),
    "it is the truth at the output instead of x": (
        ruled(lambda x: jnp.exp(x) / 4, lambda r, ct: (ct * jnp.exp(jnp.exp(r[0]) / 4) / 4,)),
        "x=f32[] in [-2, 2]",
    ),
    "it is the truth in reversed order": (
        ruled(lambda x: x**3, lambda r, ct: (jnp.flip(ct * 3 * r[0] ** 2),)),
        "x=f32[n]",
    ),
    "it is the truth with x and y exchanged": (
        ruled(lambda x, y: x * x * y, lambda r, ct: (ct * 2 * r[1] * r[0] + 0 * ct, ct * r[1] ** 2)),
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("said", list(WRONG))
def test_a_mistake_is_named(said: str) -> None:
    function, inputs = WRONG[said]
    with pytest.raises(AssertionError) as caught:
        check_gradient(function, inputs=inputs, points=48)
    assert said in " ".join(str(caught.value).split())


def test_a_rule_that_fits_nothing_is_only_wrong() -> None:
    function = ruled(jnp.sin, lambda r, ct: (ct * (jnp.cos(r[0]) + r[0] ** 3 / 7),))
    with pytest.raises(AssertionError, match="the formula is wrong") as caught:
        check_gradient(function, points=48)
    assert "the formula is wrong: " not in " ".join(str(caught.value).split())


@pytest.mark.parametrize(
    ("file", "name", "said"),
    [
        ("wrong/formula.py", "ramp", "of `jnp.where(inside, 1.0, jnp.tanh(beta))` (line 135)"),
        ("torch/wrong.py", "BranchVariable", "the condition"),
    ],
)
def test_a_wrong_condition_is_told_from_a_wrong_branch(file: str, name: str, said: str) -> None:
    errors = [
        f for f in check_json(f"fixtures/{file}:{name}").findings() if f["severity"] == "error"
    ]
    assert any(said in f["message"] for f in errors)
    assert all(
        "chooses the wrong branch: the other one is right there" in f["message"] for f in errors
    )
