"""Iterations: the derivative of the limit is admitted, and points without one are left out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from gradcheck_cli.contract.report import Evidence
from gradcheck_cli.measure.components import GRADIENTS, VALUES, as_floats
from gradcheck_cli.measure.formula_gap import comparison
from gradcheck_cli.measure.iterations import Settled, _ends_somewhere
from gradcheck_cli.measure.states import OUTSIDE, REGULAR
from gradcheck_cli.subject.results import Sample
from tests.traced import ruled, traced

POINTS = [2.0, 3.0, 0.5, -1.5]


def newton(a: Any) -> Any:
    return lax.fori_loop(0, 30, lambda i, x: 0.5 * (x + a / x), jnp.maximum(a, 1.0))


def loose(a: Any) -> Any:
    """Three steps: far from the limit."""
    return lax.fori_loop(0, 3, lambda i, x: 0.5 * (x + a / x), jnp.full_like(a, 4.0))


def walking(a: Any) -> Any:
    """Newton's steps to the root; below zero it goes on for ever, with a derivative of 1 at each step."""
    start = jnp.where(a > 0, jnp.maximum(a, 1.0), a)
    return lax.fori_loop(
        0, 30, lambda i, x: jnp.where(a > 0, 0.5 * (x + jnp.abs(a) / x), x - 1), start
    )


def decay(a: Any) -> Any:
    return lax.fori_loop(0, 10, lambda i, y: y - 0.1 * a * y, jnp.ones_like(a))


def cell(a: Any) -> Any:
    return lax.fori_loop(0, 10, lambda i, h: h + 0.1 * jnp.tanh(a - 0.1 * h), jnp.zeros_like(a))


def of_root(function: Any, factor: float = 1.0) -> Any:
    return ruled(function, lambda inputs, ct: (factor * ct / (2 * function(*inputs)),))


def test_a_point_without_a_limit_is_outside_of_the_domain() -> None:
    m = traced(of_root(newton), POINTS, ran=True)
    assert m.sources.seeks
    negative = m.points[0] < 0
    assert (m.reference.states(VALUES)[negative] == OUTSIDE).all()
    assert (m.reference.states(GRADIENTS)[negative] == OUTSIDE).all()
    assert (m.reference.states(VALUES)[~negative] == REGULAR).all()
    assert not comparison(m).differs.any()


def test_what_goes_on_for_ever_has_no_derivative_of_its_limit_either() -> None:
    m = traced(of_root(walking), POINTS, ran=True)
    assert m.sources.seeks
    negative = m.points[0] < 0
    assert (m.reference.states(VALUES)[negative] == OUTSIDE).all()
    assert (m.reference.states(GRADIENTS)[negative] == OUTSIDE).all()
    assert not comparison(m).differs.any()


def test_of_a_sample_the_values_that_are_judged_have_to_settle() -> None:
    settled = Settled(np.zeros((2, 2)), np.array([[True, False], [True, True]]))
    places = (np.array([1, 3]),)
    rows: Any = SimpleNamespace(
        count=2,
        cotangents=[np.array([[1.0, 0.0, 1.0, 0.0], [1.0, 2.0, 3.0, 4.0]])],
        subject=SimpleNamespace(sample=Sample(places, ())),
    )
    assert _ends_somewhere(settled, rows).tolist() == [True, True]  # the other has no weight
    rows.cotangents[0][0, 3] = 1.0
    assert _ends_somewhere(settled, rows).tolist() == [False, True]


def test_far_from_the_limit_the_rule_of_the_limit_is_admitted() -> None:
    m = traced(of_root(loose), [2.0, 3.0], ran=True)
    assert m.sources.seeks
    assert m.evidence is Evidence.FLOAT64
    assert not comparison(m).differs.any()


@pytest.mark.parametrize("function", [newton, loose])
def test_a_share_of_the_right_rule_is_admitted_nowhere(function: Any) -> None:
    m = traced(of_root(function, 0.9), [2.0, 3.0], ran=True)
    assert comparison(m).differs.all()


@pytest.mark.parametrize(("terms", "is_wrong"), [(3, True), (60, False)])
def test_an_adjoint_that_is_cut_short_is_no_limit(terms: int, is_wrong: bool) -> None:
    """x = cos(ax) / 2, by iteration; its derivative by a Neumann series of so many terms, which would come to the right limit."""

    def solved(a: Any) -> Any:
        start = (0.5 * jnp.ones_like(a), jnp.zeros_like(a))
        return lax.while_loop(
            lambda s: jnp.abs(s[0] - s[1]) > 1e-7, lambda s: (0.5 * jnp.cos(a * s[0]), s[0]), start
        )[0]

    def rule(inputs: Any, ct: Any) -> Any:
        (a,) = inputs
        x = solved(a)
        along, push = -0.5 * a * jnp.sin(a * x), -0.5 * x * jnp.sin(a * x)
        return (push * lax.fori_loop(0, terms, lambda i, u: ct + along * u, ct),)

    m = traced(ruled(solved, rule), [1.0, 1.5, 2.0], ran=True)
    assert comparison(m).differs.any() == is_wrong


@pytest.mark.parametrize("function", [decay, cell])
def test_steps_that_come_to_no_limit_are_a_program_like_any_other(function: Any) -> None:
    m = traced(ruled(function, lambda inputs, ct: (0.0 * ct,)), [0.6, 0.5, 0.3], ran=True)
    assert not m.sources.seeks
    assert comparison(m).differs.all()
    assert (as_floats(m.reference.balls(GRADIENTS)) != 0).all()


def test_a_loop_that_never_ends_in_floats_is_named() -> None:
    def function(a: Any) -> Any:
        return lax.while_loop(
            lambda s: jnp.abs(s[0] - s[1]) > 1e-6,
            lambda s: (0.9 * jnp.cos(s[0]) + a, s[0]),
            (jnp.zeros_like(a), jnp.ones_like(a)),
        )[0]

    rule = ruled(function, lambda i, ct: (ct / (1 + 0.9 * jnp.sin(function(*i))),))
    m = traced(rule, [0.5, 1.0, 100.0], ran=True)
    assert {float(m.points[0][row]) for row in m.endless} <= {100.0}
    assert not comparison(m).differs.any()
