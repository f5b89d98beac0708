"""A library function is offered if it is the primal over the reals and its floats are good."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.frameworks.jax.fit import FittedJax
from gradcheck_cli.judge.repair.replacement import find_replacement
from gradcheck_cli.measure.components import GRADIENTS, VALUES
from gradcheck_cli.reals.program import build
from gradcheck_cli.subject.protocol import LibraryFunction
from gradcheck_cli.subject.results import OP_BY_OP, Floats, Spelled
from tests.traced import traced

POINTS = [-20.0, -3.0, -0.5, 0.25, 1.5, 4.0, 30.0, 100.0]
SOFTPLUS, SIGMOID = "jax.nn.softplus(x)", "ct * jax.nn.sigmoid(x)"


def log1pexp(x):
    return jnp.log(1 + jnp.exp(x))


def softplus(x):
    return np.logaddexp(0.0, x)


def sigmoid(x):
    return np.exp(-np.logaddexp(0.0, -x))


def stable(
    function: Callable[[Any], Any] = jax.nn.softplus,
    slope: Callable[[Any], Any] = jax.nn.sigmoid,
    *,
    floats: Callable[[Any], Any] = softplus,
    slopes: Callable[[Any], Any] = sigmoid,
) -> LibraryFunction:
    """A library function whose programs are these, and whose floats numpy gives."""

    def run(points: Sequence[Any], weights: Sequence[Any], modes: Sequence[str]) -> Any:
        values = [floats(points[0])]
        return {OP_BY_OP: Floats(values, values, None, None)}

    def gradients(points: Sequence[Any], weights: Sequence[Any]) -> list[Any]:
        return [weights[0] * slopes(points[0])]

    subject: Any = SimpleNamespace(
        outputs=[()], traces=traced(function, POINTS).subject.traces, run=run
    )
    number = jax.ShapeDtypeStruct((), jnp.float32)
    spelled = build(jax.make_jaxpr(lambda x, ct: ct * slope(x))(number, number))
    return LibraryFunction(subject, SOFTPLUS, SIGMOID, lambda: Spelled(spelled, gradients))


def offered(monkeypatch: pytest.MonkeyPatch, what: str, *library: LibraryFunction) -> str | None:
    """What is offered for log(1 + exp(x)) at x = 100."""
    monkeypatch.setattr(FittedJax, "library_functions", lambda self: iter(library))
    found = find_replacement(traced(log1pexp, POINTS, cotangents=["base"]), 7, what)
    return None if found is None else found.value if what == VALUES else found.gradient


@pytest.mark.parametrize(("what", "text"), [(VALUES, SOFTPLUS), (GRADIENTS, SIGMOID)])
def test_the_stable_function_is_offered(
    what: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert offered(monkeypatch, what, stable()) == text


def test_another_function_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    near = stable(lambda x: jax.nn.softplus(x) + 1e-6)
    assert offered(monkeypatch, VALUES, near) is None


def test_another_derivative_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = stable(slope=lambda x: jax.nn.sigmoid(-x))
    assert offered(monkeypatch, VALUES, wrong) == SOFTPLUS
    assert offered(monkeypatch, GRADIENTS, wrong) is None


def test_one_that_is_no_better_there_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    def overflowing(x):
        return np.where(x > 88, np.inf, softplus(x))

    assert offered(monkeypatch, VALUES, stable(floats=overflowing)) is None
    lost = stable(slopes=lambda x: sigmoid(x) + 1e-3)
    assert offered(monkeypatch, GRADIENTS, lost) is None


def test_the_first_that_is_good_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = stable(floats=lambda x: x * np.nan)
    assert offered(monkeypatch, VALUES, bad, stable()) == SOFTPLUS


def test_an_empty_library_offers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert offered(monkeypatch, VALUES) is None
