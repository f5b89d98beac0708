"""What a docstring takes as a constant is declared: its gradient may be none, and binds nobody to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

MODEL = '''import jax
import jax.numpy as jnp


@jax.custom_vjp
def similar(q, bank):
    """Squared similarities.

    q [N, D], bank [M, D], taken as a constant.
    """
    return jnp.sum((q @ bank.T) ** 2)


def fwd(q, bank):
    return similar(q, bank), (q, bank)


def bwd(kept, g):
    q, bank = kept
    s = 2 * g * (q @ bank.T)
    return s @ bank, GRADIENT


similar.defvjp(fwd, bwd)
'''


@pytest.mark.parametrize(
    ("gradient", "verdict"), [("jnp.zeros_like(bank)", "intended"), ("s.T @ q", "correct")]
)
def test_a_constant_may_have_a_gradient_and_need_not(
    project: Path, gradient: str, verdict: str
) -> None:
    (project / "a.py").write_text(MODEL.replace("GRADIENT", gradient))
    run = check_json("a.py", cwd=project)
    assert run.gradient("similar")["verdict"] == verdict
    assert not [f for f in run.report["findings"] if f["severity"] == "error"]


def test_what_is_no_constant_is_wrong(project: Path) -> None:
    text = MODEL.replace(", taken as a constant", "").replace("GRADIENT", "0.5 * s.T @ q")
    (project / "a.py").write_text(text)
    assert check_json("a.py", cwd=project).gradient("similar")["verdict"] == "wrong"
