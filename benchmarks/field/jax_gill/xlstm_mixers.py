"""Token mixers of the xLSTM / RWKV family for our JAX language models.

The kernels below keep only what their backward needs.  Shapes follow the
``[batch, time, heads, channels]`` convention unless said otherwise.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class MixerConfig:
    heads: int = 4
    head_dim: int = 16
    norm_groups: int = 1
    norm_before_gate: bool = False
    eps: float = 1e-5
    window: int | None = None


# --------------------------------------------------------------------------
# matrix memory
# --------------------------------------------------------------------------
def _memory_step(carry, inp):
    mem, norm = carry
    k, v, i, f = inp
    mem = f[..., None, None] * mem + i[..., None, None] * v[..., :, None] * k[..., None, :]
    norm = f[..., None] * norm + i[..., None] * k
    return (mem, norm), (mem, norm)


def _time_first(*xs):
    return tuple(jnp.moveaxis(x, 1, 0) for x in xs)


@functools.partial(jax.custom_vjp, nondiff_argnums=(6,))
def matrix_memory(q, k, v, i_gate, f_gate, mem0, bound=1.0):
    """Matrix memory of the mLSTM, read with a bounded normaliser.

    ``C_t = f_t C_{t-1} + i_t v_t k_t^T``, ``n_t = f_t n_{t-1} + i_t k_t`` and
    ``h_t = C_t q_t / max(|n_t . q_t|, bound)``; the normaliser starts empty.

    Args:
        q, k: ``[B, T, H, K]``.
        v: ``[B, T, H, V]``.
        i_gate, f_gate: gates after their activation, ``[B, T, H]``.
        mem0: memory carried from the previous chunk, ``[B, H, V, K]``.
        bound: static floor of the normaliser.

    Returns:
        ``(h, C_T)`` of shapes ``[B, T, H, V]`` and ``[B, H, V, K]``.
    """
    return _matrix_memory_fwd(q, k, v, i_gate, f_gate, mem0, bound)[0]


def _matrix_memory_fwd(q, k, v, i_gate, f_gate, mem0, bound):
    qs, ks, vs, is_, fs = _time_first(q, k, v, i_gate, f_gate)
    n0 = jnp.zeros_like(ks[0])
    (mem_t, _), (mems, norms) = jax.lax.scan(_memory_step, (mem0, n0), (ks, vs, is_, fs))
    raw = jnp.einsum("tbhvk,tbhk->tbhv", mems, qs)
    dots = jnp.sum(norms * qs, axis=-1)
    den = jnp.maximum(jnp.abs(dots), bound)
    out = raw / den[..., None]
    res = (qs, ks, vs, is_, fs, mem0, mems, norms, dots, out)
    return (jnp.moveaxis(out, 0, 1), mem_t), res


def _matrix_memory_bwd(bound, res, cots):
    qs, ks, vs, is_, fs, mem0, mems, norms, dots, out = res
    g_out, g_mem = cots
    g_out = jnp.moveaxis(g_out, 1, 0)
    den = jnp.maximum(jnp.abs(dots), bound)
    g_raw = g_out / den[..., None]
    g_den = -jnp.sum(g_raw * out, axis=-1)
    g_dot = jnp.where(jnp.abs(dots) > bound, jnp.sign(dots), 0.0) * g_den
    dq = jnp.einsum("tbhvk,tbhv->tbhk", mems, g_raw) + g_dot[..., None] * norms
    mem_prev = jnp.concatenate([mem0[None], mems[:-1]], axis=0)
    norm_prev = jnp.concatenate([jnp.zeros_like(norms[:1]), norms[:-1]], axis=0)

    def step(carry, inp):
        gm, gn = carry
        q, k, v, i, f, mp, np_, gr, gd = inp
        gm = gm + gr[..., :, None] * q[..., None, :]
        gn = gn + gd[..., None] * q
        gm_k = jnp.einsum("bhvk,bhk->bhv", gm, k)
        di = jnp.sum(gm_k * v, axis=-1) + jnp.sum(gn * k, axis=-1)
        df = jnp.sum(gm * mp, axis=(-2, -1)) + jnp.sum(gn * np_, axis=-1)
        dv = i[..., None] * gm_k
        dk = i[..., None] * (jnp.einsum("bhvk,bhv->bhk", gm, v) + gn)
        return (f[..., None, None] * gm, f[..., None] * gn), (dk, dv, di, df)

    xs = (qs, ks, vs, is_, fs, mem_prev, norm_prev, g_raw, g_dot)
    (g_mem0, _), grads = jax.lax.scan(step, (g_mem, jnp.zeros_like(norms[0])), xs, reverse=True)
    dk, dv, di, df = (jnp.moveaxis(x, 0, 1) for x in grads)
    return jnp.moveaxis(dq, 0, 1), dk, dv, di, df, g_mem0


matrix_memory.defvjp(_matrix_memory_fwd, _matrix_memory_bwd)


# --------------------------------------------------------------------------
# token shift
# --------------------------------------------------------------------------
def _shift(x, last):
    return jnp.concatenate([last[:, None], x[:, :-1]], axis=1)


def _same_document(doc_ids):
    same = doc_ids[:, 1:] == doc_ids[:, :-1]
    return jnp.pad(same, ((0, 0), (1, 0)), constant_values=True)[..., None]


@jax.custom_vjp
def token_lerp(x, mu, last, doc_ids):
    """Interpolate each token with its predecessor, ``mu x_t + (1 - mu) x_{t-1}``.

    Args:
        x: ``[B, T, D]`` packed sequences.
        mu: ``[D]`` mixing coefficients.
        last: ``[B, D]``, last token of the previous chunk, seen by position 0.
        doc_ids: ``[B, T]`` integers; the first token of a new document has a zero predecessor.
    """
    prev = jnp.where(_same_document(doc_ids), _shift(x, last), 0.0)
    return mu * x + (1.0 - mu) * prev


def _token_lerp_fwd(x, mu, last, doc_ids):
    return token_lerp(x, mu, last, doc_ids), (x, mu, last, doc_ids)


def _token_lerp_bwd(res, g):
    x, mu, last, doc_ids = res
    g_prev = jnp.where(_same_document(doc_ids), (1.0 - mu) * g, 0.0)
    dx = mu * g
    dx = dx.at[:, :-1].add(g_prev[:, 1:])
    dmu = jnp.sum(g * (x - _shift(x, last)), axis=(0, 1))
    return dx, dmu, g_prev[:, 0], None


token_lerp.defvjp(_token_lerp_fwd, _token_lerp_bwd)


# --------------------------------------------------------------------------
# decayed attention scores (parallel form)
# --------------------------------------------------------------------------
def _decay_mask(length, window):
    i = jnp.arange(length)[:, None]
    j = jnp.arange(length)[None, :]
    keep = j <= i
    if window is not None:
        keep = keep & (i - j < window)
    return keep


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def retained_scores(q, k, log_f, window=None):
    """Scores ``q_i . k_j * prod_{j < s <= i} f_s`` for ``j <= i`` (and ``i - j < window``), else 0.

    q, k are ``[B, T, H, K]`` and log_f is ``[B, T, H]``; the result is ``[B, H, T, T]``.
    """
    return _retained_fwd(q, k, log_f, window)[0]


def _retained_fwd(q, k, log_f, window):
    c = jnp.moveaxis(jnp.cumsum(log_f, axis=1), 1, -1)
    keep = _decay_mask(q.shape[1], window)
    gap = jnp.where(keep, c[..., :, None] - c[..., None, :], 0.0)
    decay = jnp.where(keep, jnp.exp(gap), 0.0)
    scores = jnp.einsum("bihk,bjhk->bhij", q, k) * decay
    return scores, (q, k, decay, scores)


def _retained_bwd(window, res, g):
    q, k, decay, scores = res
    gd = g * decay
    dq = jnp.einsum("bhij,bjhk->bihk", gd, k)
    dk = jnp.einsum("bhij,bihk->bjhk", gd, q)
    flow = g * scores
    dc = jnp.sum(flow, axis=-1) - jnp.sum(flow, axis=-2)
    dlog_f = jnp.flip(jnp.cumsum(jnp.flip(dc, -1), axis=-1), -1)
    return dq, dk, jnp.moveaxis(dlog_f, -1, 1)


retained_scores.defvjp(_retained_fwd, _retained_bwd)


# --------------------------------------------------------------------------
# output norm
# --------------------------------------------------------------------------
def _inverse_rms(x, groups, eps):
    """Reciprocal RMS of each group of channels, spread over its channels."""
    parts = x.reshape(x.shape[:-1] + (groups, -1))
    r = jax.lax.rsqrt(jnp.mean(parts * parts, axis=-1, keepdims=True) + eps)
    return jnp.broadcast_to(r, parts.shape).reshape(x.shape)


def _dsilu(x):
    s = jax.nn.sigmoid(x)
    return s * (1.0 + x * (1.0 - s))


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def swish_group_norm(x, gate, weight, cfg=MixerConfig()):
    """Grouped RMS norm with a SiLU gate, applied before or after the norm (``cfg.norm_before_gate``).

    x and gate are ``[..., D]``, weight is ``[D]``; ``cfg.norm_groups`` divides D.
    """
    return _swish_norm_fwd(x, gate, weight, cfg)[0]


def _swish_norm_fwd(x, gate, weight, cfg):
    act = jax.nn.silu(gate)
    u = x if cfg.norm_before_gate else x * act
    rstd = _inverse_rms(u, cfg.norm_groups, cfg.eps)
    y = u * rstd * weight
    if cfg.norm_before_gate:
        y = y * act
    return y, (x, gate, weight, u, rstd)


def _swish_norm_bwd(cfg, res, g):
    x, gate, weight, u, rstd = res
    act = jax.nn.silu(gate)
    u_hat = u * rstd
    if cfg.norm_before_gate:
        g_gate = g * u_hat * weight * _dsilu(gate)
        g = g * act
    dweight = jnp.sum(g * u_hat, axis=tuple(range(g.ndim - 1)))
    g_hat = g * weight
    du = rstd * (g_hat - u_hat * jnp.mean(g_hat * u_hat, axis=-1, keepdims=True))
    if cfg.norm_before_gate:
        return du, g_gate, dweight
    return du * act, du * x * _dsilu(gate), dweight


swish_group_norm.defvjp(_swish_norm_fwd, _swish_norm_bwd)
