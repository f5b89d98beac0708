"""What is about gradients alone is not said of code that nobody differentiates."""

from __future__ import annotations

import pytest

from gradcheck_cli.lint.linted import linted

WHERE = "jnp.where(x > 0, jnp.sqrt(x), 0.0)"
PLAIN = f"import jax\nimport jax.numpy as jnp\n\n\ndef f(x):\n    return {WHERE}\n"
RULED = f"""import jax
import jax.numpy as jnp
from functools import partial


DECORATOR
def f(x):
    return {WHERE}


def fwd(x):
    return f(x), {WHERE}


def bwd(kept, g):
    return (kept * g,)


f.ATTACHED
"""
TORCH = """import torch


class Root(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.where(x > 0, torch.sqrt(x), 0.0)

    def helper(self, x):
        return torch.where(x > 0, torch.sqrt(x), 0.0)
"""


def lines(source: str) -> list[int]:
    return [f.line for f in linted(source, "a.py") if f.rule == "where-poisons-gradient"]


@pytest.mark.parametrize(
    ("decorator", "attached", "found"),
    [
        ("@jax.custom_vjp", "defvjp(fwd, bwd)", []),
        ("@partial(jax.custom_vjp, nondiff_argnums=())", "defvjp(fwd, bwd)", []),
        ("@jax.jit", "defvjp(fwd, bwd)", [8]),
        ("@jax.custom_jvp", "defjvp(fwd)", [12]),  # the tangents go through it
    ],
)
def test_functions_with_a_rule_and_those_of_rules(
    decorator: str, attached: str, found: list[int]
) -> None:
    source = RULED.replace("DECORATOR", decorator).replace("ATTACHED", attached)
    assert lines(source) == found


def test_functions_of_torch_and_plain_ones() -> None:
    assert lines(TORCH) == [10]
    assert lines(PLAIN) == [6]
