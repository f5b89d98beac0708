"""Array rules agree with float64 JAX; identity is kept; control flow parts and meets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.lax.linalg as lax_linalg
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

VECTOR = np.array([0.3, -1.2, 2.5, 0.7])
MATRIX = np.array([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0], [2.0, 0.125, 1.5], [0.5, 0.75, -0.25]])

IMAGES = np.sin(np.arange(2 * 4 * 5 * 2.0)).reshape(2, 4, 5, 2)


def conv(x: Any, **settings: Any) -> Any:
    """A convolution in the layout of images last, with a kernel that nothing is symmetric in."""
    groups = settings.get("feature_group_count", 1)
    kernel = jnp.cos(jnp.arange(2 * 3 * (2 // groups) * 4.0)).reshape(2, 3, 2 // groups, 4)
    given = {"window_strides": settings.pop("strides", (1, 1)), **settings}
    layout = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, kernel, dimension_numbers=layout, **given)


def _fixed(function: Callable[..., Any], x: Any) -> Any:
    """Factorizations that JAX does not differentiate."""
    return function(jax.lax.stop_gradient(x))


def _weighted(outs: Any, x: Any) -> Any:
    return [out * x.sum() for out in outs]


def _tridiagonal(lower: bool) -> Callable[..., Any]:
    """The packed part that is meant, and what LAPACK leaves in the other triangle is left out."""

    def run(a: Any) -> Any:
        packed, *rest = lax_linalg.tridiagonal(a, lower=lower)
        return [jnp.tril(packed) if lower else jnp.triu(packed), *rest]

    return run


def _with_reflectors(left: bool, turned: bool) -> Callable[..., Any]:
    def run(a: Any) -> Any:
        taus = jnp.array([0.7, 1.2, 1.9])
        return lax_linalg.ormqr(a, taus, a @ a.T, left=left, transpose=turned)

    return run


def _ragged_sums(x: Any) -> Any:
    numbers = jax.lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), (0,), ())
    return jax.lax.ragged_dot_general(x, x * 2, jnp.array([1, 2, 1]), numbers)


CASES: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
    "sum": (jnp.sum, MATRIX),
    "integers as powers": (lambda x: x ** (jnp.arange(x.size) % 3 + 1), VECTOR),
    "mean over an axis": (lambda x: x.mean(axis=0), MATRIX),
    "prod": (jnp.prod, VECTOR),
    "max": (lambda x: x.max(axis=1), MATRIX),
    "min": (jnp.min, MATRIX),
    "cumsum": (jnp.cumsum, VECTOR),
    "cumprod reversed": (lambda x: jax.lax.cumprod(x, reverse=True), VECTOR),
    "cummax": (jax.lax.cummax, VECTOR),
    "sort": (lambda x: jnp.sort(x, axis=0), MATRIX),
    "argsort as index": (lambda x: x[jnp.argsort(x)], VECTOR),
    "argmax as index": (lambda x: x[jnp.argmax(x)] * 2, VECTOR),
    "transpose": (lambda x: x.T * jnp.arange(4.0), MATRIX),
    "reshape": (lambda x: x.reshape(2, 6) * 3, MATRIX),
    "flip": (lambda x: jnp.flip(x, 0), MATRIX),
    "strided slice": (lambda x: x[::2, 1:], MATRIX),
    "concatenate": (lambda x: jnp.concatenate([x, x * 2]), VECTOR),
    "stack": (lambda x: jnp.stack([x, x * 2], axis=1), VECTOR),
    "split": (lambda x: jnp.split(x, 2)[1], VECTOR),
    "pad inside and out": (lambda x: jax.lax.pad(x, 9.0, [(1, 2, 1)]), VECTOR),
    "pad negative": (lambda x: jax.lax.pad(x, 0.0, [(-1, 1, 0)]), VECTOR),
    "tile": (lambda x: jnp.tile(x, (2, 1)), VECTOR),
    "gather": (lambda x: x[jnp.array([2, 0, 2])], VECTOR),
    "gather rows": (lambda x: jnp.take(x, jnp.array([1, 3]), axis=0), MATRIX),
    "take along axis": (lambda x: jnp.take_along_axis(x, jnp.array([[0], [2], [1], [0]]), 1), MATRIX),
    "scatter add": (lambda x: jnp.ones(3).at[jnp.array([0, 2, 0, 1])].add(x * 2), VECTOR),
    "scatter set": (lambda x: x.at[1].set(7.0), VECTOR),
    "dynamic slice": (lambda x: jax.lax.dynamic_slice(x, (1,), (2,)), VECTOR),
    "dynamic update": (lambda x: jax.lax.dynamic_update_slice(x, x[:2] * 5, (3,)), VECTOR),
    "matmul": (lambda x: x @ x.T, MATRIX),
    "einsum": (lambda x: jnp.einsum("ij,kj->ik", x, x[:2]), MATRIX),
    "batched matmul": (lambda x: jnp.einsum("bi,bj->bij", x, x * 2), MATRIX),
    "where": (lambda x: jnp.where(x > 0, x * x, -x), VECTOR),
    "clip": (lambda x: jnp.clip(x, -1, 1), VECTOR),
    "select by integer": (lambda x: jax.lax.select_n(jnp.array([0, 2, 1, 0]), x, x + 1, x * 2), VECTOR),
    "cond": (lambda x: jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), VECTOR),
    "switch": (lambda x: jax.lax.switch(2, [jnp.sin, jnp.cos, jnp.tanh], x), VECTOR),
    "scan": (lambda x: jax.lax.scan(lambda c, a: (c * 0.5 + a, c), 0.0, x)[1], VECTOR),
    "reverse scan": (lambda x: jax.lax.scan(lambda c, a: (c + a, c * a), 1.0, x, reverse=True), VECTOR),
    "fori": (lambda x: jax.lax.fori_loop(0, 5, lambda i, c: c * 0.9 + i, x), VECTOR),
    "while": (lambda x: jax.lax.while_loop(lambda c: c.sum() < 50, lambda c: c * 2, x), VECTOR),
    "random draws": (lambda x: x * jax.random.normal(jax.random.key(3), x.shape), VECTOR),
    "one hot": (lambda x: x * jax.nn.one_hot(2, 4), VECTOR),
    "integer powers": (lambda x: x**3 + x**-2, VECTOR),
    "casts to integers": (lambda x: x * jnp.floor(x).astype(jnp.int32), VECTOR),
    "round to even": (lambda x: jnp.round(x * 2) / 2, VECTOR),
    "softmax": (jax.nn.softmax, VECTOR),
    "log_softmax": (jax.nn.log_softmax, MATRIX),
    "logsumexp": (jax.scipy.special.logsumexp, VECTOR),
    "norm": (jnp.linalg.norm, VECTOR),
    "layer norm": (lambda x: (x - x.mean()) / jnp.sqrt(x.var() + 1e-5), VECTOR),
    "sign bits": (lambda x: jnp.copysign(x, -x) + jax.scipy.special.gamma(x), VECTOR),
    "top k": (lambda x: jax.lax.top_k(x, 2)[0] * jnp.arange(2.0), MATRIX),
    "cumlogsumexp": (lambda x: jax.lax.cumlogsumexp(x, axis=1), MATRIX),
    "scatter max": (lambda x: jnp.ones(3, x.dtype).at[jnp.array([0, 2, 1, 1])].max(x), VECTOR),
    "scatter min": (lambda x: jnp.ones(3, x.dtype).at[jnp.array([0, 2, 0, 1])].min(x * 2), VECTOR),
    "user's reduce": (lambda x: jax.lax.reduce(x, 1.0, lambda a, b: a * b + a, (0,)), MATRIX),
    "max pool": (lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (2, 2), (1, 2), "SAME"), MATRIX),
    "sum pool": (lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.add, (2, 2), (2, 1), "SAME"), MATRIX),
    "dilated pool": (
        lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.add, (2, 2), (1, 1), "VALID", window_dilation=(2, 1)),
        MATRIX,
    ),
    "pool of products": (
        lambda x: jax.lax.reduce_window(
            jax.lax.stop_gradient(x), 1.0, jax.lax.mul, (2, 2), (1, 1), "VALID"
        ) * x[1:, 1:],
        MATRIX,
    ),
    "convolve": (lambda x: jnp.convolve(x, jnp.array([1.0, -0.5, 0.25]), mode="same"), VECTOR),
    "conv 2d": (lambda x: conv(x, strides=(2, 1), padding="SAME"), IMAGES),
    "conv dilated": (lambda x: conv(x, padding=[(1, 2), (0, -1)], rhs_dilation=(2, 1)), IMAGES),
    "conv transposed": (lambda x: conv(x, padding=[(1, 1), (1, 1)], lhs_dilation=(2, 2)), IMAGES),
    "conv in groups": (lambda x: conv(x, padding="VALID", feature_group_count=2), IMAGES),
    "fft": (lambda x: jnp.abs(jnp.fft.fft(x)) ** 2, VECTOR),
    "fft 2d": (lambda x: jnp.fft.fft2(x).imag, MATRIX),
    "rfft": (lambda x: jnp.fft.rfft(x).real * jnp.arange(3.0), VECTOR),
    "odd rfft and back": (lambda x: jnp.fft.irfft(jnp.fft.rfft(x, n=5) * 2, n=5), VECTOR),
    "irfft 2d": (lambda x: jnp.fft.irfft2(jnp.fft.rfft2(x) ** 2, s=x.shape), MATRIX),
    "complex functions": (lambda x: jnp.exp(1j * x).real + jnp.angle(jnp.sqrt(x + 2j)), VECTOR),
    "complex product": (lambda x: jnp.abs((x + 1j) @ (x[::-1] - 2j)), VECTOR),
    "complex power": (lambda x: ((x + 1j) ** 2.5).imag + jnp.real((x - 1j) ** 3), VECTOR),
    "cholesky": (lambda x: jnp.linalg.cholesky(x.T @ x), MATRIX),
    "solve": (lambda x: jnp.linalg.solve(x[:3] + 3 * jnp.eye(3), x[3]), MATRIX),
    "inverse of a stack": (lambda x: jnp.linalg.inv(jnp.stack([x[:3], x[1:]]) + 3 * jnp.eye(3)), MATRIX),
    "det": (lambda x: jnp.linalg.det(x[:3]), MATRIX),
    "slogdet": (lambda x: jnp.linalg.slogdet(x[:3])[1], MATRIX),
    "qr": (jnp.linalg.qr, MATRIX),
    "eigvalsh": (lambda x: jnp.linalg.eigvalsh(x.T @ x), MATRIX),
    "eigh": (lambda x: jnp.linalg.eigh(x.T @ x)[1], MATRIX),
    "svd": (lambda x: jnp.linalg.svd(x, full_matrices=False), MATRIX),
    "wide svd": (lambda x: jnp.linalg.svd(x.T, full_matrices=False)[0], MATRIX),
    "singular values": (lambda x: jnp.linalg.svd(x, compute_uv=False), MATRIX),
    "lstsq": (lambda x: jnp.linalg.lstsq(x, jnp.arange(4.0))[0], MATRIX),
    "pinv": (jnp.linalg.pinv, MATRIX),
    "expm": (lambda x: jax.scipy.linalg.expm(x[:3] / 4), MATRIX),
    "tridiagonal solve": (
        lambda x: jax.lax.linalg.tridiagonal_solve(x / 4, x + 3, x[::-1] / 4, jnp.ones((4, 1))),
        VECTOR,
    ),
    "hessenberg": (lambda x: _fixed(lax_linalg.hessenberg, x @ x.T)[0] * x.sum(), MATRIX),
    "hessenberg factors": (lambda x: _fixed(lax_linalg.hessenberg, x @ x[:3].T @ x[1:, :]  @ x.T)[1] * x.sum(), MATRIX),
    "tridiagonal, lower": (lambda x: _weighted(_fixed(_tridiagonal(True), x @ x.T), x), MATRIX),
    "tridiagonal, upper": (lambda x: _weighted(_fixed(_tridiagonal(False), x @ x.T), x), MATRIX),
    "schur of a symmetric": (lambda x: _weighted(_fixed(lax_linalg.schur, x @ x.T), x), MATRIX),
    "schur with a pair": (lambda x: _weighted(_fixed(lax_linalg.schur, x[:3]), x), MATRIX),
    "complex schur": (lambda x: jnp.abs(_fixed(lax_linalg.schur, x[:3] + 1j * x[1:])[0]) * x.sum(), MATRIX),
    "updated cholesky": (
        lambda x: _fixed(lambda a: lax_linalg.cholesky_update(a[:3], a[3]), jnp.triu(x) + jnp.eye(4, 3)) * x.sum(),
        MATRIX,
    ),
    "symmetric product": (
        lambda x: _fixed(lambda a: lax_linalg.symmetric_product(a, a @ a.T, alpha=2.0, beta=0.5), x) * x.sum(),
        MATRIX,
    ),
    "product with reflectors": (
        lambda x: _weighted([_fixed(_with_reflectors(left, turned), x) for left in (True, False) for turned in (True, False)], x),
        MATRIX,
    ),
    "pivoted qr": (lambda x: jnp.stack(jax.scipy.linalg.qr(x[:3], pivoting=True)[:2]), MATRIX),
    "ragged rows": (
        lambda x: jax.lax.ragged_dot(x, jnp.stack([x[:3], x[1:], x[:3] * 2]), jnp.array([1, 0, 2])), MATRIX
    ),
    "ragged sums": (lambda x: _fixed(_ragged_sums, x) * x.sum(), MATRIX),
    "approximate top k": (lambda x: jax.lax.approx_max_k(x, 2)[0] - jax.lax.approx_min_k(x, 2)[0], MATRIX),
    "conjugate gradients": (lambda x: jax.scipy.sparse.linalg.cg(lambda v: v * (2 + x**2), x)[0], VECTOR),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_value_and_pullback_agree_with_float64(name: str) -> None:
    function, x = CASES[name]
    with jax.enable_x64(True):
        outs = jax.tree.leaves(function(jnp.asarray(x)))
        floats = [o for o in outs if jnp.issubdtype(o.dtype, jnp.floating)]
        cotangents = [np.linspace(0.5, 2.0, o.size).reshape(o.shape) for o in floats]

        def value_and_pullback(x: Any, *cts: Any) -> Any:
            leaves = jax.tree.leaves(function(x))
            return leaves, _pullback(function, x, cts)

        native = jax.tree.leaves(value_and_pullback(jnp.asarray(x), *cotangents))
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
