"""Balls in float64 hold what flint's balls hold, and are narrow where floats are good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from gradcheck_cli.reals.domains import pairs
from gradcheck_cli.reals.domains.balls import Balls, exact
from gradcheck_cli.reals.domains.balls64 import Balls64
from gradcheck_cli.reals.domains.pairs import PAIR, pair
from gradcheck_cli.reals.domains.scalar import BINARY, UNARY
from gradcheck_cli.reals.precision import working
from gradcheck_cli.reals.program import build
from gradcheck_cli.reals.walk import NotCovered, walk
from tests.reals.test_arrays import CASES

HOSTILE = [
    0.0,
    1.0,
    -1.0,
    0.5,
    1e-30,
    -1e-30,
    100.0,
    -100.0,
    1 - 2.0**-24,
    3.5,
    -2.5,
    1e3,
    700.0,
    -745.0,
    1e300,
]
numbers = st.one_of(st.sampled_from(HOSTILE), st.floats(-1e3, 1e3), st.floats(-1.0, 1.0))
radii = st.sampled_from([0.0, 1e-300, 1e-12, 1e-3, 2.0])


def flint(ball: Any) -> arb | None:
    """The same ball for flint; None if it knows nothing."""
    return arb(float(ball["mid"]), float(ball["rad"])) if np.isfinite(ball["rad"]) else None


def inside(x: arb, where: float) -> arb:
    """A point of the ball (its radius rounded down: flint's own is rounded up)."""
    return x.mid() + x.rad() * arb(where) * arb(1 - 2.0**-20)


@pytest.mark.parametrize("name", sorted(pairs.UNARY.keys() - {"conj", "real"}))
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(mid=numbers, rad=radii, where=st.floats(-1, 1))
def test_unary_results_hold_the_exact_ones(name: str, mid: float, rad: float, where: float) -> None:
    out = flint(Balls64(1).unary(name, pair([mid], [rad]))[0])
    with working(400):
        truth = UNARY[name](inside(arb(mid, rad), where))
        if out is not None and truth.is_finite():
            assert out.overlaps(truth), (mid, rad, out, truth)


@pytest.mark.parametrize("name", sorted(pairs.BINARY))
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(a=numbers, b=numbers, ra=radii, rb=radii, where=st.floats(-1, 1))
def test_binary_results_hold_the_exact_ones(
    name: str, a: float, b: float, ra: float, rb: float, where: float
) -> None:
    out = flint(Balls64(1).binary(name, pair([a], [ra]), pair([b], [rb]))[0])
    operate = {"add": arb.__add__, "sub": arb.__sub__, "mul": arb.__mul__, "div": arb.__truediv__}
    with working(400):
        x, y = inside(arb(a, ra), where), inside(arb(b, rb), -where)
        truth = operate[name](x, y) if name in operate else BINARY[name](x, y)
        if out is not None and truth.is_finite():
            assert out.overlaps(truth), (a, b, ra, rb, out, truth)


@pytest.mark.parametrize("name", CASES)
def test_programs_hold_what_flint_holds(name: str) -> None:
    """Every program of the array tests that this domain takes at all."""
    function, x = CASES[name]

    def both(x: Any) -> Any:
        value, pullback = jax.vjp(lambda v: _floats(function(v)), x)
        return value, pullback(tuple(jnp.ones_like(v) for v in value))

    try:
        program = build(jax.make_jaxpr(both)(jax.ShapeDtypeStruct(x.shape, jnp.float32)))
        domain = Balls64(1)
        ours = walk(program, domain, [pair(x[None])])
    except (NotCovered, ValueError) as error:  # not taken, or not differentiable in reverse
        pytest.skip(str(error).partition("\n")[0])
    with working(200):
        certified = Balls(1)
        truth = walk(program, certified, [exact(x[None])])
    if domain.flags.doubts.any():
        pytest.skip("a discrete question that float64 leaves open")
    for out, exactly in zip(ours, truth, strict=True):
        if out.dtype != PAIR:
            continue
        both_sides = zip(
            out.reshape(-1), np.broadcast_to(exactly, out.shape).reshape(-1), strict=True
        )
        for a, b in both_sides:
            ball = flint(a)
            assert ball is None or b.is_nan() or ball.overlaps(b), (name, ball, b)


def _floats(tree: Any) -> tuple[Any, ...]:
    return tuple(o for o in jax.tree.leaves(tree) if jnp.issubdtype(o.dtype, jnp.floating))


@pytest.mark.parametrize(
    "function", [jnp.sin, jax.nn.softplus, lambda x: jnp.log(1 + jnp.exp(x)), jnp.tanh]
)
def test_nearly_all_ordinary_points_are_certified(function: Callable[..., Any]) -> None:
    def both(x: Any, ct: Any) -> Any:
        value, pullback = jax.vjp(function, x)
        return value, pullback(ct)[0]

    aval = jax.ShapeDtypeStruct((), jnp.float32)
    program = build(jax.make_jaxpr(both)(aval, aval))
    x = np.random.default_rng(0).uniform(-30, 30, 5000).astype(np.float32).astype(np.float64)
    value, gradient = walk(program, Balls64(len(x)), [pair(x), pair(np.ones(len(x)))])
    for out in (value, gradient):
        narrow = out["rad"] <= 2.0**-26 * np.maximum(np.abs(out["mid"]), 1e-6)
        assert narrow.mean() > 0.99
