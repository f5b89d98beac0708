"""Array rules agree with float64 JAX; identity is kept; control flow parts and meets."""

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

from gradcheck_cli.measure.components import as_floats
from gradcheck_cli.reals.balls.balls import Balls, exact
from gradcheck_cli.reals.enclose import enclose, working
from gradcheck_cli.reals.program import build
from gradcheck_cli.reals.walk import NoRealMeaning, uncovered, walk
from tests.reals.cases import CASES


@pytest.mark.parametrize("name", CASES)
def test_value_and_pullback_agree_with_float64(name: str) -> None:
    function, x = CASES[name]
    with jax.enable_x64(True):
        outs = jax.tree.leaves(jax.eval_shape(function, jnp.asarray(x)))
        floats = [o for o in outs if jnp.issubdtype(o.dtype, jnp.floating)]
        cotangents = [np.linspace(0.5, 2.0, o.size).reshape(o.shape) for o in floats]

        def value_and_pullback(x: Any, *cts: Any) -> Any:
            leaves = jax.tree.leaves(function(x))
            return leaves, _pullback(function, x, cts)

        native = jax.tree.leaves(jax.jit(value_and_pullback)(jnp.asarray(x), *cotangents))
        closed = jax.make_jaxpr(value_and_pullback)(jnp.asarray(x), *cotangents)
    program = build(closed)
    assert not set(uncovered(program)) - {"bitcast_convert_type"}
    args = [a[None] for a in (x, *cotangents)]
    enclosed = enclose(program, args, goal=60)
    for ours, theirs in zip(enclosed.outs, native, strict=True):
        if ours.dtype == object:
            size = float(np.abs(np.asarray(theirs)).max(initial=0))
            np.testing.assert_allclose(
                as_floats(ours)[0], np.asarray(theirs), rtol=1e-13, atol=1e-13 * size
            )


def _pullback(function: Callable[..., Any], x: Any, cts: Any) -> Any:
    """Reverse mode, or forward mode where there is no reverse (while loops)."""
    try:
        outs, pullback = jax.vjp(lambda v: _floats(function(v)), x)
        return pullback(tuple(jnp.asarray(c, o.dtype) for c, o in zip(cts, outs, strict=True)))
    except ValueError:
        jacobian = jax.jacfwd(lambda v: _floats(function(v)))(x)
        return sum(jnp.tensordot(c, j, c.ndim) for c, j in zip(cts, jacobian, strict=True))


def _floats(tree: Any) -> tuple[Any, ...]:
    return tuple(o for o in jax.tree.leaves(tree) if jnp.issubdtype(o.dtype, jnp.floating))


def run(function: Callable[..., Any], *rows: Any, bits: int = 128) -> tuple[list[Any], Balls]:
    arrays = [np.asarray(r, float) for r in rows]
    avals = [jax.ShapeDtypeStruct(a.shape[1:], jnp.float32) for a in arrays]
    program = build(jax.make_jaxpr(function)(*avals))
    with working(bits):
        domain = Balls(len(arrays[0]))
        return walk(program, domain, [exact(a) for a in arrays]), domain


def test_maximum_returns_the_operand_itself() -> None:
    """SEMANTICS C1: else the derivative of max, eq(x, max)/count, is undefined at every precision."""
    (hit,), domain = run(lambda x: (jnp.sin(x) == jnp.max(jnp.sin(x))) * 1.0, [[0.5, 1.5, 0.1]])
    assert as_floats(hit)[0].tolist() == [0, 1, 0]
    assert not domain.flags.ties.any()


def test_same_operation_on_same_ball_is_the_same_ball() -> None:
    (same,), _ = run(lambda x: (jnp.exp(x) == jax.jit(jnp.exp)(x)) * 1.0, [0.1])
    assert as_floats(same).tolist() == [1.0]


