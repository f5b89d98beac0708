"""Sequence operations: a gated linear recurrence and rotary embedding."""
import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

CHANNELS = 16
INTERPRET = jax.default_backend() != "gpu"


def _scan_kernel(a_ref, x_ref, h0_ref, h_ref):
    steps, n = x_ref.shape
    c = pl.program_id(0) * CHANNELS + jnp.arange(CHANNELS)
    mask = c < n

    def step(t, h):
        a = plgpu.load(a_ref.at[t, c], mask=mask, other=0.0)
        x = plgpu.load(x_ref.at[t, c], mask=mask, other=0.0)
        h = a * h + x
        plgpu.store(h_ref.at[t, c], h, mask=mask)
        return h

    lax.fori_loop(0, steps, step, plgpu.load(h0_ref.at[c], mask=mask, other=0.0))


def _scan_grad_kernel(a_ref, h_ref, h0_ref, dy_ref, da_ref, dx_ref, dh0_ref):
    steps, n = h_ref.shape
    c = pl.program_id(0) * CHANNELS + jnp.arange(CHANNELS)
    mask = c < n
    h0 = plgpu.load(h0_ref.at[c], mask=mask, other=0.0)

    def step(k, carry):
        t = steps - 1 - k
        dh = carry + plgpu.load(dy_ref.at[t, c], mask=mask, other=0.0)
        a = plgpu.load(a_ref.at[t, c], mask=mask, other=0.0)
        prev = plgpu.load(h_ref.at[jnp.maximum(t - 1, 0), c], mask=mask, other=0.0)
        prev = jnp.where(t == 0, h0, prev)
        plgpu.store(da_ref.at[t, c], dh * prev, mask=mask)
        plgpu.store(dx_ref.at[t, c], dh, mask=mask)
        return dh * a

    dh0 = lax.fori_loop(0, steps, step, jnp.zeros((CHANNELS,), h0.dtype))
    plgpu.store(dh0_ref.at[c], dh0, mask=mask)


@jax.custom_vjp
def gated_scan(a, x, h0):
    """h[t] = a[t] * h[t-1] + x[t], h[-1] = h0: a and x [time, n], h0 [n] -> h [time, n]."""
    return _scan_fwd(a, x, h0)[0]


def _scan_fwd(a, x, h0):
    h = pl.pallas_call(
        _scan_kernel,
        grid=(pl.cdiv(x.shape[1], CHANNELS),),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        interpret=INTERPRET,
    )(a, x, h0)
    return h, (a, h, h0)


def _scan_bwd(res, dy):
    a, h, h0 = res
    like = jax.ShapeDtypeStruct(h.shape, h.dtype)
    return tuple(pl.pallas_call(
        _scan_grad_kernel,
        grid=(pl.cdiv(h.shape[1], CHANNELS),),
        out_shape=[like, like, jax.ShapeDtypeStruct(h0.shape, h0.dtype)],
        interpret=INTERPRET,
    )(a, h, h0, dy))


gated_scan.defvjp(_scan_fwd, _scan_bwd)


def _rope_kernel(x_ref, pos_ref, y_ref, *, half, base, sign):
    t, h = pl.program_id(0), pl.program_id(1)
    width = pl.next_power_of_2(half)
    i = jnp.arange(width)
    mask = i < half
    angle = pos_ref[t] * base ** (-i.astype(x_ref.dtype) / half)
    cos, sin = jnp.cos(angle), sign * jnp.sin(angle)
    x1 = plgpu.load(x_ref.at[t, h, i], mask=mask, other=0.0)
    x2 = plgpu.load(x_ref.at[t, h, half + i], mask=mask, other=0.0)
    plgpu.store(y_ref.at[t, h, i], x1 * cos - x2 * sin, mask=mask)
    plgpu.store(y_ref.at[t, h, half + i], x2 * cos + x1 * sin, mask=mask)


def _rope_call(x, pos, base, sign):
    t, heads, d = x.shape
    return pl.pallas_call(
        functools.partial(_rope_kernel, half=d // 2, base=base, sign=sign),
        grid=(t, heads),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        interpret=INTERPRET,
    )(x, pos)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def rope(x, pos, base=100.0):
    """Rotary embedding (halves rotated): x [time, heads, d], d even; pos [time] integers."""
    return _rope_call(x, pos, base, 1.0)


def _rope_fwd(x, pos, base):
    return rope(x, pos, base), pos


def _rope_bwd(base, pos, dy):
    return _rope_call(dy, pos, base, -1.0), None


rope.defvjp(_rope_fwd, _rope_bwd)
