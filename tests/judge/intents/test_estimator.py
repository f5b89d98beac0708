"""`expect(estimator)`: a gradient that is right on average is held to the mean value's slope."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.inputs.signature import Fixed, Leaf, Signature
from gradcheck_cli.judge.intents.declarations import comment_for
from gradcheck_cli.measure.measurements import Measurements
from tests.conftest import check_json
from tests.support import declare, measured, mismatch, texts

POINTS = [1.0, 2.0, -1.0]


def noisy_square(factor: float, width: float) -> Any:
    """Draws of x² and of so many times its gradient, with noise of this width in it."""

    def draws(keys: int, point: Sequence[Any], cotangent: Sequence[Any], ends: Sequence[Any]):
        noise = width * np.random.default_rng(7).standard_normal(keys)
        values = ends[0] ** 2 + noise[:, None]  # the same at both ends: it goes away
        return [(factor * 2 * point[0] + noise) * cotangent[0]], [values]

    return draws


def square(draws: Any, rule: Any = None) -> Measurements:
    return measured(
        POINTS, lambda x: x * x, lambda x, weight: 2 * x * weight, draws=draws, rule=rule
    )


@pytest.mark.parametrize(
    "rule",
    [RuleName.GRADIENT_MISMATCH, RuleName.UNDECLARED_SURROGATE, RuleName.INCONCLUSIVE_GRADIENT],
)
def test_what_is_right_on_average_is_explained(rule: RuleName) -> None:
    assert declare(square(noisy_square(1.0, 0.5)), "estimator", None, mismatch(rule=rule)) == []


def test_what_is_off_on_average_is_broken() -> None:
    left = texts(declare(square(noisy_square(3.0, 0.5)), "estimator"))
    assert left[0] == ("gradient-mismatch", "it is wrong")
    assert left[1][0] == "broken-intent"
    assert "does not hold: at x = 1, over 48 keys, its mean slope is" in left[1][1]


def test_too_much_noise_is_inconclusive() -> None:
    ((rule, message),) = texts(declare(square(noisy_square(1.0, 100.0)), "estimator"))
    assert rule == "inconclusive-gradient"
    assert "`expect(estimator)` holds could not be told: at x = 1, over 384 keys" in message


def test_without_draws_there_is_no_mean() -> None:
    (_, broken) = declare(square(lambda *ignored: None), "estimator")
    assert broken.message == (
        "`expect(estimator)` does not hold: it takes no key and draws nothing: there is nothing to "
        "take the mean over"
    )


def test_it_is_offered_where_it_holds() -> None:
    def drawn_once(x, weight):
        return np.where(x > 1, 3, 2.5) * x * weight

    for factor, text in ((1.0, "expect(estimator)"), (3.0, None)):
        m = square(noisy_square(factor, 0.5), rule=drawn_once)
        assert comment_for(mismatch(), m) == text


def score(body: str, factor: float) -> Measurements:
    """The score function's gradient of a mean over normal draws, in JAX, so many times too large."""
    import jax
    import jax.numpy as jnp

    from gradcheck_cli.frameworks.jax.fit import fit
    from gradcheck_cli.frameworks.jax.gradient import of_function
    from gradcheck_cli.subject.results import Place

    apply = getattr(jnp, body)

    def noise(key, shape):
        return jax.random.normal(key, (12, *shape))

    @jax.custom_vjp
    def smoothed(x, key):
        return apply(x + 0.5 * noise(key, x.shape)).mean(0)

    def backward(residuals, ct):
        x, key = residuals
        drawn = noise(key, x.shape)
        return factor * jnp.mean(apply(x + 0.5 * drawn) * ct * drawn / 0.5, 0), None

    smoothed.defvjp(lambda x, key: (smoothed(x, key), (x, key)), backward)
    key = Fixed(jax.random.key(0), "key(0)", "test")
    signature = Signature((("x", Leaf("x", (3,), "test")), ("key", key)))
    gradient = of_function(
        smoothed, "smoothed", Place(__file__, 1, "smoothed"), lambda path: False, fit
    )
    subject = fit(gradient, signature, "float32")
    ones = np.ones((3, 3)) * [[1.0], [0.5], [-1.0]]
    return measured(ones, np.tanh, lambda x, weight: weight, draws=subject.with_new_draws)


def test_the_score_estimates_the_slope_of_the_mean_of_a_step() -> None:
    rules = [f.rule for f in declare(score("sign", 1.0), "estimator")]
    assert rules in ([], ["inconclusive-gradient"])  # the noise may be too much, it is not wrong


def test_a_score_that_is_too_large_is_broken() -> None:
    (_, broken) = declare(score("tanh", 4.0), "estimator")
    assert "over 48 keys, its mean slope is" in broken.message


TORCH = """
import torch

"""

CLASS = """
class {name}(torch.autograd.Function):  # cgcheck: expect(estimator)
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


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_where_a_framework_draws_by_itself_each_call_starts_from_a_seed(tmp_path: Path) -> None:
    variants = (("Fine", 64, 0.5, 1.0), ("Off", 64, 0.5, 3.0), ("Noisy", 2, 0.01, 1.0))
    classes = [
        CLASS.format(name=name, count=count, width=width, factor=factor)
        for name, count, width, factor in variants
    ]
    (tmp_path / "a.py").write_text(TORCH + "\n".join(classes))
    run = check_json("a.py", "--points", "4", cwd=tmp_path)
    assert [run.gradient(name)["verdict"] for name, *_ in variants] == [
        "intended",
        "wrong",
        "inconclusive",
    ]
    messages = {name: [f["message"] for f in run.findings(name)] for name, *_ in variants}
    assert any("over 48 keys, its mean slope is" in text for text in messages["Off"])
    assert any(
        "could not be told: at x = " in text and "over 384 keys" in text
        for text in messages["Noisy"]
    )
