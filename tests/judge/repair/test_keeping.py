"""What the forward function does not keep is kept where a correction rests on it, in the author's own way."""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np
import pytest

from gradcheck_cli.judge.repair.correction import correction
from gradcheck_cli.judge.repair.trial import Trial
from gradcheck_cli.project.edits import applied
from tests.conftest import check_json
from tests.judge.by_text import module_of
from tests.traced import gradient_of, traced

X = np.array([0.5, -1.5, 2.0, 0.25, 1.25, -0.75])

_RULE = """
import jax
import jax.numpy as jnp

@jax.custom_vjp
def f(x):
    return jnp.sin(x) * jnp.cos(x)

def forward(x):
    s, c = jnp.sin(x), jnp.cos(x)
    return s * c, {kept}

def backward(res, g):
    {opened} = res
    return (g * (c * c - s),)

f.defvjp(forward, backward)
"""


@pytest.mark.parametrize(
    ("kept", "opened"), [("(c, s)", "c, s"), ("(s, c)", "(s, c)"), ("[s, c]", "s, c")]
)
def test_what_is_kept_already_needs_no_more(tmp_path: Path, kept: str, opened: str) -> None:
    module = module_of(tmp_path, _RULE.format(kept=kept, opened=opened))
    fix = correction([Trial(traced(module.f, X, names=("x",)), [0, 1])], gradient_of(module.f))
    assert fix is not None
    assert len(fix.patches) == 1


_LACKING = """
import jax
import jax.numpy as jnp

@jax.custom_vjp
def f(x):
    return jnp.sin(x) ** 2 + jnp.cos(x)

def forward(x):
    s, c = jnp.sin(x), jnp.cos(x)
    return s * s + c, {kept}

def backward(res, g):
    {opened} = res
    return (2 * g * s - g * s,)

f.defvjp(forward, backward)
"""


@pytest.mark.parametrize(
    ("kept", "opened", "after"),
    [
        ("(s,)", "(s,)", ["return s * s + c, (s, c)", "(s, c) = res", "2 * g * s * c - g * s"]),
        ("(s, x)", "s, x", ["return s * s + c, (s, x)", "2 * g * s * jnp.cos(x) - g * s"]),
        ("s", "s", ["return s * s + c, (s, c)", "s, c = res", "2 * g * s * c - g * s"]),
    ],
)
def test_one_more_residual_is_kept(
    tmp_path: Path, kept: str, opened: str, after: list[str]
) -> None:
    source = _LACKING.format(kept=kept, opened=opened)
    module = module_of(tmp_path, source)
    fix = correction([Trial(traced(module.f, X, names=("x",)), [0, 1])], gradient_of(module.f))
    assert fix is not None
    written = applied(source, fix.patches)
    assert all(line in written for line in after)
    assert float(module.f(0.5)) == pytest.approx(np.sin(0.5) ** 2 + np.cos(0.5))  # as before


_TORCH = """
    import torch

    class Swish(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, beta: float = 1.5):
            s = torch.sigmoid(beta * x)
            ctx.save_for_backward({saved})
            return x * s

        @staticmethod
        def backward(ctx, g):
            {opened} = ctx.saved_tensors
            return g * {slope}, None
"""


@pytest.mark.parametrize(
    ("saved", "opened", "slope", "lines"),
    [
        ("x, s", "x, s", "(s + x * s * (1 - s))", ["ctx.beta = beta"]),
        ("s", "(s,)", "(s + 1.5 * s * (1 - s))", ["ctx.save_for_backward(s, x)", "(s, x) = ctx.saved_tensors"]),
    ],
)  # fmt: skip
def test_tensors_are_saved_and_numbers_are_attributes(
    project: Path, saved: str, opened: str, slope: str, lines: list[str]
) -> None:
    text = textwrap.dedent(_TORCH.format(saved=saved, opened=opened, slope=slope))
    if "beta" not in "".join(lines):
        text = text.replace(", beta: float = 1.5", "").replace("beta * x", "1.5 * x")
        text = text.replace(", None", "")
    (project / "model.py").write_text(text)
    run = check_json("model.py", "--fix", cwd=project)
    assert run.gradient("Swish")["verdict"] == "correct"
    written = (project / "model.py").read_text()
    assert all(line in written for line in lines)
