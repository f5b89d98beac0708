"""Rules of arrays that broadcast along an axis of one element, which the function reduces."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

MODEL = '''import jax
import jax.numpy as jnp


def total(g, like):
    """Sum g over the axes along which an array was laid out."""
    g = jnp.sum(g, axis=tuple(range(g.ndim - like.ndim)))
    ones = tuple(k for k, n in enumerate(like.shape) if n == 1 and g.shape[k] > 1)
    return jnp.sum(g, axis=ones, keepdims=True)


@jax.custom_vjp
def alike(left, right):TEXT
    VALUE


def fwd(left, right):
    return alike(left, right), (left, right)


def bwd(kept, g):
    left, right = kept
    RULE


alike.defvjp(fwd, bwd)
'''
COSINE = """a = left / jnp.sqrt(1 + jnp.sum(left * left, axis=-1, keepdims=True))
    b = right / jnp.sqrt(1 + jnp.sum(right * right, axis=-1, keepdims=True))
    return jnp.sum(a * b, axis=-1)"""
OF_COSINE = """n = jnp.sqrt(1 + jnp.sum(left * left, axis=-1, keepdims=True))
    k = jnp.sqrt(1 + jnp.sum(right * right, axis=-1, keepdims=True))
    c = jnp.sum(left * right / (n * k), axis=-1, keepdims=True)
    g = g[..., None]
    return FACTOR * total(g * (right / k - c * left / n) / n, left), total(g * (left / n - c * right / k) / k, right)"""
STATED = '\n    """The likeness.\n\n    left: (n, 1)\n    right: (d,)\n    """'


@pytest.mark.parametrize(
    ("text", "value", "rule", "verdict"),
    [
        ("", COSINE, OF_COSINE.replace("FACTOR", "1"), "correct"),
        ("", COSINE, OF_COSINE.replace("FACTOR", "2"), "wrong"),
        (STATED, COSINE, OF_COSINE.replace("FACTOR", "1"), "wrong"),
    ],
)
def test_a_vector_of_one_number(
    project: Path, text: str, value: str, rule: str, verdict: str
) -> None:
    source = MODEL.replace("TEXT", text).replace("VALUE", value).replace("RULE", rule)
    (project / "a.py").write_text(source)
    run = check_json("a.py", cwd=project)
    assert run.gradient("alike")["verdict"] == verdict
