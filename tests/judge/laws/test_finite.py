"""NaN and infinity of a framework, where the truth is a number."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.contract.report import Outcome, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.inputs.cotangents import BASE, OTHER, ZERO
from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.judge.laws.finite import FINITE
from gradcheck_cli.judge.laws.law import judgement
from gradcheck_cli.measure.components import GRADIENTS, VALUES
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.run_alone import Alone
from gradcheck_cli.measure.states import KINK
from gradcheck_cli.project.input_specs import Bounds
from gradcheck_cli.subject.results import EAGER, JIT, OP_BY_OP
from tests.support import Numbers, measured
from tests.traced import ruled, traced

POINTS = [0.5, 1.0, 100.0, 2.0]


def slope(x: Any, weight: Any) -> Any:
    return 2 * x * weight


def bad_at(place: float, bad: float) -> Any:
    """The right gradient but at one point."""
    return lambda x, weight: np.where(x == place, bad, slope(x, weight))


def of(**measurements: Any) -> Measurements:
    return measured(POINTS, np.square, slope, **measurements)


def failures(m: Measurements) -> list[Failure]:
    return list(judgement(FINITE, m).failures)


def test_finite_floats_pass() -> None:
    result = judgement(FINITE, of())
    assert (result.outcome, result.failures) == (Outcome.PASS, ())


def test_nan_is_an_error_at_its_point() -> None:
    m = of(floats={"custom": bad_at(100.0, np.nan)})
    [failure] = failures(m)
    assert (failure.rule, failure.severity) == (RuleName.NON_FINITE_GRADIENT, Severity.ERROR)
    assert m.points[0][failure.row] == 100.0
    assert (failure.what, failure.component) == (GRADIENTS, 0)
    assert failure.ground == Ground(Kind.GRADIENT_FLOATS, "nan")
    assert failure.message == "the gradient is NaN where the truth is finite"
    assert failure.modes == (EAGER,)
    assert failure.alone == Alone(failure.row, EAGER, "custom")


def test_a_failure_knows_where_else_it_holds() -> None:
    m = of(floats={"custom": bad_at(100.0, np.nan)})
    [failure] = failures(m)
    assert failure.holds is not None and failure.as_grave is not None
    at_100 = m.points[0] == 100.0
    assert (failure.holds(m) == at_100).all()
    assert (failure.as_grave(m)[m.base_rows] == at_100[m.base_rows]).all()


def test_an_infinite_value_is_an_error_of_the_value() -> None:
    [failure] = failures(of(floats={"value": lambda x: np.where(x == 2.0, np.inf, x * x)}))
    assert (failure.rule, failure.severity) == (RuleName.NON_FINITE_VALUE, Severity.ERROR)
    assert (POINTS[failure.row], failure.what) == (2.0, VALUES)
    assert failure.ground == Ground(Kind.VALUE_FLOATS, "inf")
    assert failure.message == "the value is infinite where the truth is finite"


def test_of_a_plain_function_autodiff_is_judged() -> None:
    [failure] = failures(of(has_rule=False, floats={"auto": bad_at(2.0, np.nan)}))
    assert failure.rule is RuleName.NON_FINITE_GRADIENT


def test_where_the_truth_is_not_finite_nothing_is_asked() -> None:
    def number(x: Any, weight: Any = 1.0) -> Any:
        return np.where(x == 0, np.nan, x * weight)

    assert failures(measured([0.0, 1.0], number, number)) == []


def test_nan_of_the_batch_alone_is_no_fault_of_the_rule() -> None:
    everywhere_nan = {"custom": lambda x, weight: np.full_like(x, np.nan)}
    assert failures(of(floats=everywhere_nan, alone={"custom": slope})) == []


def test_nan_beyond_the_reach_is_a_note() -> None:
    [failure] = failures(of(floats={"custom": bad_at(2.0, np.nan)}, beyond=1))
    assert failure.severity is Severity.NOTE
    assert (
        failure.message
        == "the gradient is NaN where the truth is finite (at inputs beyond --reach)"
    )


@pytest.mark.parametrize(("second", "severity"), [(1e-15, Severity.NOTE), (1.0, Severity.ERROR)])
def test_nan_where_several_arguments_are_tiny_at_once_is_a_note(
    second: float, severity: Severity
) -> None:
    points = {"x": np.array([1e-15, 1.0]), "y": np.array([second, 2.0])}
    bad = {"custom": lambda x, y, weight: (np.where(x < 1e-9, np.nan, y * weight), x * weight)}
    m = measured(points, np.multiply, lambda x, y, weight: (y * weight, x * weight), floats=bad)
    [failure] = failures(m)
    assert failure.severity is severity
    assert failure.message.endswith("tiny at once)") is (severity is Severity.NOTE)


def test_an_error_that_shows_only_op_by_op_is_a_warning() -> None:
    nan = bad_at(100.0, np.nan)
    bad, good = of(floats={"custom": nan}), of(alone={"custom": nan})
    both = {JIT: good.floats[EAGER], OP_BY_OP: bad.floats[EAGER]}
    [failure] = failures(dataclasses.replace(bad, floats=both))
    assert (failure.severity, failure.modes) == (Severity.WARNING, (OP_BY_OP,))
    [failure] = failures(dataclasses.replace(bad, floats={**both, JIT: bad.floats[EAGER]}))
    assert (failure.severity, failure.modes) == (Severity.ERROR, (JIT, OP_BY_OP))


def test_nan_at_a_kink_where_autodiff_gives_nan_too_is_a_note() -> None:
    def with_nan(x: Any, weight: Any) -> Any:
        return np.where(x == 0, np.nan, np.sign(x)) * weight

    def severity(auto: Any) -> Severity:
        m = measured(
            [0.0, 1.0, -2.0],
            np.abs,
            lambda x, weight: np.sign(x) * weight,
            truth=partial(Numbers, states={0.0: KINK}),
            floats={"custom": with_nan, "auto": auto},
        )
        (failure,) = judgement(FINITE, m).failures
        return failure.severity

    assert severity(with_nan) is Severity.NOTE
    assert severity(lambda x, weight: np.sign(x) * weight) is Severity.ERROR


def hardened(x: Any, y: Any) -> Any:
    """Beyond the range on the way where a large base has a large exponent."""
    return jnp.log1p(jnp.power(x, y))


def grown(x: Any, y: Any) -> Any:
    return jnp.log1p(jnp.exp(x)) + y


ORDINARY = ((1.5, 0.5), (1.25, 2.0), (1.75, 1.0))


@pytest.mark.parametrize(
    ("function", "where"), [(hardened, " (only where `x` and `y` meet)"), (grown, "")]
)
def test_what_takes_two_arguments_at_once_says_so(function: Any, where: str) -> None:
    columns = [np.array(column) for column in zip(*ORDINARY, (1e4, 15.0), strict=True)]
    [value] = [f for f in failures(traced(function, *columns, ran=True)) if f.what == VALUES]
    assert value.message == f"the value is infinite where the truth is finite{where}"


def test_what_one_argument_does_alone_is_not_hidden_by_what_takes_two() -> None:
    """The plainest row, of both; a later one, of one argument; two equal ones are met soon enough."""

    def both(x: Any, y: Any) -> Any:
        return jnp.log1p(jnp.power(x, y)) + jnp.log1p(jnp.exp(x))

    columns = [np.array(c) for c in zip(*ORDINARY, (60.0, 50.0), (100.0, 0.5), strict=True)]
    m = traced(both, *columns, ran=True)
    compiled = dataclasses.replace(m, floats={JIT: m.floats[OP_BY_OP], **m.floats})
    [value] = [f for f in failures(compiled) if f.what == VALUES]
    assert (value.severity, value.row) == (Severity.ERROR, 4)


def test_equal_arguments_are_met_whatever_else_is_large() -> None:
    rows = (*((*row, 1.0) for row in ORDINARY), (1.0, 1.0, 100.0))
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    m = traced(lambda x, y, z: jnp.sin(x - y) / (x - y) + z, *columns, ran=True, kinks=True)
    messages = [f.message for f in failures(m) if f.what == VALUES]
    assert messages == ["the value is NaN where the truth is finite"]


def test_equal_arguments_are_met_alone() -> None:
    columns = [np.array(column) for column in zip(*ORDINARY, (1.0, 1.0), strict=True)]
    m = traced(lambda x, y: jnp.sin(x - y) / (x - y), *columns, ran=True, kinks=True)
    messages = [f.message for f in failures(m) if f.what == VALUES]
    assert messages == ["the value is NaN where the truth is finite"]


def test_what_takes_two_arguments_at_once_is_a_note() -> None:
    columns = [np.array(column) for column in zip(*ORDINARY, (1e4, 15.0), strict=True)]
    m = traced(hardened, *columns, ran=True)
    compiled = dataclasses.replace(m, floats={JIT: m.floats[OP_BY_OP], **m.floats})
    [value] = [f for f in failures(compiled) if f.what == VALUES]
    assert (value.severity, value.modes) == (Severity.NOTE, (JIT, OP_BY_OP))


def share(p: Any, q: Any) -> Any:
    """0/0 only where both are 0, or both are 1."""
    return jnp.divide((p - q) ** 2, p * (1 - q) + q * (1 - p))


SHARES = Domain(Bounds(0.0, 1.0, text="in [0, 1]"))


@pytest.mark.parametrize(
    ("function", "row", "domain", "where"),
    [
        (share, (0.0, 0.0), SHARES, " (only where `x` and `y` meet)"),
        (share, (1.0, 1.0), SHARES, " (only where `x` and `y` meet)"),
        (share, (1.0, 1.0), None, ""),
        (lambda x, y: jnp.divide(jnp.sin(x + y), x + y), (1.0, -1.0), None, ""),
        (lambda x, y: jnp.divide(jnp.expm1(x), x) + y, (0.0, 1.0), SHARES, ""),
    ],
)
def test_shares_that_are_0_or_1_at_once_say_so(
    function: Any, row: tuple[float, float], domain: Any, where: str
) -> None:
    columns = [np.array(column) for column in zip((0.5, 0.25), (0.25, 0.75), row, strict=True)]
    m = traced(function, *columns, ran=True, kinks=True, domain=domain)
    [value] = [f for f in failures(m) if f.what == VALUES]
    assert value.message == f"the value is NaN where the truth is finite{where}"
    assert (
        value.severity is Severity.WARNING
    )  # without a place to meet: for it shows op by op alone


def test_what_only_the_rule_does_is_an_error_wherever_it_is() -> None:
    """Another output has lost its digits there, and the value is near the end of the range."""

    def two(x: Any, y: Any) -> Any:
        return jnp.power(x, 4) * y, jnp.tanh(x) + (0.3 + y) - y

    def rule(primals: Any, cotangents: Any) -> Any:
        (x, y), (a, b) = primals, cotangents
        slope = a * 4 * x**3 * y + b * (1 - jnp.tanh(x) ** 2)
        return jnp.where(jnp.abs(x) > 1e8, jnp.nan, slope), a * x**4

    columns = [np.array(column) for column in zip((1.5, 1.0), (2e8, 1e3), strict=True)]
    found = failures(traced(ruled(two, rule), *columns, ran=True))
    (gradient,) = [f for f in found if f.what != VALUES]
    assert gradient.severity in (Severity.ERROR, Severity.WARNING)  # it shows op by op alone
    assert gradient.message == "the gradient is NaN where the truth is finite"


@pytest.mark.parametrize("cotangents", [(BASE, OTHER), (BASE, ZERO)])
def test_a_gradient_is_not_asked_for_where_the_value_is_beyond_the_range(
    cotangents: tuple[str, ...],
) -> None:
    def tall(x: Any, y: Any) -> Any:
        return jnp.power(x, 20) + jnp.sin(y)

    def rule(primals: Any, cotangent: Any) -> Any:
        x, y = primals
        power = jnp.power(x, 20)
        return cotangent * 20 * jnp.power(x, 19), cotangent * jnp.cos(y) * (power / power)

    columns = [np.array(column) for column in zip((1.5, 1.0), (1000.0, 1.0), strict=True)]
    found = failures(traced(ruled(tall, rule), *columns, ran=True, cotangents=cotangents))
    assert [(f.severity, f.message) for f in found if f.what != VALUES] == [
        (Severity.NOTE, "the gradient is NaN where the truth is finite (where the value is at the end of the range of float32, or beyond)")
    ]  # fmt: skip


def halved(x: Any) -> Any:
    """Half of x; its rule takes steps that never come as near as it asks."""
    return x / 2


def halved_by_steps(kept: Any, weight: Any) -> Any:
    def more(state: Any) -> Any:
        return jnp.abs(state + state - weight) > 1e-6

    def step(state: Any) -> Any:
        return 0.5 * (state + 0.5 * weight) + 1e-5 * weight

    return (jax.lax.while_loop(more, step, jnp.zeros_like(weight)) + 0 * kept[0],)


def test_a_loop_of_the_rule_that_does_not_end_is_told_as_one() -> None:
    [failure] = failures(traced(ruled(halved, halved_by_steps), [1.0, 3.0], ran=True))
    assert failure.message == (
        "the gradient is NaN, or its loop never ends and was cut off, where the truth is finite"
    )
