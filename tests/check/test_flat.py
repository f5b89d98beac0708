"""What does not move at the sizes tried, and takes no step, is judged at larger ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

MODEL = '''import jax
import jax.numpy as jnp


def parts(x, inside):
    m = inside.astype(x.dtype)
    n = m.sum(-1, keepdims=True)
    d = (x - (x * m).sum(-1, keepdims=True) / n) * m
    std = jnp.sqrt((d * d).sum(-1, keepdims=True) / n)
    return d / std, std, m, n


@jax.custom_vjp
def standardized(x, inside):
    """Scores of (days, names) over those inside (bool, same shape)."""
    return parts(x, inside)[0]


def fwd(x, inside):
    z, std, m, n = parts(x, inside)
    return z, (z, std, m, n)


def bwd(kept, g):
    z, std, m, n = kept
    g = g * m
    inner = g - g.sum(-1, keepdims=True) / n - z * (g * z).sum(-1, keepdims=True) / (n - FREED)
    return inner * m / std, None


standardized.defvjp(fwd, bwd)
'''


@pytest.mark.parametrize(("freed", "verdict"), [("0", "unstable"), ("0.5", "wrong")])
def test_two_numbers_of_three_hide_nothing(project: Path, freed: str, verdict: str) -> None:
    (project / "a.py").write_text(MODEL.replace("FREED", freed))
    assert check_json("a.py", cwd=project).gradient("standardized")["verdict"] == verdict
