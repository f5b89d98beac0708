from functools import partial
from typing import Any, Dict, Optional

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

Array = jax.Array


def _crf_forward(emissions, params, lengths):
    trans, start = params["transitions"], params["start"]
    first = start + emissions[:, 0]

    def step(alpha, inputs):
        t, e = inputs
        new = logsumexp(alpha[:, :, None] + trans[None], axis=1) + e
        alpha = jnp.where((t < lengths)[:, None], new, alpha)
        return alpha, alpha

    steps = jnp.arange(1, emissions.shape[1])
    last, rest = jax.lax.scan(step, first, (steps, jnp.swapaxes(emissions, 0, 1)[1:]))
    alphas = jnp.concatenate([first[None], rest], axis=0)
    return logsumexp(last + params["end"], axis=-1), alphas


@jax.custom_vjp
def crf_log_partition(emissions: Array, params: Dict[str, Array], lengths: Array) -> Array:
    """Log partition function of linear-chain conditional random fields.

    Args:
      emissions: scores ``(batch, time, labels)``.
      params: ``{"transitions": (labels, labels), "start": (labels,), "end": (labels,)}``;
        ``transitions[i, j]`` scores a step from ``i`` to ``j``.
      lengths: whole numbers ``(batch,)``, at least one and at most ``time``.

    Returns:
      ``(batch,)``.
    """
    return _crf_forward(emissions, params, lengths)[0]


def _crf_fwd(emissions, params, lengths):
    log_z, alphas = _crf_forward(emissions, params, lengths)
    return log_z, (emissions, params, lengths, alphas, log_z)


def _crf_bwd(res, g):
    emissions, params, lengths, alphas, log_z = res
    trans, end = params["transitions"], params["end"]
    time = emissions.shape[1]
    em = jnp.swapaxes(emissions, 0, 1)
    beta_last = jnp.broadcast_to(end, em.shape[1:])

    def step(carry, inputs):
        beta, g_trans = carry
        t, alpha, e = inputs
        live = (t + 1 < lengths)[:, None]
        into = (e + beta)[:, None, :] + trans[None]
        pair = jnp.exp(alpha[:, :, None] + into - log_z[:, None, None])
        g_trans = g_trans + jnp.einsum("b,bij->ij", jnp.where(live[:, 0], g, 0.0), pair)
        beta = jnp.where(live, logsumexp(into, axis=2), beta)
        return (beta, g_trans), beta

    init = (beta_last, jnp.zeros_like(trans))
    (_, g_trans), betas = jax.lax.scan(
        step, init, (jnp.arange(time - 1), alphas[:-1], em[1:]), reverse=True
    )
    betas = jnp.concatenate([betas, beta_last[None]], axis=0)
    unary = jnp.exp(alphas + betas - log_z[None, :, None]) * g[None, :, None]
    valid = jnp.arange(time)[:, None] < lengths[None]
    g_em = jnp.where(valid[..., None], unary, 0.0)
    g_end = jnp.sum(unary[-1], axis=0)
    grads = {"transitions": g_trans, "start": jnp.sum(g_em[0], axis=0), "end": g_end}
    return jnp.swapaxes(g_em, 0, 1), grads, None


crf_log_partition.defvjp(_crf_fwd, _crf_bwd)


def _capped_scores(q, k, mask, scale, soft_cap):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = scale * jnp.einsum("...qd,...kd->...qk", q, k)
    if soft_cap is not None:
        scores = soft_cap * jnp.tanh(scores / soft_cap)
    capped = scores
    if mask is not None:
        scores = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
    return capped, jax.nn.softmax(scores, axis=-1), scale


@partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def soft_capped_attention(q, k, v, mask=None, scale=None, soft_cap=None):
    """Attention whose scores may be capped smoothly.

    Args:
      q: ``(..., queries, dim)``.
      k: ``(..., keys, dim)``, the same leading axes.
      v: ``(..., keys, value_dim)``.
      mask: booleans that broadcast to ``(..., queries, keys)``, true where a key
        may be seen. Every query sees at least one.
      scale: factor of the scores, ``1 / sqrt(dim)`` by default.
      soft_cap: if given, scores are ``soft_cap * tanh(scores / soft_cap)``.
    """
    _, probs, _ = _capped_scores(q, k, mask, scale, soft_cap)
    return probs @ v


def _soft_capped_attention_fwd(q, k, v, mask, scale, soft_cap):
    capped, probs, _ = _capped_scores(q, k, mask, scale, soft_cap)
    return probs @ v, (q, k, v, capped, probs)


