"""Programs of arrays that several tests walk: each a function of one array, and numbers for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.lax.linalg as lax_linalg
import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.reals.program import build

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
    "reshape in another order": (lambda x: jnp.ravel(x, order="F") * jnp.arange(12.0), MATRIX),
    "prod along the last axis": (lambda x: jnp.prod(x, axis=-1), MATRIX),
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
    "counts of integers": (lambda x: x / jnp.bincount(jnp.array([0, 2, 3, 1, 0]), length=4), VECTOR),
    "scatter set": (lambda x: x.at[1].set(7.0), VECTOR),
    "dynamic slice of a number": (lambda x: jax.lax.dynamic_slice(x[0], (), ()) * x, VECTOR),
    "dynamic update of a number": (lambda x: jax.lax.dynamic_update_slice(x[0], x[1], ()) * x, VECTOR),
    "dynamic slice": (lambda x: jax.lax.dynamic_slice(x, (1,), (2,)), VECTOR),
    "dynamic update": (lambda x: jax.lax.dynamic_update_slice(x, x[:2] * 5, (3,)), VECTOR),
    "matmul": (lambda x: x @ x.T, MATRIX),
    "einsum over all of one operand": (
        lambda x: jnp.einsum("ij,ijk->k", x, x[..., None] * jnp.arange(1.0, 7.0)),
        MATRIX,
    ),
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


def traced(name: str) -> tuple[Any, np.ndarray]:
    """Value and pullback of one of the array programs."""
    function, x = CASES[name]

    def both(x: Any) -> Any:
        value, pullback = jax.vjp(lambda v: _floats(function(v)), x)
        return value, pullback(tuple(jnp.ones_like(v) for v in value))

    try:
        return build(jax.make_jaxpr(both)(jax.ShapeDtypeStruct(x.shape, jnp.float32))), x
    except ValueError as error:  # not differentiable in reverse
        pytest.skip(str(error).partition("\n")[0])


def _floats(tree: Any) -> tuple[Any, ...]:
    return tuple(o for o in jax.tree.leaves(tree) if jnp.issubdtype(o.dtype, jnp.floating))
