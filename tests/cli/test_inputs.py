"""`cgcheck inputs`: the candidates with their reasons, and comments written into the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import cgcheck

pytestmark = pytest.mark.slow  # whole runs

NORM = """import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def scaled(x, weight, axis):
    return (x * weight).sum(axis)


def fwd(x, weight, axis):
    return scaled(x, weight, axis), (x, weight)


def bwd(axis, residuals, g):
    x, weight = residuals
    g = jnp.expand_dims(g, axis)
    return g * weight, (g * x).sum(0)


scaled.defvjp(fwd, bwd)
"""


def test_a_written_comment_gives_the_same_shapes_and_is_not_written_twice(project: Path) -> None:
    (project / "a.py").write_text(NORM)
    first = cgcheck("inputs", "a.py", cwd=project)
    assert first.code == 0
    assert "a.py:8 scaled\n  1. x: float32[4 3] — solved as [b d]" in first.out
    assert "     weight: float32[3] — solved as [d]" in first.out
    assert "the function refuses" in first.out
    comment = "# cgcheck: x=f32[b d], weight=f32[d]"
    shown = cgcheck("inputs", "--diff", "a.py", cwd=project)
    assert f"+{comment}" in shown.out
    assert (project / "a.py").read_text() == NORM
    written = cgcheck("inputs", "--write", "a.py", cwd=project)
    assert f"a.py: scaled: `{comment}` above line 7" in written.out
    assert f"{comment}\n@functools.partial" in (project / "a.py").read_text()
    again = cgcheck("inputs", "--write", "a.py", cwd=project)
    assert "x: float32[3 4] — the comment for line 8" in again.out
    assert "weight: float32[4] — the comment for line 8" in again.out
    assert "nothing is written: its inputs are stated by the comment for line 8" in again.out
    assert (project / "a.py").read_text().count("cgcheck") == 1


KERAS = """from keras import ops


@ops.custom_gradient
def double(x):
    def grad(*args, upstream=None):
        dy = args[0] if upstream is None else upstream
        return 2 * dy

    return 2 * x, grad
"""


@pytest.mark.needs("keras")
def test_one_backend_of_several_may_be_asked_for(project: Path) -> None:
    (project / "a.py").write_text(KERAS)
    listed = cgcheck("inputs", "a.py", "--backend", "jax", cwd=project)
    assert listed.code == 0
    assert listed.out.splitlines()[0] == "a.py:5 double on jax"
