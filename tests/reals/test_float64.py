"""Balls in float64 hold what flint's balls hold, and are narrow where floats are good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flint import arb

from gradcheck_cli.reals.balls.balls import Balls, exact
from gradcheck_cli.reals.balls.scalar import BINARY, UNARY
from gradcheck_cli.reals.enclose import enclose, working
from gradcheck_cli.reals.float64.certify import certify
from gradcheck_cli.reals.float64.pairs import XLA, Pair
from gradcheck_cli.reals.float64.rules import RULES as RULES64
from gradcheck_cli.reals.float64.wide_pairs import stretches
from gradcheck_cli.reals.pairs.certify import Bulk, certify_now, decided
from gradcheck_cli.reals.pairs.numbers import NUMPY
from gradcheck_cli.reals.program import build
from gradcheck_cli.reals.walk import NoRealMeaning, walk
from tests.reals.cases import CASES, traced

Certify = Callable[..., Bulk]

HOSTILE = [
    0.0, 1.0, -1.0, 0.5, 1e-30, -1e-30, 100.0, -100.0, 1 - 2.0**-24, 1 + 2.0**-50, 3.5, -2.5, 1e3, 26.0,
    700.0, -745.0, 1e300, -1e300, 2.0**-1022, np.pi, -np.pi / 2, 1e9, 0.25, 1 / 3,
]  # fmt: skip
RADII = [0.0, 1e-300, 1e-16, 1e-12, 1e-3, 2.0]
PLACES = [-1.0, -0.37, 0.0, 0.61, 1.0]


def numbers(seed: int) -> np.ndarray:
    """Hostile numbers and random ones of every size."""
    rng = np.random.default_rng(seed)
    sizes = 10 ** rng.uniform(-12, 3, 200) * rng.choice([-1, 1], 200)
    return np.concatenate([HOSTILE, rng.uniform(-30, 30, 200), rng.uniform(-1, 1, 200), sizes])


def balls(seed: int) -> Pair:
    mids = numbers(seed)
    rng = np.random.default_rng(seed + 1)
    rads = np.where(np.arange(mids.size) < len(HOSTILE) * 3, 0.0, rng.choice(RADII, mids.size))
    return Pair(mids, rads)


Run = Callable[..., Pair]


def by_numpy(table: str, name: str, *args: Pair) -> Pair:
    with np.errstate(all="ignore"):
        return getattr(NUMPY, table)[name](*args)


def by_xla(table: str, name: str, *args: Pair) -> Pair:
    """As a walk runs it."""
    function = getattr(XLA, table)[name]
    with jax.enable_x64(True):
        lowered = jax.jit(function).lower(*args)
        done = lowered.compile(compiler_options={"xla_disable_hlo_passes": "algsimp"})
        return jax.device_get(done(*args))


def held(out: Pair, truths: Callable[[int, float], arb]) -> int:
    """Every exact result lies in its ball; how many balls know something."""
    known = np.flatnonzero(np.isfinite(out.rad) & ~np.isnan(out.mid))
    with working(400):
        for i in known.tolist():
            for place in PLACES:
                truth = truths(i, place)
                if truth.is_finite():
                    ball = arb(float(out.mid[i]), float(out.rad[i]))
                    assert ball.overlaps(truth), (i, place, ball, truth)
    return len(known)


def inside(mid: float, rad: float, place: float) -> arb:
    """A point of the ball."""
    return arb(mid) + arb(rad) * arb(place) * arb(1 - 2.0**-20)


@pytest.mark.parametrize("run", [by_numpy, by_xla])
@pytest.mark.parametrize("name", sorted(XLA.unary.keys() - {"conj", "real"}))
def test_unary_results_hold_the_exact_ones(name: str, run: Run) -> None:
    x = balls(1)
    if name in ("sin", "cos", "tan"):  # flint's own reduction of 1e300 wants a thousand bits
        x = Pair(np.where(np.abs(x.mid) > 1e30, 1.0, x.mid), x.rad)
    out = run("unary", name, x)
    known = held(out, lambda i, place: UNARY[name](inside(x.mid[i], x.rad[i], place)))
    assert known > 50


@pytest.mark.parametrize("run", [by_numpy, by_xla])
@pytest.mark.parametrize("name", sorted(XLA.binary))
def test_binary_results_hold_the_exact_ones(name: str, run: Run) -> None:
    a, b = balls(2), balls(3)
    rng = np.random.default_rng(4)
    order = rng.permutation(b.mid.size)
    b = Pair(b.mid[order], b.rad[order])
    operate = {"add": arb.__add__, "sub": arb.__sub__, "mul": arb.__mul__, "div": arb.__truediv__}
    function = operate.get(name) or BINARY[name]

    def truth(i: int, place: float) -> arb:
        result = function(inside(a.mid[i], a.rad[i], place), inside(b.mid[i], b.rad[i], -place))
        assert isinstance(result, arb)
        return result

    assert held(run("binary", name, a, b), truth) > 50


BOTH = pytest.mark.parametrize("by", [certify_now, certify])


@pytest.mark.parametrize(
    "by",
    [certify_now, pytest.param(certify, marks=pytest.mark.slow)],  # compiles a hundred programs
)
@pytest.mark.parametrize("name", CASES)
def test_programs_hold_what_flint_holds(name: str, by: Certify) -> None:
    """Every program of the array tests that this domain takes at all."""
    program, x = traced(name)
    try:
        found = by(program, [x[None].astype(np.float32)])
    except NoRealMeaning as error:
        pytest.skip(str(error))
    with working(200):
        truth = walk(program, Balls(1), [exact(x[None].astype(np.float32))])
    if not found.sure[0]:
        pytest.skip("a tie, or a discrete question that float64 leaves open")
    sizes = np.concatenate([np.abs(m).ravel() for m in found.mids])
    for mid, rad, exactly in zip(found.mids, found.rads, truth, strict=True):
        each = zip(mid.flat, rad.flat, np.broadcast_to(exactly, mid.shape).flat, strict=True)
        for m, r, b in each:
            assert np.isfinite(r), "a well-conditioned program is known everywhere"
            assert b.is_nan() or arb(float(m), float(r)).overlaps(b), (name, m, r, b)
            assert r <= 1e-9 * max(1.0, sizes.max())


def test_most_array_programs_are_taken() -> None:
    """What goes to flint alone: complex numbers, factorizations, windows that select."""
    taken = 0
    for name in CASES:
        try:
            program, _ = traced(name)
        except pytest.skip.Exception:
            continue
        floats = [s for s in program.all_steps() if any(a.kind in "fc" for a in s.in_avals)]
        taken += all(s.name in RULES64 for s in floats)
    assert taken >= 56


def pulled_back(function: Callable[..., Any], shape: tuple[int, ...] = ()) -> Any:
    def both(x: Any, ct: Any) -> Any:
        value, pullback = jax.vjp(function, x)
        return value, pullback(ct)[0]

    given = jax.ShapeDtypeStruct(shape, jnp.float32)
    return build(jax.make_jaxpr(both)(given, jax.eval_shape(function, given)))


@BOTH
@pytest.mark.parametrize(
    "function", [jnp.sin, jax.nn.softplus, lambda x: jnp.log(1 + jnp.exp(x)), jnp.tanh, jax.nn.relu]
)
def test_nearly_all_ordinary_points_are_certified(
    function: Callable[..., Any], by: Certify
) -> None:
    x = np.random.default_rng(0).uniform(-6, 12, 5000).astype(np.float32)
    x[x > 6] *= function is not jnp.tanh  # beyond, 1 − tanh² loses what float64 has
    found = by(pulled_back(function), [x, np.ones(len(x))])
    assert found.narrow(28).mean() > 0.99


@BOTH
def test_ties_are_told_and_what_stays_open_goes_on_to_flint(by: Certify) -> None:
    """relu at 0 is a kink, and floor of an inexact 1 is a question for more bits."""
    rows = by(pulled_back(jax.nn.relu), [np.array([0.0, 1.0]), np.ones(2)])
    assert (rows.sure & ~rows.ties).tolist() == [False, True]
    program = pulled_back(lambda x: jnp.floor(x * x * x * x) * x)
    open_ = by(program, [np.float32([1.1892071, 1.5]), np.ones(2)])
    assert open_.sure.tolist() == [True, True]  # 2.0000 has digits enough
    both = enclose(program, [np.float32([1.0, 1.5]).astype(float), np.ones(2)], goal=40)
    assert both.decided.all()


def test_equal_operands_give_equal_numbers_that_are_no_tie() -> None:
    """|x| that is computed once more is the same number (SEMANTICS C1)."""
    program = build(jax.make_jaxpr(lambda x: jnp.where(jnp.abs(x) == jnp.abs(x), x, 0.0))(0.5))
    found = certify_now(program, [np.array([3.0, -2.0])])
    assert (found.sure & ~found.ties).all()
    assert found.mids[0].tolist() == [3.0, -2.0]


def test_a_sum_of_many_numbers_holds_the_exact_one() -> None:
    x = np.random.default_rng(3).normal(size=(5, 40)) * 10.0 ** (np.arange(40) // 2)
    program = build(jax.make_jaxpr(jnp.sum)(np.float32(x[0])))
    found = certify_now(program, [x])
    for row, mid, rad in zip(x, found.mids[0], found.rads[0], strict=True):
        assert arb(float(mid), float(rad)).overlaps(sum(map(arb, row.tolist()), arb(0)))
    infinite = certify_now(program, [np.where(np.arange(40) == 7, np.inf, x)])
    assert (infinite.rads[0] == 0).all()
    assert np.isposinf(infinite.mids[0]).all()


def test_writes_at_one_place_add_up_and_those_outside_are_dropped() -> None:
    places = jnp.array([1, 1, 9, 0])
    program = build(
        jax.make_jaxpr(lambda x: jnp.zeros(3).at[places].add(x, mode="drop"))(jnp.ones(4))
    )
    found = certify_now(program, [np.array([[1.0, 2.0, 3.0, 4.0], [0.5, 0.25, 1.0, 8.0]])])
    assert found.mids[0].tolist() == [[4.0, 3.0, 0.0], [8.0, 0.75, 0.0]]


def test_what_xla_takes_for_zero_is_left_to_flint() -> None:
    program = pulled_back(lambda x: jnp.where(x > 0, x, 1.0))
    assert certify(program, [np.array([1e-310, 1.0]), np.ones(2)]).sure.tolist() == [False, True]


@BOTH
def test_the_largest_of_an_array_is_known_without_a_tie(by: Certify) -> None:
    """Identity of values (SEMANTICS C1): JAX differentiates max as x == max(x)."""
    x = np.random.default_rng(0).normal(size=(50, 4, 5)).astype(np.float32)
    program = pulled_back(lambda x: jnp.exp(x).max(axis=1), (4, 5))
    found = by(program, [x, np.ones((50, 4))])
    assert found.narrow(28).all()
    x[0, 0, 1] = x[0, 0, 2] = 9.0
    again = by(program, [x, np.ones((50, 4))])
    assert again.narrow(28).tolist() == [False] + [True] * 49


def test_a_number_is_decided_by_its_own_size_or_beside_the_largest() -> None:
    mid, rad = np.array([[1.0, 0.0, 1e-30]]), np.array([[1e-12, 1e-25, 1e-29]])
    assert decided(mid, rad, 28).tolist() == [[True, True, True]]
    assert decided(mid, rad, 90).tolist() == [[False, False, False]]


def test_a_comparison_inside_a_loop_puts_a_stretch_in_doubt() -> None:
    """Over a stretch around zero the two branches meet: it is no smooth function there."""

    def halved(x: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda _, y: jnp.where(y < 0, -y, y / 2), x)

    program = build(jax.make_jaxpr(halved)(jnp.float32(1)))
    middles, radii = [np.array([0.0, 4.0])], [np.array([1.0, 1.0])]
    assert certify(program, middles, radii, stretches).sure.tolist() == [False, True]
