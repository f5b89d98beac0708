"""A gradient that is right on average: declared, it is held to the mean value's slope."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

pytestmark = pytest.mark.slow  # each starts cgcheck in a process of its own

SCORE = """
import jax
import jax.numpy as jnp


def noise(key, shape):
    return jax.random.normal(key, (12, *shape))


# cgcheck: expect(estimator)
@jax.custom_vjp
def smoothed(x, key):
    if x.shape != (3,):
        raise ValueError("three numbers")
    return {body}(x + 0.5 * noise(key, x.shape)).mean(0)


def bwd(residuals, ct):
    x, key = residuals
    drawn = noise(key, x.shape)
    return {factor} * jnp.mean({body}(x + 0.5 * drawn) * ct * drawn / 0.5, 0), None


smoothed.defvjp(lambda x, key: (smoothed(x, key), (x, key)), bwd)
"""


@pytest.mark.parametrize("body", ["jnp.tanh", "jnp.sign"])
def test_the_score_estimates_the_slope_of_the_mean(tmp_path: Path, body: str) -> None:
    (tmp_path / "a.py").write_text(SCORE.format(body=body, factor=1.0))
    run = check_json("a.py", "--points", "4", cwd=tmp_path)
    assert run.gradient("smoothed")["status"] == "checked"
    assert not [f for f in run.findings() if f["rule"] in ("gradient-mismatch", "broken-intent")]


def test_one_that_is_off_on_average_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SCORE.format(body="jnp.tanh", factor=4.0))
    run = check_json("a.py", "--points", "4", cwd=tmp_path)
    (broken,) = [f for f in run.findings() if f["rule"] == "broken-intent"]
    assert "over 48 keys, its mean slope is" in broken["message"]


def test_without_a_key_there_is_no_mean(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "import jax\n\n\n# cgcheck: expect(estimator)\n@jax.custom_gradient\n"
        "def double(x):\n    return 2 * x, lambda ct: 3 * ct\n"
    )
    (broken,) = [
        f for f in check_json("a.py", cwd=tmp_path).findings() if f["rule"] == "broken-intent"
    ]
    assert "it takes no key" in broken["message"]


TORCH = """
import torch


class Smoothed(torch.autograd.Function):  # cgcheck: expect(estimator)
    @staticmethod
    def forward(ctx, x):
        drawn = torch.randn({count}, *x.shape)
        ctx.save_for_backward(x, drawn)
        return torch.tanh(x + {width} * drawn).mean(0)

    @staticmethod
    def backward(ctx, grad):
        x, drawn = ctx.saved_tensors
        return {factor} * grad * (torch.tanh(x + {width} * drawn) * drawn / {width}).mean(0)
"""


@pytest.mark.parametrize(
    ("count", "width", "factor", "verdict", "said"),
    [
        (64, 0.5, 1.0, "intended", None),
        (64, 0.5, 3.0, "wrong", "over 48 keys, its mean slope is"),
        (2, 0.01, 1.0, "inconclusive", "could not be told: at x = 1., over 384 keys"),
    ],
)
def test_where_a_framework_draws_by_itself_each_call_starts_from_a_seed(
    tmp_path: Path, count: int, width: float, factor: float, verdict: str, said: str | None
) -> None:
    (tmp_path / "a.py").write_text(TORCH.format(count=count, width=width, factor=factor))
    run = check_json("a.py", "--points", "4", cwd=tmp_path)
    assert run.gradient("Smoothed")["verdict"] == verdict
    messages = [f["message"] for f in run.findings()]
    assert said is None or any(said in message for message in messages)
