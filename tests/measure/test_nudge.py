"""Kinks, holes, poles and jumps by an exact nudge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.measure.ball_truth import Ask, Reals, Truth, most_nudged
from gradcheck_cli.measure.components import as_floats
from gradcheck_cli.measure.nudge import _only_one, _others_like, _ways, idle_ties
from gradcheck_cli.measure.states import KINK, LIMIT, OUTSIDE, POLE, REGULAR, UNDECIDED
from gradcheck_cli.reals.enclose import enclose
from gradcheck_cli.reals.program import build


def truth(function: Callable[..., Any], *points: float) -> Truth:
    def both(x: Any, ct: Any) -> Any:
        value, pullback = jax.vjp(function, x)
        return value, pullback(ct)[0]

    aval = jax.ShapeDtypeStruct((), jnp.float32)
    program = build(jax.make_jaxpr(both)(aval, aval))
    rows = np.array(points)
    return Reals(program).evaluate([rows], [np.ones(len(rows))], Ask(40, ties=True))


@pytest.mark.parametrize(
    ("function", "x", "value", "gradient"),
    [
        (jax.nn.relu, 0.0, REGULAR, KINK),
        (jnp.abs, 0.0, REGULAR, KINK),
        (jnp.sqrt, 0.0, REGULAR, POLE),
        (jnp.log, 0.0, POLE, POLE),
        (jnp.log, -1.0, OUTSIDE, OUTSIDE),
        (lambda x: jnp.sin(x) / x, 0.0, LIMIT, LIMIT),
        (lambda x: 1 / x, 0.0, POLE, POLE),
        (lambda x: x * jnp.log(x), 0.0, LIMIT, POLE),
        (lambda x: jnp.where(x == 0, 5.0, x), 0.0, REGULAR, KINK),
        (jnp.exp, 1.0, REGULAR, REGULAR),
        # On the right it is exactly 0, and the chain rule says 0/0: nothing is known of that side.
        (lambda x: jnp.sqrt((x - jnp.maximum(x, 0.0)) ** 2), 0.0, REGULAR, UNDECIDED),
        # A share of no weight at all is set to 0: there it jumps, and beside it is a derivative.
        (
            lambda x: jnp.where(x * x == 0, 0.0, (1 + x) * jnp.sqrt(x * x) / jnp.sqrt(x * x)),
            0.0,
            REGULAR,
            LIMIT,
        ),
        # 1 ** (1 / 0) is 1, and on both sides it is √6: no derivative.
        (lambda p: ((2.0**p + 3.0**p) / 2) ** (1 / p), 0.0, REGULAR, OUTSIDE),
    ],
)
def test_states(function: Callable[..., Any], x: float, value: int, gradient: int) -> None:
    found = truth(function, x)
    assert (found.value_states[0][0], found.gradient_states[0][0]) == (value, gradient)


def test_value_at_a_tie_is_decided_exactly() -> None:
    found = truth(lambda x: jnp.where(x == 0, 5.0, x), 0.0)
    assert as_floats(found.values[0])[0] == 5.0


def test_limits_are_the_limits() -> None:
    found = truth(lambda x: jnp.sin(x) / x, 0.0)
    assert as_floats(found.values[0])[0] == pytest.approx(1.0)
    assert as_floats(found.gradients[0])[0] == pytest.approx(0.0)


def test_derivative_at_a_point_that_autodiff_masks() -> None:
    """softplus by max and log1p: autodiff says 0 or 1 at 0, the truth is ½."""
    found = truth(lambda x: jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x))), 0.0)
    assert found.gradient_states[0][0] == LIMIT
    assert as_floats(found.gradients[0])[0] == 0.5


def test_ties_that_decide_nothing_are_told_from_kinks() -> None:
    def masked(x):
        total = jnp.sum(jnp.where(jnp.array([False] * 6), x, 0.0))
        return (jnp.where(total > 0, x / total, 2 * x),)

    def bent(x):
        return (jax.grad(lambda y: jnp.maximum(y, 0.0).sum())(x),)

    points = [np.array([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]])]
    aval = jax.ShapeDtypeStruct((6,), jnp.float64)
    for function, idle in ((masked, [True, True]), (bent, [True, False])):
        with jax.enable_x64(True):
            program = build(jax.make_jaxpr(function)(aval))
        here = enclose(program, points, goal=50).outs
        assert idle_ties(program, points, [], here).tolist() == idle


def test_rows_that_are_drawn_twice_are_tied_and_idle() -> None:
    """The largest of the same number drawn twice: aside it is the same again, and its slope is no kink."""

    def both(table: Any, ct: Any) -> Any:
        def largest(table: Any) -> Any:
            drawn = table[jnp.array([0, 1, 1])]
            return jnp.max(drawn @ jnp.array([1.0, 3.0])) * drawn.sum()

        value, pullback = jax.vjp(largest, table)
        return value, pullback(ct)[0]

    avals = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((2, 2), ())]
    program = build(jax.make_jaxpr(both)(*avals))
    points, weights = np.array([[[0.125, 0.5], [1.25, 0.75]]]), np.ones(1)
    here = enclose(program, [points, weights], goal=40)
    assert here.ties.all()
    assert idle_ties(program, [points], [weights], here.outs).all()


def test_many_powers_in_an_array_are_looked_at_in_few_rows_only() -> None:
    aval = jax.ShapeDtypeStruct((4,), jnp.float32)
    rows = [np.ones((30, 4))]

    def powers(count: int) -> Any:
        def function(x: Any) -> Any:
            for _ in range(count):
                x = x**0.7
            return x

        return build(jax.make_jaxpr(function)(aval))

    few, many = most_nudged(powers(1), rows), most_nudged(powers(80), rows)
    assert few is not None
    assert many is not None
    assert 1 <= many < few


def test_a_limit_that_one_way_in_tells_is_asked_of_its_neighbours() -> None:
    """A share of a total has no limit where the total goes to 0, though one direction alone leads to where it is defined."""

    def share(x):
        return jnp.sqrt(x).sum() + jnp.sqrt(x[0] / x.sum())

    def both(x, ct):
        value, pullback = jax.vjp(share, x)
        return value, pullback(ct)[0]

    aval = jax.ShapeDtypeStruct((6,), jnp.float32), jax.ShapeDtypeStruct((), jnp.float32)
    program = build(jax.make_jaxpr(lambda x, ct: both(x, ct)[0])(*aval))
    ways = _ways(program, [np.zeros((1, 6))], [np.ones(1)], [[np.ones(6)], [-np.ones(6)]])
    assert _only_one(ways[0]) == 0
    states = [s for move in _others_like([np.ones(6)]) for s in _ways(program, [np.zeros((1, 6))], [np.ones(1)], [move])[0][0][0]]  # fmt: skip
    limits = [float(limit.mid()) for _, limit in states if limit is not None]
    assert len(set(limits)) == len(limits) == 3


def masked_mean(x: Any, mask: Any) -> Any:
    """A row of nothing but what is masked is that of all."""
    count = jnp.sum(mask)
    mean = jnp.sum(x * mask) / jnp.where(count == 0, 1.0, count)
    return jnp.where(count == 0, jnp.mean(x), mean)


@pytest.mark.parametrize(
    ("held", "of_x", "of_mask"),
    [((), KINK, KINK), ((False, True), REGULAR, KINK)],
)
def test_beside_zero_and_one_a_mask_has_no_numbers(
    held: tuple[bool, ...], of_x: int, of_mask: int
) -> None:
    def both(x: Any, mask: Any, ct: Any) -> Any:
        value, pullback = jax.vjp(masked_mean, x, mask)
        return value, *pullback(ct)

    row, one = jax.ShapeDtypeStruct((3,), jnp.float32), jax.ShapeDtypeStruct((), jnp.float32)
    source = Reals(build(jax.make_jaxpr(both)(row, row, one)), held)
    points = [np.array([[1.0, -2.0, 4.0]]), np.zeros((1, 3))]
    found = source.evaluate(points, [np.ones(1)], Ask(40, ties=True))
    assert [states[0, 0] for states in found.gradient_states] == [of_x, of_mask]


@pytest.mark.parametrize("held", [(), (False, True)])
def test_what_is_held_has_sides_of_its_own_and_a_hole_is_seen_from_all(
    held: tuple[bool, ...],
) -> None:
    def ramp(x: Any, m: Any) -> Any:
        return jnp.sin(x) * jnp.where(m > 0, 3 * m, 0.0)

    def length(x: Any, m: Any) -> Any:
        return jnp.sqrt((x * m) ** 2)

    def found(function: Callable[..., Any], x: float) -> Truth:
        def both(x: Any, m: Any, ct: Any) -> Any:
            value, pullback = jax.vjp(function, x, m)
            return value, *pullback(ct)

        one = jax.ShapeDtypeStruct((), jnp.float32)
        source = Reals(build(jax.make_jaxpr(both)(one, one, one)), held)
        return source.evaluate([np.array([x]), np.zeros(1)], [np.ones(1)], Ask(40, ties=True))

    truth = found(ramp, 1.0)
    own = [float(side.after[1][0].mid()) for side in truth.sides[0] if side.after is not None]
    assert truth.gradient_states[1][0] == KINK
    assert any(abs(slope - 3 * np.sin(1.0)) < 1e-9 for slope in own)
    assert found(length, 1.0).gradient_states[0][0] in (LIMIT, KINK)
