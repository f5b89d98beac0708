"""Random compositions with autodiff's own pullback as the rule: only precision may speak."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from gradcheck_cli.check.deadline import Clock
from gradcheck_cli.check.gradient import examine
from gradcheck_cli.check.progress import Progress
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.report import Status
from gradcheck_cli.contract.worker import Checked, Task
from gradcheck_cli.frameworks.jax.adopt import adopt
from gradcheck_cli.frameworks.load import load
from gradcheck_cli.judge.fingerprint import Site
from gradcheck_cli.subject.results import Found

RULES = 96
CHUNKS = 8
PRECISION = {"non-finite-gradient", "non-finite-value", "imprecise-gradient", "imprecise-value"}
NOTES = {"redundant-rule", "repaired-autodiff", "safe-at-singularity"}

UNARY: list[Callable[..., Any]] = [
    jnp.sin, jnp.cos, jnp.tanh, jnp.exp, jnp.log, jnp.sqrt, jnp.abs, jnp.square, jax.nn.sigmoid,
    jax.nn.softplus, jax.nn.relu, jnp.expm1, jnp.log1p, jnp.arctan, jnp.cosh, jax.nn.gelu, jax.nn.elu,
    jax.nn.silu, jnp.sinh, jnp.floor, jnp.reciprocal, jnp.arcsinh, jax.scipy.special.erf,
    lambda x: 2 * x - 1, lambda x: x**3, lambda x: jnp.where(x > 1, x, x * x), lambda x: jnp.clip(x, -1, 1),
    jnp.sign, jnp.cbrt, jax.nn.hard_tanh, jnp.round,
]  # fmt: skip
BINARY: list[Callable[..., Any]] = [
    jnp.add, jnp.multiply, jnp.subtract, jnp.maximum, jnp.minimum, jnp.divide, jnp.logaddexp,
    jnp.hypot, jnp.arctan2,
]  # fmt: skip
WHOLE: list[Callable[..., Any]] = [
    jnp.sum, jnp.mean, jnp.max, jnp.prod, jax.scipy.special.logsumexp, jnp.linalg.norm,
    jax.nn.softmax, jnp.cumsum, jnp.sort, jnp.var,
]  # fmt: skip


def composition(seed: int) -> Callable[..., Any]:
    """One to four unary steps, perhaps a second argument, perhaps a reduction."""
    pick = random.Random(seed)
    steps = [pick.choice(UNARY) for _ in range(pick.randint(1, 4))]
    join, aside = pick.choice(BINARY), pick.choice(UNARY)
    end = pick.choice(WHOLE) if pick.random() < 0.3 else None
    two = pick.random() < 0.25

    def body(x: Any, y: Any) -> Any:
        h = x
        for step in steps[:2]:
            h = step(h)
        if y is not None:
            h = join(h, y)
        elif len(steps) > 3:
            h = join(h, aside(x))
        for step in steps[2:]:
            h = step(h)
        return h if end is None else end(h)

    return body if two else (lambda x: body(x, None))


def examined(seed: int) -> Checked:
    function = composition(seed)
    rule = jax.custom_vjp(function)
    rule.defvjp(lambda *args: jax.vjp(function, *args), lambda pullback, ct: pullback(ct))
    gradient = adopt(Found(rule, "custom_vjp", __file__, 1), lambda path: path == __file__)
    assert gradient is not None
    task = Task(
        path="", root="/", display="", module=None, functions=[], marked={}, dtypes=["float32"],
        points=80, seed=0, max_time=None, at=[], reach=1e9, device="cpu", cache=None,
    )  # fmt: skip
    site = Site("right.py", 1, 1, 2, f"rule{seed}", "right.py")
    progress = Progress(f"rule{seed}", 1, lambda event: None, Clock(None))
    *_, checked = examine(Request(gradient, load("jax"), task, site, progress))
    return checked


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_only_precision_speaks_about_right_rules(chunk: int) -> None:
    checked = 0
    for seed in range(chunk, RULES, CHUNKS):
        result = examined(seed)
        checked += result.gradient.status is Status.CHECKED
        loud = [f for f in result.findings if f.rule not in PRECISION | NOTES]
        assert not loud, (seed, [f.message for f in loud])
        laws = {law.law: law.outcome for law in result.gradient.laws}
        assert laws.get("formula", "pass") == "pass", (seed, laws)
        assert laws.get("linearity", "pass") == "pass", (seed, laws)
        jax.clear_caches()
    assert checked >= 0.9 * RULES / CHUNKS