def test_exact_tie_is_decided_and_flagged() -> None:
    (out,), domain = run(lambda x: jnp.where(x == 0, 5.0, x), [0.0, 1.0])
    assert as_floats(out).tolist() == [5.0, 1.0]
    assert domain.flags.ties.tolist() == [True, False]


def test_undecided_comparison_takes_both_branches() -> None:
    (out,), _ = run(lambda x: jnp.where(jnp.sin(x) ** 2 + jnp.cos(x) ** 2 < 1, 1.0, 2.0), [0.7])
    ball = out[0]
    assert ball.contains(arb(1))
    assert ball.contains(arb(2))


def test_points_of_one_batch_take_different_branches() -> None:
    (out,), _ = run(lambda x: jax.lax.cond(x > 0, lambda v: v * 2, lambda v: -v, x), [3.0, -4.0])
    assert as_floats(out).tolist() == [6.0, 4.0]


def test_loop_until_equality_ends_when_balls_overlap() -> None:
    def newton(a: Any) -> Any:
        def body(state: Any) -> Any:
            x, _ = state
            return (x + a / x) / 2, x

        return jax.lax.while_loop(lambda s: s[0] != s[1], body, (a, a + 1))[0]

    (out,), _ = run(newton, [2.0, 9.0])
    assert as_floats(out) == pytest.approx([2**0.5, 3.0], rel=1e-15)


def test_endless_loop_is_given_up() -> None:
    _, domain = run(lambda x: jax.lax.while_loop(lambda c: c > 0, lambda c: c + 1, x), [1.0])
    assert domain.flags.endless.tolist() == [True]


def test_rounded_constants_widen_short_ones_do_not() -> None:
    program = build(jax.make_jaxpr(lambda x: (x * 0.1, x * 0.5))(jnp.float32(1)))
    wide, short = enclose(program, [np.array([1.0])], goal=40, widen=True).outs
    assert not wide[0].is_exact()
    assert short[0].is_exact()


def test_primitive_without_a_rule_is_named() -> None:
    program = build(jax.make_jaxpr(lambda x: jnp.nextafter(x, 2 * x))(jnp.ones(4)))
    assert set(uncovered(program)) == {"nextafter"}
    with pytest.raises(NoRealMeaning, match="bits of a float"):
        enclose(program, [np.ones((1, 4))], goal=40)


UNARY = [jnp.sin, jnp.exp, jnp.tanh, jax.nn.softplus, jnp.square, jnp.arctan, lambda x: x - 1, jax.nn.sigmoid]  # fmt: skip
BINARY = [jnp.add, jnp.multiply, jnp.subtract, jnp.maximum, jnp.logaddexp]


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    plan=st.lists(st.integers(0, len(UNARY) - 1), min_size=1, max_size=4),
    join=st.integers(0, len(BINARY) - 1),
    x=st.floats(-30, 30, width=32),
)
def test_random_compositions_contain_the_1000_bit_result(
    plan: list[int], join: int, x: float
) -> None:
    def function(x: Any) -> Any:
        h = x
        for step in plan:
            h = UNARY[step](h)
        return BINARY[join](h, x)

    def both(x: Any) -> Any:
        return jax.value_and_grad(function)(x)

    (value, slope), _ = run(both, [x], bits=96)
    (fine_value, fine_slope), _ = run(both, [x], bits=1000)
    for coarse, fine in ((value[0], fine_value[0]), (slope[0], fine_slope[0])):
        assert coarse.is_nan() or not coarse.is_finite() or coarse.overlaps(fine)


def test_eigenvalues_that_cannot_be_told_apart_are_unknown_and_no_fault() -> None:
    nilpotent = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    with jax.enable_x64(True):
        program = build(jax.make_jaxpr(jnp.linalg.eigvals)(jnp.asarray(nilpotent)))
    with working(128):
        (values,) = walk(program, Balls(1), [exact(nilpotent[None])])
    assert all(ball.real.is_nan() for ball in values.reshape(-1))
