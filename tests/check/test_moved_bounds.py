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
