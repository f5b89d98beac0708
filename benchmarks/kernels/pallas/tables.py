"""Dropout with a given mask, embedding lookup, average pooling, Huber loss."""
import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

BLOCK = 16
INTERPRET = jax.default_backend() != "gpu"


def _dropout_kernel(x_ref, keep_ref, o_ref, *, p):
    o_ref[...] = jnp.where(keep_ref[...] != 0, x_ref[...] / (1.0 - p), 0.0)


def _dropout_grad_kernel(g_ref, keep_ref, dx_ref, *, p):
    keep = keep_ref[...] != 0
    dx_ref[...] = jnp.where(keep, g_ref[...] / (1.0 - p), 0.0)


def _dropout_call(kernel, x, keep, p):
    spec = pl.BlockSpec((BLOCK,), lambda i: (i,))
    return pl.pallas_call(
        functools.partial(kernel, p=p),
        grid=(pl.cdiv(x.size, BLOCK),),
        in_specs=[spec, spec],
        out_specs=spec,
        out_shape=jax.ShapeDtypeStruct((x.size,), x.dtype),
        interpret=INTERPRET,
    )(x.reshape(-1), keep.reshape(-1)).reshape(x.shape)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def dropout(x, keep, p):
    """x / (1 - p) where keep (int8, x's shape) is not 0, else 0."""
    return _dropout_call(_dropout_kernel, x, keep, p)


dropout.defvjp(
    lambda x, keep, p: (dropout(x, keep, p), keep),
    lambda p, keep, g: (_dropout_call(_dropout_grad_kernel, g, keep, p), None),
)

IDS = 4  # ids a program in the backward


def _embed_kernel(table_ref, ids_ref, o_ref, *, width):
    i = pl.program_id(0)
    c = jnp.arange(width)
    token = ids_ref[i]
    mask = (c < table_ref.shape[1]) & (token >= 0)
    row = plgpu.load(table_ref.at[jnp.maximum(token, 0), c], mask=mask, other=0.0)
    plgpu.store(o_ref.at[i, c], row, mask=c < o_ref.shape[1])


def _embed_grad_kernel(g_ref, ids_ref, _zero, dtable_ref, *, width):
    first = pl.program_id(0) * IDS
    c = jnp.arange(width)

    def one(i, carry):
        token = ids_ref[i]

        @pl.when(token >= 0)
        def _():
            g = plgpu.load(g_ref.at[i, c], mask=c < g_ref.shape[1], other=0.0)
            plgpu.atomic_add(dtable_ref, token * width + c, g)

        return carry

    lax.fori_loop(first, jnp.minimum(first + IDS, ids_ref.shape[0]), one, 0)


@jax.custom_vjp
def embedding(table, ids):
    """table[ids] for table [v, d], ids [n] integers; rows of id -1 are zero."""
    return _embed_fwd(table, ids)[0]


def _embed_fwd(table, ids):
    n, d = ids.shape[0], table.shape[1]
    out = pl.pallas_call(
        functools.partial(_embed_kernel, width=pl.next_power_of_2(d)),
        grid=(n,),
        out_shape=jax.ShapeDtypeStruct((n, d), table.dtype),
        interpret=INTERPRET,
    )(table, ids)
    return out, (ids, table.shape[0])


def _embed_bwd(res, g):
    ids, rows = res
    n, d = g.shape
    width = pl.next_power_of_2(d)
    grad = pl.pallas_call(
        functools.partial(_embed_grad_kernel, width=width),
        grid=(pl.cdiv(n, IDS),),
        out_shape=jax.ShapeDtypeStruct((rows * width,), g.dtype),
        input_output_aliases={2: 0},
        interpret=INTERPRET,
    )(g, ids, jnp.zeros((rows * width,), g.dtype))
    return grad.reshape(rows, width)[:, :d], None


embedding.defvjp(_embed_fwd, _embed_bwd)


def _pool_kernel(x_ref, y_ref, *, window, stride):
    ch = pl.program_id(0)
    o = pl.program_id(1) * BLOCK + jnp.arange(BLOCK)
    mask = o < y_ref.shape[1]
    acc = jnp.zeros((BLOCK,), x_ref.dtype)
    for k in range(window):
        acc += plgpu.load(x_ref.at[ch, o * stride + k], mask=mask, other=0.0)
    plgpu.store(y_ref.at[ch, o], acc / window, mask=mask)


