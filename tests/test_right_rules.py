"""Random compositions with autodiff's own pullback as the rule: only precision may speak."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.check.deadline import Clock
from gradcheck_cli.check.gradient import examine
from gradcheck_cli.check.progress import Progress
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.report import Evidence, Outcome, Severity, Status
from gradcheck_cli.contract.worker import Checked, Task
from gradcheck_cli.frameworks.load import load
from gradcheck_cli.inputs.cotangents import BASE, HUGE, NEGATED, OTHER, SUM, TINY, ZERO
from gradcheck_cli.judge.fingerprint import Site
from gradcheck_cli.judge.laws.formula import FORMULA
from gradcheck_cli.judge.laws.law import judgement
from gradcheck_cli.judge.laws.linearity import LINEARITY
from gradcheck_cli.measure.formula_gap import comparison
from tests.traced import gradient_of, traced

RULES = 96
TIED = {27}  # it sorts three numbers that are 0 or 1: no derivative anywhere
CHUNKS = 8
PRECISION = {"non-finite-gradient", "non-finite-value", "imprecise-gradient", "imprecise-value"}
NOTES = {"redundant-rule", "repaired-autodiff", "safe-at-singularity", "blind-inputs"}

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


@dataclass(frozen=True)
class Composition:
    """One to four unary steps, perhaps a second argument, perhaps a reduction."""

    steps: Sequence[Callable[..., Any]]
    join: Callable[..., Any]
    aside: Callable[..., Any]
    end: Callable[..., Any] | None
    two: bool

    def __call__(self, x: Any, y: Any = None) -> Any:
        h = x
        for step in self.steps[:2]:
            h = step(h)
        if y is not None:
            h = self.join(h, y)
        elif self.joins_itself:
            h = self.join(h, self.aside(x))
        for step in self.steps[2:]:
            h = step(h)
        return h if self.end is None else self.end(h)

    @property
    def joins_itself(self) -> bool:
        return not self.two and len(self.steps) > 3

    @property
    def function(self) -> Callable[..., Any]:
        """A function of as many arguments as it takes."""

        def of_one(x: Any) -> Any:
            return self(x)

        def of_two(x: Any, y: Any) -> Any:
            return self(x, y)

        return of_two if self.two else of_one

    @property
    def parts(self) -> set[tuple[str, object]]:
        """What it is made of, each with its place."""
        parts: set[tuple[str, object]] = {("step", step) for step in self.steps}
        if self.two or self.joins_itself:
            parts.add(("join", self.join))
        if self.joins_itself:
            parts.add(("aside", self.aside))
        return parts if self.end is None else parts | {("end", self.end)}


def composition(seed: int) -> Composition:
    pick = random.Random(seed)
    steps = [pick.choice(UNARY) for _ in range(pick.randint(1, 4))]
    join, aside = pick.choice(BINARY), pick.choice(UNARY)
    end = pick.choice(WHOLE) if pick.random() < 0.3 else None
    return Composition(steps, join, aside, end, two=pick.random() < 0.25)


def covering() -> list[int]:
    """Seeds that have every part of all of them: one is left out if others have all of its parts."""
    seeds: list[int] = []
    covered: set[tuple[str, object]] = set()
    for seed in range(RULES):
        parts = composition(seed).parts
        if parts - covered:
            seeds.append(seed)
            covered |= parts
    return seeds


COVERING = covering()


def ruled(function: Callable[..., Any]) -> Any:
    """The function, with its own pullback for a rule."""
    rule = jax.custom_vjp(function)
    rule.defvjp(lambda *args: jax.vjp(function, *args), lambda pullback, ct: pullback(ct))
    return rule


def examined(seed: int) -> Checked:
    gradient = gradient_of(ruled(composition(seed).function))
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
    """Every function at every place of a composition meets all laws."""
    for seed in COVERING[chunk::CHUNKS]:
        result = examined(seed)
        assert result.gradient.status is (Status.UNCHECKED if seed in TIED else Status.CHECKED)
        loud = [f for f in result.findings if f.rule not in PRECISION | NOTES]
        assert not loud, (seed, [f.message for f in loud])
        laws = {law.law: law.outcome for law in result.gradient.laws}
        assert laws.get("formula", "pass") in ("pass", "not-covered"), (seed, laws)
        assert laws.get("linearity", "pass") == "pass", (seed, laws)
        jax.clear_caches()


NUMBERS = np.array([-90.0, -3.0, -1.0, -0.25, 0.0, 0.125, 0.5, 0.75, 1.0, 1.5, 2.0, 7.0, 40.0])
VECTORS = np.stack([np.roll(NUMBERS, k) for k in range(3)], axis=1)
COTANGENTS = (BASE, OTHER, SUM, ZERO, NEGATED, TINY, HUGE)


@pytest.mark.parametrize("seed", range(RULES))
def test_the_pullback_is_the_right_formula_and_linear(seed: int) -> None:
    """Over the reals, without a float: every composition."""
    pieces = composition(seed)
    first = NUMBERS if pieces.end is None else VECTORS
    columns = [first, first[::-1] / 4] if pieces.two else [first]
    m = traced(ruled(pieces.function), *columns, cotangents=COTANGENTS)
    for law in (FORMULA, LINEARITY):
        result = judgement(law, m)
        if law is FORMULA and not comparison(m).compared:  # a kink at every point
            by_integral = result.evidence is Evidence.MULTIPRECISION
            assert result.outcome is (Outcome.PASS if by_integral else Outcome.NOT_COVERED), result
        else:
            assert result.outcome is Outcome.PASS, result
        assert [f for f in result.failures if f.severity is not Severity.NOTE] == []
        assert {f.rule for f in result.failures} <= NOTES
