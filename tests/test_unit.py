"""`check_gradient` in a unit test: silent if right, the whole report if not."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch

from gradcheck_cli import check_gradient


@jax.custom_vjp
def sine(x: Any) -> Any:
    return jnp.sin(x)


sine.defvjp(lambda x: (sine(x), x), lambda x, ct: (ct * jnp.cos(x),))


@jax.custom_gradient
def wrong(x: Any) -> Any:
    return jnp.sin(x), lambda ct: 2 * ct * jnp.cos(x)


@jax.custom_gradient
def rounded(x: Any) -> Any:
    return jnp.round(x), lambda ct: ct


@jax.custom_gradient
def entropy(p: Any) -> Any:
    return -jnp.sum(p * jnp.log(p)), lambda ct: -ct * (jnp.log(p) + 1)


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return 3 * grad


def naive(x: Any) -> Any:
    return torch.log(1 + torch.exp(x))


def test_a_right_one_is_silent() -> None:
    check_gradient(sine)
    check_gradient(rounded, expect="expect(straight-through)", fail_on="warning")
    check_gradient(entropy, inputs="p=f32[n] in [0.125, 8]")


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (wrong, "it is 2 times the truth"),
        (Twice, "it is 1.5 times the truth"),
        (Twice.apply, "class Twice(torch.autograd.Function):"),
        (naive, "write -F.logsigmoid(-x)"),
    ],
)
def test_a_wrong_one_raises_with_the_report(function: Any, said: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_gradient(function)
    assert said in str(caught.value)
    assert "tests/test_unit.py" in str(caught.value)


def test_what_cannot_be_checked_raises_too() -> None:
    @jax.custom_gradient
    def never(x: Any) -> Any:
        raise ValueError("not this one")

    with pytest.raises(AssertionError, match="not this one"):
        check_gradient(never)


def test_the_package_itself_imports_nothing_heavy() -> None:
    code = "import gradcheck_cli, sys; assert not {'jax', 'numpy', 'msgspec'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
