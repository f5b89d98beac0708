"""The operation that loses the digits is named with its line and expression."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.diagnose.blame import Blame, find_blame
from gradcheck_cli.measure.components import GRADIENTS, VALUES
from gradcheck_cli.subject.results import JIT
from tests.conftest import FIXTURES
from tests.traced import failure, fixture, traced


def behind_a_name(x):
    e = jnp.cos(x)
    d = 1 - e
    return d / (x * x)


def over_two_lines(x):
    return (
        jnp.cosh(x)
        - jnp.sinh(x)
    )  # fmt: skip


# A function, where it loses its digits, the expression that does it, and what happens there.
CASES: dict[str, tuple[Callable[[Any], Any], float, str, str]] = {
    "cancellation": (lambda x: jnp.sqrt(x + 1) - jnp.sqrt(x), 1e8, "jnp.sqrt(x + 1) - jnp.sqrt(x)", "cancels: 24 of 24 bits lost"),
    "overflow": (lambda x: jnp.log(1 + jnp.exp(x)), 100.0, "jnp.exp(x)", "overflows in float32: it is 2.69e+43"),
    "square of a large number": (lambda x: jnp.sqrt(jnp.square(jnp.exp(x))), 60.0, "jnp.square(jnp.exp(x))", "overflows in float32: it is 1.30e+52"),
    "underflow": (lambda x: jnp.log(jnp.exp(-x * x)), 20.0, "jnp.exp(-x * x)", "underflows to 0 in float32: it is 1.92e-174"),
    "behind a name": (behind_a_name, 1e-4, "1 - e", "cancels: 24 of 24 bits lost"),
    "over two lines": (over_two_lines, 100.0, "jnp.cosh(x)", "overflows in float32: it is 1.34e+43"),
}  # fmt: skip


def blame(function: Any, x: float, what: str = VALUES, **others: Any) -> Blame | None:
    m = traced(function, [x], cotangents=["base"])
    return find_blame(failure(RuleName.IMPRECISE_VALUE, what=what, **others), m)


@pytest.mark.parametrize("name", CASES)
def test_the_operation_has_its_line_and_expression(name: str) -> None:
    function, x, expression, text = CASES[name]
    cause = blame(function, x)
    assert cause is not None
    assert cause.text == text
    assert cause.spot is not None
    assert (cause.spot.path, cause.spot.text) == (__file__, expression)
    line = linecache.getline(__file__, cause.spot.line)
    assert line[cause.spot.column - 1 :].startswith(expression.split()[0])


def test_a_backward_pass_is_blamed_where_it_stands() -> None:
    cause = blame(fixture("wrong/stability").overflowing, 100.0, GRADIENTS)
    assert cause is not None
    assert cause.spot is not None
    assert cause.spot.text == "jnp.exp(x)"
    lines = (FIXTURES / "wrong" / "stability.py").read_text().splitlines()
    assert "lambda x, ct:" in lines[cause.spot.line - 1]


def test_a_backward_pass_that_cancels_says_how_many_bits_are_lost() -> None:
    cause = blame(fixture("seeds/custom_vjp").log1pexp, -20.0, GRADIENTS)
    assert cause is not None
    assert cause.spot is not None
    assert cause.spot.text == "1 - 1 / (1 + e)"
    assert cause.text == "cancels: 24 of 24 bits lost"


@jax.custom_vjp
def softplus(x):
    return jnp.log(1 + jnp.exp(x))


softplus.defvjp(
    lambda x: (softplus(x), x),
    lambda x, g: (g * jnp.exp(x) / (1 + jnp.exp(x)),),
)


@pytest.mark.parametrize(
    ("what", "text"), [(VALUES, "return jnp.log"), (GRADIENTS, "lambda x, g: (g * jnp.exp")]
)
def test_what_the_rule_computes_again_is_blamed_in_the_rule(what: str, text: str) -> None:
    cause = blame(softplus, 100.0, what)
    assert cause is not None and cause.spot is not None
    assert cause.text == "overflows in float32: it is 2.69e+43"
    assert text in linecache.getline(__file__, cause.spot.line)


def test_what_is_accurate_is_not_blamed() -> None:
    assert blame(lambda x: jnp.log1p(jnp.exp(-x)), 100.0) is None


def test_the_same_function_is_not_blamed_where_it_is_good() -> None:
    assert blame(lambda x: jnp.log(1 + jnp.exp(x)), 1.0) is None


def test_what_shows_only_when_it_is_compiled_cannot_be_pinned_on_one_operation() -> None:
    assert blame(lambda x: jnp.log(1 + jnp.exp(x)), 100.0, modes=(JIT,)) is None
