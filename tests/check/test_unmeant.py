"""Rules that are written for single numbers, given arrays that nothing states."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

MODEL = '''import jax
import jax.numpy as jnp


@jax.custom_vjp
def waves(x, sharp):
    """TEXT"""
    return jnp.sum(jnp.sin(sharp * x))


def fwd(x, sharp):
    return waves(x, sharp), (x, sharp)


def bwd(kept, g):
    x, sharp = kept
    slope = g * jnp.cos(sharp * x)
    return slope * sharp, jnp.zeros_like(sharp) + FACTOR * jnp.sum(slope * x)


waves.defvjp(fwd, bwd)
'''


@pytest.mark.parametrize(
    ("text", "factor", "verdict"),
    [
        ("Waves.", "1", "correct"),
        ("Waves.", "2", "wrong"),
        ("Waves.\n\n    x: (n, d)\n    sharp: (d,)\n    ", "1", "wrong"),
    ],
)
def test_one_number_for_all_elements(project: Path, text: str, factor: str, verdict: str) -> None:
    (project / "a.py").write_text(MODEL.replace("TEXT", text).replace("FACTOR", factor))
    run = check_json("a.py", cwd=project)
    assert run.gradient("waves")["verdict"] == verdict


def test_what_has_no_array_beside_it_is_the_functions_own(project: Path) -> None:
    (project / "a.py").write_text(
        "import jax\nimport jax.numpy as jnp\n\n\n@jax.custom_vjp\ndef lse(x):\n"
        "    return jax.scipy.special.logsumexp(x)\n\n\n"
        "lse.defvjp(lambda x: (lse(x), x), lambda x, g: (g * jnp.ones_like(x) / x.size,))\n"
    )
    assert check_json("a.py", cwd=project).gradient("lse")["verdict"] == "wrong"


UNIT = """from functools import partial

import jax
import jax.numpy as jnp


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def unit(x, temperature, axis=-1):
    return temperature * x * jax.lax.rsqrt(jnp.sum(x * x, axis=axis, keepdims=True) + 1e-2)


def fwd(x, temperature, axis):
    r = jax.lax.rsqrt(jnp.sum(x * x, axis=axis, keepdims=True) + 1e-2)
    return temperature * x * r, (x * r, r, temperature)


def bwd(axis, kept, g):
    u, r, temperature = kept
    slope = g - u * jnp.sum(g * u, axis=AXIS, keepdims=True)
    return temperature * r * slope, jnp.zeros_like(temperature) + jnp.sum(g * u)


unit.defvjp(fwd, bwd)
"""


@pytest.mark.parametrize(("axis", "verdict"), [("axis", "correct"), ("-1", "wrong")])
def test_what_is_moved_aside_at_one_setting_excuses_no_other(
    project: Path, axis: str, verdict: str
) -> None:
    """With an array of temperatures it is wrong along any axis; with one, along each but the last."""
    (project / "a.py").write_text(UNIT.replace("AXIS", axis))
    assert check_json("a.py", cwd=project).gradient("unit")["verdict"] == verdict
