"""Gated activations: SwiGLU on two tensors, GeGLU on a packed one."""
import math

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

BLOCK = 32
INTERPRET = jax.default_backend() != "gpu"


def _swiglu_fwd_kernel(g_ref, u_ref, o_ref):
    g = g_ref[...]
    o_ref[...] = g * jax.nn.sigmoid(g) * u_ref[...]


def _swiglu_bwd_kernel(g_ref, u_ref, do_ref, dg_ref, du_ref):
    g, u, do = g_ref[...], u_ref[...], do_ref[...]
    sig = jax.nn.sigmoid(g)
    dg_ref[...] = do * u * sig * (1.0 + g * (1.0 - sig))
    du_ref[...] = do * g * sig


def _elementwise(kernel, n_out, *args):
    shape, dtype = args[0].shape, args[0].dtype
    n = args[0].size
    spec = pl.BlockSpec((BLOCK,), lambda i: (i,))
    outs = pl.pallas_call(
        kernel,
        grid=(pl.cdiv(n, BLOCK),),
        in_specs=[spec] * len(args),
        out_specs=[spec] * n_out,
        out_shape=[jax.ShapeDtypeStruct((n,), dtype)] * n_out,
        interpret=INTERPRET,
    )(*(a.reshape(n) for a in args))
    return [o.reshape(shape) for o in outs]


@jax.custom_vjp
def swiglu(gate, up):
    """silu(gate) * up; gate and up have one (any, non-empty) shape and dtype."""
    return _elementwise(_swiglu_fwd_kernel, 1, gate, up)[0]


def _swiglu_fwd(gate, up):
    return swiglu(gate, up), (gate, up)


def _swiglu_bwd(res, do):
    gate, up = res
    dgate, dup = _elementwise(_swiglu_bwd_kernel, 2, gate, up, do)
    return dgate, dup


swiglu.defvjp(_swiglu_fwd, _swiglu_bwd)

_C0 = math.sqrt(2.0 / math.pi)
_C1 = 0.044715


def _geglu_fwd_kernel(x_ref, o_ref, *, d):
    row, blk = pl.program_id(0), pl.program_id(1)
    cols = blk * BLOCK + jnp.arange(BLOCK)
    mask = cols < d
    a = plgpu.load(x_ref.at[row * 2 * d + cols], mask=mask, other=0.0)
    b = plgpu.load(x_ref.at[row * 2 * d + d + cols], mask=mask, other=0.0)
    t = jnp.tanh(_C0 * (a + _C1 * a * a * a))
    plgpu.store(o_ref.at[row * d + cols], 0.5 * a * (1.0 + t) * b, mask=mask)


def _geglu_bwd_kernel(x_ref, do_ref, dx_ref, *, d):
    row, blk = pl.program_id(0), pl.program_id(1)
    cols = blk * BLOCK + jnp.arange(BLOCK)
    mask = cols < d
    left = row * 2 * d + cols
    right = left + d
    a = plgpu.load(x_ref.at[left], mask=mask, other=0.0)
    b = plgpu.load(x_ref.at[right], mask=mask, other=0.0)
    g = plgpu.load(do_ref.at[row * d + cols], mask=mask, other=0.0)
    t = jnp.tanh(_C0 * (a + _C1 * a * a * a))
    dt = (1.0 - t * t) * _C0 * (1.0 + 3.0 * _C1 * a * a)
    plgpu.store(dx_ref.at[left], g * b * (0.5 * (1.0 + t) + 0.5 * a * dt), mask=mask)
    plgpu.store(dx_ref.at[right], g * 0.5 * a * (1.0 + t), mask=mask)


@jax.custom_vjp
def geglu(x):
    """gelu_tanh(x[:, :d]) * x[:, d:] for x of shape [rows, 2 * d]."""
    return _geglu_fwd(x)[0]


def _geglu_fwd(x):
    rows, d = x.shape[0], x.shape[1] // 2
    out = pl.pallas_call(
        lambda *refs: _geglu_fwd_kernel(*refs, d=d),
        grid=(rows, pl.cdiv(d, BLOCK)),
        out_shape=jax.ShapeDtypeStruct((rows * d,), x.dtype),
        interpret=INTERPRET,
    )(x.reshape(-1))
    return out.reshape(rows, d), (x,)


def _geglu_bwd(res, do):
    (x,) = res
    rows, d = do.shape
    dx = pl.pallas_call(
        lambda *refs: _geglu_bwd_kernel(*refs, d=d),
        grid=(rows, pl.cdiv(d, BLOCK)),
        out_shape=jax.ShapeDtypeStruct((x.size,), x.dtype),
        interpret=INTERPRET,
    )(x.reshape(-1), do.reshape(-1))
    return (dx.reshape(x.shape),)


geglu.defvjp(_geglu_fwd, _geglu_bwd)
