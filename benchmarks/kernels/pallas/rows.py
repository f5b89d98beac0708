"""Row softmax and cross entropy with ignored labels."""
import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

TILE_ROWS = 2
VBLOCK = 16
IGNORE = -100
INTERPRET = jax.default_backend() != "gpu"


def _softmax_kernel(x_ref, y_ref, *, cols):
    inside = lax.broadcasted_iota(jnp.int32, x_ref.shape, 1) < cols
    x = jnp.where(inside, x_ref[...], -jnp.inf)
    e = jnp.exp(x - x.max(axis=1, keepdims=True))
    y_ref[...] = e / e.sum(axis=1, keepdims=True)


def _softmax_grad_kernel(y_ref, dy_ref, dx_ref, *, cols):
    inside = lax.broadcasted_iota(jnp.int32, y_ref.shape, 1) < cols
    y = jnp.where(inside, y_ref[...], 0.0)
    dy = jnp.where(inside, dy_ref[...], 0.0)
    dot = jnp.sum(y * dy, axis=1, keepdims=True)
    dx_ref[...] = y * (dy - dot)


def _rowwise(kernel, *args):
    n, cols = args[0].shape
    spec = pl.BlockSpec((TILE_ROWS, pl.next_power_of_2(cols)), lambda i: (i, 0))
    return pl.pallas_call(
        functools.partial(kernel, cols=cols),
        grid=(pl.cdiv(n, TILE_ROWS),),
        in_specs=[spec] * len(args),
        out_specs=spec,
        out_shape=jax.ShapeDtypeStruct((n, cols), args[0].dtype),
        interpret=INTERPRET,
    )(*args)


@jax.custom_vjp
def softmax(x):
    """softmax(x, axis=-1) of a matrix [n, cols]."""
    return _rowwise(_softmax_kernel, x)


def _softmax_fwd(x):
    y = softmax(x)
    return y, y


def _softmax_bwd(y, dy):
    return (_rowwise(_softmax_grad_kernel, y, dy),)


softmax.defvjp(_softmax_fwd, _softmax_bwd)


def _xent_fwd_kernel(x_ref, lab_ref, loss_ref, lse_ref, *, vocab):
    r = pl.program_id(0)
    lab = lab_ref[r]

    def step(b, carry):
        m, s = carry
        c = b * VBLOCK + jnp.arange(VBLOCK)
        x = plgpu.load(x_ref.at[r, c], mask=c < vocab, other=-jnp.inf)
        m2 = jnp.maximum(m, x.max())
        return m2, s * jnp.exp(m - m2) + jnp.sum(jnp.exp(x - m2))

    dtype = x_ref.dtype
    m, s = lax.fori_loop(0, pl.cdiv(vocab, VBLOCK), step, (jnp.array(-jnp.inf, dtype), jnp.array(0.0, dtype)))
    lse = m + jnp.log(s)
    picked = x_ref[r, jnp.maximum(lab, 0)]
    loss_ref[r] = jnp.where(lab == IGNORE, 0.0, lse - picked).astype(dtype)
    lse_ref[r] = lse


def _xent_bwd_kernel(x_ref, lab_ref, lse_ref, scale_ref, dx_ref, *, vocab):
    r, b = pl.program_id(0), pl.program_id(1)
    c = b * VBLOCK + jnp.arange(VBLOCK)
    mask = c < vocab
    lab = lab_ref[r]
    x = plgpu.load(x_ref.at[r, c], mask=mask, other=0.0)
    p = jnp.exp(x - lse_ref[r])
    grad = (p - jnp.where(c == lab, 1.0, 0.0)) * scale_ref[0]
    grad = jnp.where(lab == IGNORE, 0.0, grad)
    plgpu.store(dx_ref.at[r, c], grad.astype(x.dtype), mask=mask)


@jax.custom_vjp
def cross_entropy(logits, labels):
    """Mean of -log_softmax(logits)[labels] over rows whose label is not -100.

    logits [n, vocab], labels [n] integers; zero when every row is ignored.
    """
    return _xent_fwd(logits, labels)[0]


def _xent_fwd(logits, labels):
    n, vocab = logits.shape
    row = jax.ShapeDtypeStruct((n,), logits.dtype)
    loss, lse = pl.pallas_call(
        functools.partial(_xent_fwd_kernel, vocab=vocab),
        grid=(n,),
        out_shape=[row, row],
        interpret=INTERPRET,
    )(logits, labels)
    count = jnp.maximum(jnp.sum(labels != IGNORE), 1).astype(logits.dtype)
    return loss.sum() / count, (logits, labels, lse, count)


def _xent_bwd(res, g):
    logits, labels, lse, count = res
    n, vocab = logits.shape
    dx = pl.pallas_call(
        functools.partial(_xent_bwd_kernel, vocab=vocab),
        grid=(n, pl.cdiv(vocab, VBLOCK)),
        out_shape=jax.ShapeDtypeStruct(logits.shape, logits.dtype),
        interpret=INTERPRET,
    )(logits, labels, lse, (g / count).reshape(1))
    return dx, None


cross_entropy.defvjp(_xent_fwd, _xent_bwd)
