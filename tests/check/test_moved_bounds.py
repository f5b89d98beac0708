"""Bounds that no input reaches are moved to where some are beyond them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

CAPPED = '''from functools import partial

import jax
import jax.numpy as jnp


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def ratio(scores, cap=10.0):
    """Weights of scores (..., n), none above the cap."""
    return jnp.minimum(scores.shape[-1] * jax.nn.softmax(scores, axis=-1), cap)


def fwd(scores, cap):
    raw = scores.shape[-1] * jax.nn.softmax(scores, axis=-1)
    return jnp.minimum(raw, cap), (raw, KEPT)


def bwd(cap, kept, g):
    raw, weights = kept
    g = jnp.where(raw < cap, g, 0.0)
    return (weights * (g - jnp.mean(g * raw, axis=-1, keepdims=True)),)


ratio.defvjp(fwd, bwd)
'''


@pytest.mark.parametrize(
    ("kept", "verdict"), [("raw", "correct"), ("jnp.minimum(raw, cap)", "wrong")]
)
def test_a_cap_that_a_short_row_never_reaches(project: Path, kept: str, verdict: str) -> None:
    (project / "a.py").write_text(CAPPED.replace("KEPT", kept))
    assert check_json("a.py", cwd=project).gradient("ratio")["verdict"] == verdict


LABELLED = '''import torch


def make_score(reduction="mean"):
    """lower: (B, S, H) bounds of the members; y: (B, H) what they share."""

    class Score(torch.autograd.Function):
        @staticmethod
        def forward(ctx, lower, y):
            gap = lower - y.unsqueeze(1)
            ctx.save_for_backward(gap)
            return gap.square().mean() if reduction == "mean" else gap.square().sum()

        @staticmethod
        def backward(ctx, g):
            (gap,) = ctx.saved_tensors
            slope = 2 * g * gap / (gap.numel() if reduction == "mean" else 1)
            return slope, -slope.SUMMED(dim=1)

    return Score.apply
'''


@pytest.mark.needs("torch")
@pytest.mark.parametrize(("summed", "verdict"), [("sum", "correct"), ("mean", "wrong")])
def test_what_has_a_gradient_is_no_table_of_labels(
    project: Path, summed: str, verdict: str
) -> None:
    """It is called `y`, and its text gives it a shape and no type."""
    (project / "a.py").write_text(LABELLED.replace("SUMMED", summed))
    (gradient,) = check_json("a.py", cwd=project).report["gradients"]
    assert gradient["verdict"] == verdict