def _pool_grad_kernel(dy_ref, dx_ref, *, window, stride):
    ch = pl.program_id(0)
    pos = pl.program_id(1) * BLOCK + jnp.arange(BLOCK)
    n_out = dy_ref.shape[1]
    acc = jnp.zeros((BLOCK,), dy_ref.dtype)
    for k in range(pl.cdiv(window, stride)):
        o = pos // stride - k
        hit = (o >= 0) & (o < n_out) & (pos - o * stride < window)
        acc += plgpu.load(dy_ref.at[ch, o], mask=hit, other=0.0)
    plgpu.store(dx_ref.at[ch, pos], acc / window, mask=pos < dx_ref.shape[1])


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def avg_pool(x, window, stride):
    """Mean of windows along the last axis: x [channels, time] (time >= window), no padding."""
    ch, time = x.shape
    n_out = (time - window) // stride + 1
    return pl.pallas_call(
        functools.partial(_pool_kernel, window=window, stride=stride),
        grid=(ch, pl.cdiv(n_out, BLOCK)),
        out_shape=jax.ShapeDtypeStruct((ch, n_out), x.dtype),
        interpret=INTERPRET,
    )(x)


def _pool_fwd(x, window, stride):
    return avg_pool(x, window, stride), x.shape[1]


def _pool_bwd(window, stride, time, dy):
    ch = dy.shape[0]
    dx = pl.pallas_call(
        functools.partial(_pool_grad_kernel, window=window, stride=stride),
        grid=(ch, pl.cdiv(time, BLOCK)),
        out_shape=jax.ShapeDtypeStruct((ch, time), dy.dtype),
        interpret=INTERPRET,
    )(dy)
    return (dx,)


avg_pool.defvjp(_pool_fwd, _pool_bwd)


def _huber_kernel(p_ref, t_ref, part_ref, *, n, delta):
    i = pl.program_id(0)
    live = i * BLOCK + jnp.arange(BLOCK) < n
    e = jnp.where(live, p_ref[...] - t_ref[...], 0.0)
    a = jnp.abs(e)
    part_ref[i] = jnp.sum(jnp.where(a <= delta, 0.5 * e * e, delta * (a - 0.5 * delta)))


def _huber_grad_kernel(p_ref, t_ref, g_ref, dp_ref, dt_ref, *, n, delta):
    e = p_ref[...] - t_ref[...]
    d = jnp.clip(e, -delta, delta) * (g_ref[0] / n)
    dp_ref[...] = d
    dt_ref[...] = -d


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def huber_loss(pred, target, delta=1.0):
    """Mean Huber loss of two tensors of one shape (any, non-empty)."""
    return _huber_fwd(pred, target, delta)[0]


def _huber_fwd(pred, target, delta):
    n = pred.size
    blocks = pl.cdiv(n, BLOCK)
    spec = pl.BlockSpec((BLOCK,), lambda i: (i,))
    parts = pl.pallas_call(
        functools.partial(_huber_kernel, n=n, delta=delta),
        grid=(blocks,),
        in_specs=[spec, spec],
        out_shape=jax.ShapeDtypeStruct((blocks,), pred.dtype),
        interpret=INTERPRET,
    )(pred.reshape(-1), target.reshape(-1))
    return parts.sum() / n, (pred, target)


def _huber_bwd(delta, res, g):
    pred, target = res
    n = pred.size
    spec = pl.BlockSpec((BLOCK,), lambda i: (i,))
    like = jax.ShapeDtypeStruct((n,), pred.dtype)
    dp, dt = pl.pallas_call(
        functools.partial(_huber_grad_kernel, n=n, delta=delta),
        grid=(pl.cdiv(n, BLOCK),),
        in_specs=[spec, spec, pl.BlockSpec((1,), lambda i: (0,))],
        out_specs=[spec, spec],
        out_shape=[like, like],
        interpret=INTERPRET,
    )(pred.reshape(-1), target.reshape(-1), g.reshape(1))
    return dp.reshape(pred.shape), dt.reshape(pred.shape)


huber_loss.defvjp(_huber_fwd, _huber_bwd)
