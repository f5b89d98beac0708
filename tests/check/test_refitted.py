"""A rule that refuses what its function takes gets the change with which it takes it, and is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import check_json

# GRADIENTS stands for what is returned.
UNSUMMED = '''import jax
import jax.numpy as jnp


@jax.custom_vjp
def dense(x, w, b):
    """x: (batch, d_in), w: (d_in, d_out), b: (d_out,)"""
    return jnp.tanh(x @ w + b)


def dense_fwd(x, w, b):
    y = dense(x, w, b)
    return y, (x, w, y)


def dense_bwd(kept, g):
    x, w, y = kept
    dh = g * (1 - y**2)
    return GRADIENTS


dense.defvjp(dense_fwd, dense_bwd)
'''

LOST_AXIS = '''import torch


class Unit(torch.autograd.Function):
    """x (batch, dim), over the length of its row."""

    @staticmethod
    def forward(ctx, x):
        over = torch.rsqrt((x * x).sum(-1, keepdim=True))
        y = x * over
        ctx.save_for_backward(y, over)
        return y

    @staticmethod
    def backward(ctx, g):
        y, over = ctx.saved_tensors
        return over * (g - y * (g * y).sum(-1))
'''


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gradients", "line", "change"),
    [
        (
            "dh @ w.T, x.T @ dh, dh",
            19,
            "`jnp.sum(dh, axis=0)` instead of `dh`",
        ),
        (
            "dh @ w.T, dh.sum(0), x.T @ dh",
            19,
            "`(dh @ w.T, x.T @ dh, dh.sum(0))` instead of `(dh @ w.T, dh.sum(0), x.T @ dh)`",
        ),
        (
            "dh @ w.T, x.T @ dh, jnp.sum(dh)",
            19,
            "`jnp.sum(dh, axis=0)` instead of `jnp.sum(dh)`",
        ),
        (
            "dh @ w.T, dh.T @ x, dh.sum(0)",
            19,
            "`(dh.T @ x).T` instead of `dh.T @ x`",
        ),
    ],
)
def test_a_gradient_of_another_shape_gets_its_shape(
    project: Path, gradients: str, line: int, change: str
) -> None:
    (project / "a.py").write_text(UNSUMMED.replace("GRADIENTS", gradients))
    (finding,) = _refusals(project)
    assert (finding["rule"], finding["line"]) == ("gradient-structure", line)
    assert change in finding["fix"]
    assert finding["fix_is_safe"]


OF_A_HELPER = '''import jax
import jax.numpy as jnp


def size(x):
    return jnp.sum(x * x, axis=-1)


@jax.custom_vjp
def energy(x):
    """x: (n, d)"""
    return size(x)


energy.defvjp(lambda x: (size(x), x), lambda x, g: (2 * x * g,))
'''

OF_A_LITERAL = """import jax
import jax.numpy as jnp


# cgcheck: x=f32[5]
@jax.custom_vjp
def total(x):
    return x.sum()


total.defvjp(lambda x: (x.sum(), None), lambda _, g: (g * jnp.ones(4),))
"""

GUARDED = '''import jax
import jax.numpy as jnp


@jax.custom_vjp
def pairs(x):
    """x: (n, d)"""
    return x * x


def pairs_bwd(x, g):
    if x.shape[1] % 2:
        raise ValueError("an even number of columns")
    return (2 * g * x,)


pairs.defvjp(lambda x: (x * x, x), pairs_bwd)
'''

OF_OPEN_AXES = '''import jax
import jax.numpy as jnp


@jax.custom_vjp
def affine(x, b):
    """x: (..., d), b: (d,)"""
    return jnp.tanh(x + b)


def affine_bwd(y, g):
    dh = g * (1 - y**2)
    return dh, dh


affine.defvjp(lambda x, b: (affine(x, b), affine(x, b)), affine_bwd)
'''


@pytest.mark.slow
@pytest.mark.parametrize("text", [OF_A_HELPER, OF_A_LITERAL, GUARDED, OF_OPEN_AXES])
def test_no_change_is_offered_that_bends_the_function_a_guard_or_what_was_right(
    project: Path, text: str
) -> None:
    (project / "a.py").write_text(text)
    assert [finding["edits"] for finding in _refusals(project) if finding["edits"]] == []


@pytest.mark.slow
def test_what_takes_its_inputs_and_is_wrong_there_is_no_correction(project: Path) -> None:
    (project / "a.py").write_text(UNSUMMED.replace("GRADIENTS", "dh @ w.T, x.T @ dh, 3 * dh"))
    (finding,) = _refusals(project)
    assert finding["rule"] == "gradient-structure"
    assert finding["fix"] is None


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_a_rule_that_raises_keeps_the_axis_that_it_lost(project: Path) -> None:
    (project / "a.py").write_text(LOST_AXIS)
    (finding,) = _refusals(project)
    assert "`(g * y).sum(-1, keepdim=True)` instead of `(g * y).sum(-1)`" in finding["fix"]
    assert (len(finding["edits"]), finding["fix_is_safe"]) == (1, True)


def _refusals(project: Path) -> list[dict[str, Any]]:
    findings = check_json("a.py", cwd=project).findings()
    return [
        finding
        for finding in findings
        if finding["rule"] in ("gradient-structure", "rule-raises")
        and finding["severity"] == "error"
    ]