def _soft_capped_attention_bwd(scale, soft_cap, res, g):
    q, k, v, capped, probs = res
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    dv = jnp.einsum("...qk,...qe->...ke", probs, g)
    dp = jnp.einsum("...qe,...ke->...qk", g, v)
    ds = probs * (dp - jnp.sum(dp * probs, axis=-1, keepdims=True))
    if soft_cap is not None:
        ds = ds * (1.0 - capped**2)
    dq = scale * jnp.einsum("...qk,...kd->...qd", ds, k)
    dk = scale * jnp.einsum("...qk,...qd->...kd", ds, q)
    return dq, dk, dv, None


soft_capped_attention.defvjp(_soft_capped_attention_fwd, _soft_capped_attention_bwd)


def paired_contrastive_loss(left, right, logit_scale, *, reduction="mean"):
    """Two-sided contrastive loss of paired embeddings.

    ``left`` and ``right`` are ``(n, dim)``; row ``i`` of one belongs to row ``i``
    of the other. ``reduction`` is ``"mean"``, ``"sum"`` or ``"none"``.
    """

    @jax.custom_gradient
    def per_pair(a, b, s):
        sims = a @ b.T
        logits = s * sims
        rows = jax.nn.log_softmax(logits, axis=1)
        cols = jax.nn.log_softmax(logits, axis=0)
        value = -0.5 * (jnp.diagonal(rows) + jnp.diagonal(cols))

        def grad(ct):
            eye = jnp.eye(ct.shape[0], dtype=logits.dtype)
            d = 0.5 * (ct[:, None] * (jnp.exp(rows) - eye) + ct[None, :] * (jnp.exp(cols) - eye))
            return s * (d @ b), s * (d @ a), jnp.sum(d * sims)

        return value, grad

    losses = per_pair(left, right, logit_scale)
    if reduction == "none":
        return losses
    if reduction == "sum":
        return jnp.sum(losses)
    if reduction == "mean":
        return jnp.mean(losses)
    raise ValueError(f"unknown reduction {reduction!r}")


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def segment_logsumexp(data: Array, segment_ids: Array, num_segments: int) -> Array:
    top = jax.ops.segment_max(data, segment_ids, num_segments)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    total = jax.ops.segment_sum(jnp.exp(data - top[segment_ids]), segment_ids, num_segments)
    return jnp.log(total) + top


def _segment_logsumexp_fwd(data, segment_ids, num_segments):
    out = segment_logsumexp(data, segment_ids, num_segments)
    return out, (data, segment_ids, out)


def _segment_logsumexp_bwd(num_segments, res, g):
    data, ids, out = res
    known = (ids >= 0) & (ids < num_segments)
    known = known.reshape(known.shape + (1,) * (data.ndim - 1))
    peak = out[ids]
    peak = jnp.where(jnp.isfinite(peak), peak, 0.0)
    share = jnp.exp(jnp.where(known, data - peak, -jnp.inf))
    return share * g[ids], None


segment_logsumexp.defvjp(_segment_logsumexp_fwd, _segment_logsumexp_bwd)


def make_arctan_spike(alpha: float = 2.0, threshold: float = 1.0):
    """Spike function with an arctangent surrogate gradient.

    Forward a step: one where the membrane potential exceeds ``threshold``.
    The backward pass replaces the derivative of the step by
    ``(alpha / 2) / (1 + (pi / 2 * alpha * (v - threshold)) ** 2)``.
    """

    @jax.custom_jvp
    def spike(v):
        return (v > threshold).astype(v.dtype)

    @spike.defjvp
    def spike_jvp(primals, tangents):
        (v,), (dv,) = primals, tangents
        u = 0.5 * jnp.pi * alpha * (v - threshold)
        return spike(v), 0.5 * alpha / (1.0 + u * u) * dv

    return spike


class LeakyIntegrator:
    """Leaky integrate-and-fire neurons with a soft reset."""

    def __init__(self, decay: float = 0.9, threshold: float = 1.0, alpha: Optional[float] = None):
        self.decay = decay
        self.threshold = threshold
        self.spike = make_arctan_spike(2.0 if alpha is None else alpha, threshold)

    def __call__(self, potential: Array, current: Array) -> Any:
        potential = self.decay * potential + current
        fired = self.spike(potential)
        return potential - self.threshold * fired, fired
