"""relu(x @ w + b) in tiles, with dx and dw/db kernels."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

T = 16
INTERPRET = jax.default_backend() != "gpu"


def _tile(ref, r0, c0):
    """The T x T tile of ref at (r0, c0), zero outside."""
    r = r0 + jnp.arange(T)[:, None]
    c = c0 + jnp.arange(T)[None, :]
    return plgpu.load(ref.at[r, c], mask=(r < ref.shape[0]) & (c < ref.shape[1]), other=0.0)


def _put(ref, r0, c0, val):
    r = r0 + jnp.arange(T)[:, None]
    c = c0 + jnp.arange(T)[None, :]
    plgpu.store(ref.at[r, c], val.astype(ref.dtype), mask=(r < ref.shape[0]) & (c < ref.shape[1]))


def _fwd_kernel(x_ref, w_ref, b_ref, y_ref):
    m0, n0 = pl.program_id(0) * T, pl.program_id(1) * T
    k = x_ref.shape[1]
    acc = lax.fori_loop(
        0, pl.cdiv(k, T),
        lambda j, a: a + jnp.dot(_tile(x_ref, m0, j * T), _tile(w_ref, j * T, n0)),
        jnp.zeros((T, T), x_ref.dtype))
    c = n0 + jnp.arange(T)
    bias = plgpu.load(b_ref.at[c], mask=c < b_ref.shape[0], other=0.0)
    _put(y_ref, m0, n0, jnp.maximum(acc + bias[None, :], 0.0))


def _dx_kernel(dy_ref, y_ref, w_ref, dx_ref):
    m0, k0 = pl.program_id(0) * T, pl.program_id(1) * T

    def step(j, acc):
        live = _tile(y_ref, m0, j * T) > 0
        dz = jnp.where(live, _tile(dy_ref, m0, j * T), 0.0)
        return acc + jnp.dot(dz, _tile(w_ref, k0, j * T).T)

    acc = lax.fori_loop(0, pl.cdiv(dy_ref.shape[1], T), step, jnp.zeros((T, T), dy_ref.dtype))
    _put(dx_ref, m0, k0, acc)


def _dwb_kernel(dy_ref, y_ref, x_ref, dw_ref, db_ref):
    k0, n0 = pl.program_id(0) * T, pl.program_id(1) * T

    def step(i, carry):
        dw, db = carry
        live = _tile(y_ref, i * T, n0) > 0
        dz = jnp.where(live, _tile(dy_ref, i * T, n0), 0.0)
        return dw + jnp.dot(_tile(x_ref, i * T, k0).T, dz), db + dz.sum(axis=0)

    zeros = jnp.zeros((T, T), dy_ref.dtype), jnp.zeros((T,), dy_ref.dtype)
    dw, db = lax.fori_loop(0, pl.cdiv(dy_ref.shape[0], T), step, zeros)
    _put(dw_ref, k0, n0, dw)

    @pl.when(pl.program_id(0) == 0)
    def _():
        c = n0 + jnp.arange(T)
        plgpu.store(db_ref.at[c], db, mask=c < db_ref.shape[0])


@jax.custom_vjp
def linear_relu(x, w, b):
    """relu(x @ w + b): x [m, k], w [k, n], b [n], any sizes."""
    return _linear_relu_fwd(x, w, b)[0]


def _linear_relu_fwd(x, w, b):
    m, n = x.shape[0], w.shape[1]
    y = pl.pallas_call(
        _fwd_kernel,
        grid=(pl.cdiv(m, T), pl.cdiv(n, T)),
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        interpret=INTERPRET,
    )(x, w, b)
    return y, (x, w, y)


def _linear_relu_bwd(res, dy):
    x, w, y = res
    (m, k), n = x.shape, w.shape[1]
    dx = pl.pallas_call(
        _dx_kernel,
        grid=(pl.cdiv(m, T), pl.cdiv(k, T)),
        out_shape=jax.ShapeDtypeStruct((m, k), x.dtype),
        interpret=INTERPRET,
    )(dy, y, w)
    dw, db = pl.pallas_call(
        _dwb_kernel,
        grid=(pl.cdiv(k, T), pl.cdiv(n, T)),
        out_shape=[jax.ShapeDtypeStruct((k, n), w.dtype), jax.ShapeDtypeStruct((n,), w.dtype)],
        interpret=INTERPRET,
    )(dy, y, x)
    return dx, dw, db


linear_relu.defvjp(_linear_relu_fwd, _linear_relu_bwd)
