"""Masked (absorbing-state) diffusion language model: training terms.

The network itself lives elsewhere; this file has the noise schedule, the
weighted denoising bound, the block conditioning and the confidence gate that is
trained for the sampler.  Shapes use B sequences, L positions, V vocabulary
entries, D features, N blocks.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

HALF_PI = 0.5 * math.pi
T_MIN = 1e-3
SCHEDULES = ("linear", "cosine", "quadratic")


# ---------------------------------------------------------------------------
# schedule


def _schedule(t, kind):
    if kind == "linear":
        return 1.0 - t, 1.0 / t
    if kind == "cosine":
        phase = HALF_PI * (1.0 - t)
        return 1.0 - jnp.cos(phase), HALF_PI * jnp.tan(phase)
    if kind == "quadratic":
        return 1.0 - t * t, 2.0 / t
    raise ValueError(f"schedule must be one of {SCHEDULES}, not {kind!r}")


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def schedule_and_rate(t, kind="linear"):
    """Survival probability and the weight of the bound at time ``t``.

    ``alpha(t)`` is the chance that a token is still clean and the second value
    is ``-alpha'(t) / (1 - alpha(t))``.  Times are clamped to [T_MIN, 1]; the
    learned time warp gets no gradient from clamped entries.
    """
    return _schedule(jnp.clip(t, T_MIN, 1.0), kind)


@schedule_and_rate.defjvp
def _schedule_and_rate_jvp(kind, primals, tangents):
    (t,), (dt,) = primals, tangents
    inside = (t >= T_MIN) & (t <= 1.0)
    dt = jnp.where(inside, dt, 0.0)
    t = jnp.clip(t, T_MIN, 1.0)
    alpha, rate = _schedule(t, kind)
    if kind == "linear":
        d_alpha, d_rate = -jnp.ones_like(t), -rate * rate
    elif kind == "cosine":
        d_alpha = -HALF_PI * jnp.sin(HALF_PI * (1.0 - t))
        d_rate = -(HALF_PI**2) * (1.0 + rate * rate)
    else:
        d_alpha, d_rate = -2.0 * t, -0.5 * rate * rate
    return (alpha, rate), (d_alpha * dt, d_rate * dt)


def warp_times(u, knots):
    """Monotone time warp with learnable positive increments (antithetic u)."""
    steps = jax.nn.softmax(knots)
    edges = jnp.concatenate([jnp.zeros(1, steps.dtype), jnp.cumsum(steps)])
    grid = jnp.linspace(0.0, 1.0, edges.shape[0])
    return jnp.interp(u, grid, edges)


def corrupt(key, tokens, alpha, mask_id):
    """Replace each token by ``mask_id`` with probability ``1 - alpha``."""
    hidden = jax.random.uniform(key, tokens.shape) >= alpha[:, None]
    return jnp.where(hidden, mask_id, tokens), hidden


# ---------------------------------------------------------------------------
# bound


def _clean_log_probs(logits, mask_id):
    """Log-probabilities over real tokens; the mask entry is ruled out."""
    vocab = jnp.arange(logits.shape[-1])
    barred = jnp.where(vocab == mask_id, -jnp.inf, logits)
    return jax.nn.log_softmax(barred, axis=-1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def denoising_bound(logits, targets, hidden, rate, mask_id):
    """Weighted denoising bound of a batch.

    Args:
      logits: (B, L, V).
      targets: (B, L) clean token ids.
      hidden: (B, L) bool, positions which were masked.
      rate: (B,) weight from ``schedule_and_rate``.
      mask_id: id of the mask token, never predicted.

    Returns:
      The batch mean of ``rate * sum(nll over hidden) / L`` and, for logging and
      for the per-time reweighting, the mean nll over hidden positions of each
      sequence (0 where nothing is hidden).
    """
    return _bound(logits, targets, hidden, rate, mask_id)[0]


def _bound(logits, targets, hidden, rate, mask_id):
    logp = _clean_log_probs(logits, mask_id)
    nll = -jnp.take_along_axis(logp, targets[..., None], axis=-1)[..., 0]
    total = jnp.sum(jnp.where(hidden, nll, 0.0), axis=1)
    count = jnp.maximum(jnp.sum(hidden, axis=1), 1).astype(total.dtype)
    loss = jnp.mean(rate * total) / logits.shape[1]
    return (loss, total / count), (logp, total, count)


def _bound_fwd(logits, targets, hidden, rate, mask_id):
    out, (logp, total, count) = _bound(logits, targets, hidden, rate, mask_id)
    return out, (logp, targets, hidden, rate, total, count)


def _bound_bwd(mask_id, res, cts):
    logp, targets, hidden, rate, total, count = res
    ct_loss, ct_mean = cts
    batch, length, vocab = logp.shape
    ct_total = ct_loss * rate / (batch * length) + ct_mean / count
    onehot = jax.nn.one_hot(targets, vocab, dtype=logp.dtype)
    per_token = jnp.where(hidden, ct_total[:, None], 0.0)
    d_logits = per_token[..., None] * (jnp.exp(logp) - onehot)
    d_rate = ct_loss * total / (batch * length)
    return d_logits, None, None, d_rate


denoising_bound.defvjp(_bound_fwd, _bound_bwd)


# ---------------------------------------------------------------------------
# block conditioning


@jax.custom_vjp
def block_film(features, gain, shift, block_ids):
    """``features * (1 + gain[block]) + shift[block]``.

    ``features``: (B, L, D); ``gain`` and ``shift``: (B, N, D), one row per noise
    level block; ``block_ids``: (L,) block of every position, in any order.
    """
    return features * (1.0 + gain[:, block_ids]) + shift[:, block_ids]


def _film_fwd(features, gain, shift, block_ids):
    return block_film(features, gain, shift, block_ids), (features, gain, block_ids)


def _film_bwd(res, ct):
    features, gain, block_ids = res
    member = jax.nn.one_hot(block_ids, gain.shape[1], dtype=ct.dtype)
    d_gain = jnp.einsum("bld,ln->bnd", ct * features, member)
    d_shift = jnp.einsum("bld,ln->bnd", ct, member)
    return ct * (1.0 + gain[:, block_ids]), d_gain, d_shift, None


block_film.defvjp(_film_fwd, _film_bwd)


def init_conditioner(key, dim, width=32):
    k1, k2 = jax.random.split(key)
    return {
        "freqs": jnp.asarray(np.geomspace(1.0, 200.0, width // 2)),
        "hidden": jax.random.normal(k1, (width, width)) / math.sqrt(width),
        "out": 0.02 * jax.random.normal(k2, (width, 2 * dim)),
    }


def condition_on_blocks(params, features, block_times, block_ids):
    """Embed the time of each block and modulate the features with it."""
    angle = block_times[..., None] * params["freqs"]
    emb = jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1)
    gain, shift = jnp.split(jax.nn.silu(emb @ params["hidden"]) @ params["out"], 2, axis=-1)
    return block_film(features, gain, shift, block_ids)


# ---------------------------------------------------------------------------
# confidence gate


def _gate(logits, threshold, valid, sharpness):
    logp = jax.nn.log_softmax(logits, axis=-1)
    prob = jnp.exp(logp)
    entropy = -jnp.sum(prob * logp, axis=-1)
    soft = jax.nn.sigmoid(sharpness * (threshold[:, None] - entropy))
    keep = jnp.where(valid, soft, 0.0)
    seen = jnp.maximum(jnp.sum(valid, axis=1), 1).astype(keep.dtype)
    return logp, prob, entropy, soft, keep, seen


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def commit_gate(logits, threshold, valid, sharpness=4.0):
    """Soft decision to commit a proposed token rather than mask it again.

    Parameters
    ----------
    logits : (B, L, V)
    threshold : (B,)
        Entropy, in nats, below which a proposal is committed.
    valid : (B, L) bool
        False at padding.
    sharpness : float

    Returns
    -------
    keep : (B, L)
        Commit weight, 0 at padding.
    entropy : (B, L)
    committed : (B,)
        Mean of ``keep`` over the valid positions.
    """
    _, _, entropy, _, keep, seen = _gate(logits, threshold, valid, sharpness)
    return keep, entropy, jnp.sum(keep, axis=1) / seen


def _commit_fwd(logits, threshold, valid, sharpness):
    logp, prob, entropy, soft, keep, seen = _gate(logits, threshold, valid, sharpness)
    out = (keep, entropy, jnp.sum(keep, axis=1) / seen)
    return out, (logp, prob, entropy, soft, valid)


def _commit_bwd(sharpness, res, cts):
    logp, prob, entropy, soft, valid = res
    ct_keep, ct_entropy, ct_committed = cts
    ct_keep = ct_keep + ct_committed[:, None] / soft.shape[1]
    d_margin = jnp.where(valid, ct_keep, 0.0) * sharpness * soft * (1.0 - soft)
    d_entropy = ct_entropy - d_margin
    d_logits = -d_entropy[..., None] * prob * (logp + entropy[..., None])
    return d_logits, jnp.sum(d_margin, axis=1), None


commit_gate.defvjp(_commit_fwd, _commit_bwd)


def budget_loss(logits, threshold, valid, steps, sharpness=4.0):
    """Ask the sampler to commit 1/steps of the positions at a time, surely."""
    keep, entropy, committed = commit_gate(logits, threshold, valid, sharpness)
    risk = jnp.sum(keep * entropy) / jnp.maximum(jnp.sum(valid), 1)
    return risk + jnp.mean((committed - 1.0 / steps) ** 2)


def train_terms(key, params, apply_fn, tokens, mask_id, kind="linear"):
    """Bound for one batch; ``apply_fn(params, noisy, t)`` returns logits."""
    k_u, k_mask = jax.random.split(key)
    batch = tokens.shape[0]
    u = (jax.random.uniform(k_u) + jnp.arange(batch) / batch) % 1.0
    t = warp_times(u, params["knots"])
    alpha, rate = schedule_and_rate(t, kind)
    noisy, hidden = corrupt(k_mask, tokens, alpha, mask_id)
    logits = apply_fn(params, noisy, t)
    loss, per_sequence = denoising_bound(logits, tokens, hidden, rate, mask_id)
    return loss, {"nll": per_sequence, "t": t}


if __name__ == "__main__":
    vocab, mask_id = 12, 11
    root = jax.random.PRNGKey(0)
    params = {"knots": jnp.zeros(8), "table": 0.1 * jax.random.normal(root, (vocab, vocab))}
    tokens = jax.random.randint(root, (4, 16), 0, mask_id)
    toy = lambda p, noisy, t: p["table"][noisy] * (1.0 + t[:, None, None])
    (loss, logs), grads = jax.value_and_grad(
        lambda p: train_terms(root, p, toy, tokens, mask_id), has_aux=True
    )(params)
    print(loss, logs["nll"], grads["knots"])
    print(budget_loss(toy(params, tokens, logs["t"]), jnp.full(4, 2.0), jnp.ones((4, 16), bool), 8))
