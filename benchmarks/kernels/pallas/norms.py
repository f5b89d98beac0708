"""RMSNorm (per-block partial weight gradients) and LayerNorm (atomic ones)."""
import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

ROWS = 4  # rows a program
INTERPRET = jax.default_backend() != "gpu"


def _tile_mask(n, d, width):
    r = pl.program_id(0) * ROWS + lax.broadcasted_iota(jnp.int32, (ROWS, width), 0)
    c = lax.broadcasted_iota(jnp.int32, (ROWS, width), 1)
    return (r < n) & (c < d)


def _rms_fwd_kernel(x_ref, w_ref, y_ref, rstd_ref, *, n, d, eps):
    mask = _tile_mask(n, d, x_ref.shape[1])
    x = jnp.where(mask, x_ref[...], 0.0)
    rstd = lax.rsqrt(jnp.sum(x * x, axis=1) / d + eps)
    y_ref[...] = x * rstd[:, None] * w_ref[...][None, :]
    rstd_ref[...] = rstd


def _rms_bwd_kernel(x_ref, w_ref, rstd_ref, dy_ref, dx_ref, dw_ref, *, n, d):
    mask = _tile_mask(n, d, x_ref.shape[1])
    rstd = rstd_ref[...][:, None]
    xhat = jnp.where(mask, x_ref[...] * rstd, 0.0)
    dy = jnp.where(mask, dy_ref[...], 0.0)
    wdy = jnp.where(mask, dy * w_ref[...][None, :], 0.0)
    c = jnp.sum(wdy * xhat, axis=1, keepdims=True) / d
    dx_ref[...] = (wdy - xhat * c) * rstd
    dw_ref[...] = jnp.sum(dy * xhat, axis=0, keepdims=True)


def _specs(d):
    width = pl.next_power_of_2(d)
    tile = pl.BlockSpec((ROWS, width), lambda i: (i, 0))
    weight = pl.BlockSpec((width,), lambda i: (0,))
    stat = pl.BlockSpec((ROWS,), lambda i: (i,))
    part = pl.BlockSpec((1, width), lambda i: (i, 0))
    return tile, weight, stat, part


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def rms_norm(x, w, eps=1e-5):
    """x * rsqrt(mean(x**2, -1) + eps) * w for x [n, d], w [d]."""
    return _rms_fwd(x, w, eps)[0]


def _rms_fwd(x, w, eps):
    n, d = x.shape
    tile, weight, stat, _ = _specs(d)
    y, rstd = pl.pallas_call(
        functools.partial(_rms_fwd_kernel, n=n, d=d, eps=eps),
        grid=(pl.cdiv(n, ROWS),),
        in_specs=[tile, weight],
        out_specs=[tile, stat],
        out_shape=[jax.ShapeDtypeStruct((n, d), x.dtype), jax.ShapeDtypeStruct((n,), x.dtype)],
        interpret=INTERPRET,
    )(x, w)
    return y, (x, w, rstd)


def _rms_bwd(eps, res, dy):
    x, w, rstd = res
    n, d = x.shape
    blocks = pl.cdiv(n, ROWS)
    tile, weight, stat, part = _specs(d)
    dx, dw_part = pl.pallas_call(
        functools.partial(_rms_bwd_kernel, n=n, d=d),
        grid=(blocks,),
        in_specs=[tile, weight, stat, tile],
        out_specs=[tile, part],
        out_shape=[jax.ShapeDtypeStruct((n, d), x.dtype), jax.ShapeDtypeStruct((blocks, d), w.dtype)],
        interpret=INTERPRET,
    )(x, w, rstd, dy)
    return dx, dw_part.sum(0)


rms_norm.defvjp(_rms_fwd, _rms_bwd)


def _ln_fwd_kernel(x_ref, w_ref, b_ref, y_ref, mu_ref, rs_ref, *, d, width, eps):
    i = pl.program_id(0)
    cols = jnp.arange(width)
    mask = cols < d
    x = plgpu.load(x_ref.at[i, cols], mask=mask, other=0.0)
    mu = jnp.sum(x) / d
    xc = jnp.where(mask, x - mu, 0.0)
    rs = lax.rsqrt(jnp.sum(xc * xc) / d + eps)
    w = plgpu.load(w_ref.at[cols], mask=mask, other=0.0)
    b = plgpu.load(b_ref.at[cols], mask=mask, other=0.0)
    plgpu.store(y_ref.at[i, cols], xc * rs * w + b, mask=mask)
    mu_ref[i] = mu
    rs_ref[i] = rs


def _ln_bwd_kernel(x_ref, w_ref, mu_ref, rs_ref, dy_ref, _dw0, _db0, dx_ref, dw_ref, db_ref, *, n, d, width):
    first = pl.program_id(0) * ROWS
    cols = jnp.arange(width)
    mask = cols < d
    w = plgpu.load(w_ref.at[cols], mask=mask, other=0.0)

    def row(i, carry):
        dw, db = carry
        x = plgpu.load(x_ref.at[i, cols], mask=mask, other=0.0)
        dy = plgpu.load(dy_ref.at[i, cols], mask=mask, other=0.0)
        rs = rs_ref[i]
        xhat = jnp.where(mask, (x - mu_ref[i]) * rs, 0.0)
        wdy = w * dy
        c1 = jnp.sum(wdy * xhat) / d
        c2 = jnp.sum(wdy) / d
        plgpu.store(dx_ref.at[i, cols], (wdy - c1 * xhat - c2) * rs, mask=mask)
        return dw + dy * xhat, db + dy

    zero = jnp.zeros((width,), w.dtype)
    dw, db = lax.fori_loop(first, jnp.minimum(first + ROWS, n), row, (zero, zero))
    plgpu.atomic_add(dw_ref, pl.ds(0, width), dw)
    plgpu.atomic_add(db_ref, pl.ds(0, width), db)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def layer_norm(x, w, b, eps=1e-5):
    """LayerNorm over the last axis: x [n, d], w and b [d]."""
    return _ln_fwd(x, w, b, eps)[0]


def _ln_fwd(x, w, b, eps):
    n, d = x.shape
    stat = jax.ShapeDtypeStruct((n,), x.dtype)
    y, mu, rs = pl.pallas_call(
        functools.partial(_ln_fwd_kernel, d=d, width=pl.next_power_of_2(d), eps=eps),
        grid=(n,),
        out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype), stat, stat],
        interpret=INTERPRET,
    )(x, w, b)
    return y, (x, w, mu, rs)


def _ln_bwd(eps, res, dy):
    x, w, mu, rs = res
    n, d = x.shape
    width = pl.next_power_of_2(d)
    acc = jnp.zeros((width,), w.dtype)  # padded: atomics need no mask
    shape = jax.ShapeDtypeStruct((width,), w.dtype)
    dx, dw, db = pl.pallas_call(
        functools.partial(_ln_bwd_kernel, n=n, d=d, width=width),
        grid=(pl.cdiv(n, ROWS),),
        out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype), shape, shape],
        input_output_aliases={5: 1, 6: 2},
        interpret=INTERPRET,
    )(x, w, mu, rs, dy, acc, acc)
    return dx, dw[:d], db[:d]


layer_norm.defvjp(_ln_fwd, _ln_bwd)
