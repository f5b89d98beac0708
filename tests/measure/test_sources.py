"""The rungs below balls: what they say lies around the certified truth, and kinks stay kinks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flint import arb

from gradcheck_cli.contract.limits import Limit
from gradcheck_cli.contract.report import Evidence
from gradcheck_cli.frameworks.jax.fit import FittedJax, fit
from gradcheck_cli.frameworks.jax.gradient import JaxGradient, of_function
from gradcheck_cli.inputs.signature import Leaf, Signature
from gradcheck_cli.measure import difference_truth
from gradcheck_cli.measure.ball_truth import Ask, Reals, Source
from gradcheck_cli.measure.components import as_floats
from gradcheck_cli.measure.difference_truth import Differences
from gradcheck_cli.measure.float64_truth import Wide
from gradcheck_cli.measure.sources import sources
from gradcheck_cli.measure.states import KINK, OUTSIDE, REGULAR, UNDECIDED
from gradcheck_cli.reals.enclose import enclose
from gradcheck_cli.reals.program import build
from gradcheck_cli.subject.results import Place, Traces
from tests.support import jax_subject as subject
from tests.traced import ruled

POINTS = np.array([-30.0, -2.0, -0.3, 1e-3, 0.5, 1.0, 7.0, 80.0])


def rungs(subject: FittedJax) -> list[Source]:
    wide = subject.in_float64()
    program = subject.traces().primal
    assert wide is not None and program is not None
    wide.traces()
    return [Reals(program), Wide(wide, "auto", 53), Differences(wide, 53)]


@pytest.mark.parametrize("function", [jnp.sin, jax.nn.softplus, jnp.arctan, lambda x: x**3 - x])
def test_weaker_rungs_agree_with_the_reals(function: Callable[..., Any]) -> None:
    ones = [np.ones(len(POINTS))]
    truths = [s.evaluate([POINTS], ones, Ask(40, ties=True)) for s in rungs(subject(function))]
    certified, *weaker = truths
    for other in weaker:
        assert (other.gradient_states[0] == REGULAR).all()
        assert all(a.overlaps(b) for a, b in zip(certified.values[0], other.values[0], strict=True))
        pairs = zip(certified.gradients[0], other.gradients[0], strict=True)
        assert all(a.overlaps(b) for a, b in pairs)
        radii = np.array([float(b.rad()) for b in other.gradients[0]])
        assert (radii <= 1e-4 * np.abs(as_floats(certified.gradients[0])) + 1e-7).all()


def test_a_kink_is_seen_from_its_sides() -> None:
    at = np.array([-1.0, 0.0, 2.0])
    for source in rungs(subject(jax.nn.relu)):
        states = source.evaluate([at], [np.ones(3)], Ask(40, ties=True)).gradient_states[0]
        assert states.tolist() == [REGULAR, KINK, REGULAR]


def test_differences_contract_with_the_cotangent() -> None:
    both = subject(lambda x: jnp.stack([x[0] * x[1], x[0] - x[1]]), (2,))
    x, ct = np.array([[2.0, 3.0]]), np.array([[5.0, 7.0]])
    truth = rungs(both)[2].evaluate([x], [ct], Ask(40, ties=False))
    assert np.allclose(as_floats(truth.gradients[0]), [[5 * 3 + 7, 5 * 2 - 7]])


class Counted:
    """A subject that counts the points at which it is asked for a value."""

    def __init__(self, inner: FittedJax) -> None:
        self.inner, self.asked = inner, 0

    def primal_values(self, points: list[Any]) -> list[Any]:
        self.asked += len(points[0])
        return list(self.inner.primal_values(points))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def test_of_too_many_points_some_are_left_open_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(difference_truth, "DIFFERENCES_ROWS", Limit(120, "", "", ""))
    counted: Any = Counted(subject(jnp.sin))
    truth = Differences(counted, 53).evaluate([POINTS], [np.ones(8)], Ask(40, ties=True))
    expected = [REGULAR, *[UNDECIDED] * 3, REGULAR, *[UNDECIDED] * 2, REGULAR]
    assert truth.gradient_states[0].tolist() == expected
    assert counted.asked <= 120 + len(POINTS)


def test_points_without_a_value_are_not_moved() -> None:
    counted: Any = Counted(subject(jnp.log))
    truth = Differences(counted, 53).evaluate([-abs(POINTS)], [np.ones(8)], Ask(40, ties=True))
    assert (truth.value_states[0] == OUTSIDE).all()
    assert counted.asked == len(POINTS)


def test_what_has_no_program_falls_to_differences() -> None:
    def host(x: Any) -> Any:
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(np.sin, shape, x, vmap_method="sequential")

    rule = jax.custom_vjp(host)
    rule.defvjp(lambda x: (host(x), x), lambda x, ct: (ct * jnp.cos(x),))
    gradient = JaxGradient(
        name="f", kind="custom_vjp", place=Place(__file__, 1, "f"), rule=rule, primal=host,
        own=lambda path: path == __file__, fitter=fit,
    )  # fmt: skip
    found = sources(fit(gradient, Signature((("x", Leaf("x", (), "test")),)), "float32"))
    assert found.primal.evidence is Evidence.FINITE_DIFFERENCE
    assert found.rule is not None and found.rule.evidence is Evidence.FLOAT64
    assert "pure_callback" in (found.reason or "")


def test_midpoints_that_agree_are_an_estimate_and_say_so() -> None:
    def chaos(x: Any) -> Any:
        for _ in range(90):
            x = 4 * x - 4 * x * x
        return x

    program = build(jax.make_jaxpr(chaos)(jax.ShapeDtypeStruct((), jnp.float32)))
    x = [np.array([0.3125])]
    short = enclose(program, x, goal=24, most_bits=256)
    assert short.estimated.all() and short.decided.all()
    certified = enclose(program, x, goal=24)
    assert not certified.estimated.any()
    ball: arb = short.outs[0][0]
    assert ball.overlaps(certified.outs[0][0]) and ball.rel_accuracy_bits() >= 20


class WithoutInnerRules:
    """A plain function whose value is traced, and the rules that it calls are not."""

    def __init__(self, inner: FittedJax) -> None:
        self._inner = inner

    def traces(self) -> Traces:
        return Traces(self._inner.traces().primal, None, reason="its inner rules are a mystery")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_inner_rules_that_could_not_be_traced_are_judged_in_float64() -> None:
    plain: Any = WithoutInnerRules(subject(jnp.sin))
    found = sources(plain)
    assert isinstance(found.primal, Reals)
    assert isinstance(found.rule, Wide)
    assert (found.evidence, found.reason) == (Evidence.FLOAT64, "its inner rules are a mystery")


def test_the_rules_that_a_function_calls_are_judged_where_no_walk_is_to_be_had() -> None:
    """In float64 as they are, beside the function that is free of them: never by themselves."""
    inner = ruled(jnp.sin, lambda inputs, ct: (2 * ct * jnp.cos(inputs[0]),))
    place = Place(__file__, 1, "f")
    gradient = of_function(lambda x: 1.0 * inner(x), "f", place, lambda path: True, fit)
    found = sources(
        fit(gradient, Signature((("x", Leaf("x", (), "test")),)), "float32"), certified=False
    )
    assert isinstance(found.primal, Wide)
    assert isinstance(found.rule, Wide)
    at_one = [np.ones(1)]
    truth, rule = (
        each.evaluate(at_one, at_one, Ask(40, ties=False, nudged=False)).gradients[0][0]
        for each in (found.primal, found.rule)
    )
    assert float(rule.mid()) == pytest.approx(2 * float(truth.mid()))
