"""Token-level objectives for pre-training and distillation."""
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax


# -- cross entropy ----------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def cross_entropy_and_lse(logits, labels, label_smoothing=0.0):
    """Per-token cross entropy together with the log-partition.

    :param logits: unnormalised scores, ``[..., vocab]``
    :param labels: integer classes, ``[...]``
    :param label_smoothing: mass spread evenly over the vocabulary
    :returns: ``(loss, lse)``, both ``[...]``. ``lse`` is the log-sum-exp of the
        logits; the trainer squares it for the z-loss term.
    """
    out, _ = _ce_lse_fwd(logits, labels, label_smoothing)
    return out


def _ce_lse_fwd(logits, labels, label_smoothing):
    lse = jax.nn.logsumexp(logits, axis=-1)
    picked = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    target = (1.0 - label_smoothing) * picked + label_smoothing * jnp.mean(logits, axis=-1)
    return (lse - target, lse), (logits, labels, lse)


def _ce_lse_bwd(label_smoothing, res, cts):
    logits, labels, lse = res
    g_loss, _ = cts
    vocab = logits.shape[-1]
    probs = jnp.exp(logits - lse[..., None])
    hot = jax.nn.one_hot(labels, vocab, dtype=logits.dtype)
    soft = (1.0 - label_smoothing) * hot + label_smoothing / vocab
    return g_loss[..., None] * (probs - soft), None


cross_entropy_and_lse.defvjp(_ce_lse_fwd, _ce_lse_bwd)


def lm_objective(logits, labels, mask, *, z_loss=1e-4):
    loss, lse = cross_entropy_and_lse(logits, labels)
    per_token = loss + z_loss * jnp.square(lse)
    return jnp.sum(per_token * mask) / jnp.maximum(jnp.sum(mask), 1)


# -- distillation -----------------------------------------------------------


def distillation_kl(student, teacher, *, temperature=1.0, mask=None):
    """Masked mean of ``T^2 KL(teacher_T || student_T)`` over tokens.

    The teacher's logits enter through ``stop_gradient``.

    Args:
      student: ``[..., vocab]`` logits.
      teacher: ``[..., vocab]`` logits.
      temperature: softening of both distributions.
      mask: optional ``[...]`` weights of the tokens.
    """
    teacher = lax.stop_gradient(teacher)
    if mask is None:
        mask = jnp.ones(student.shape[:-1], student.dtype)
    mask = lax.stop_gradient(mask.astype(student.dtype))
    t = temperature

    @jax.custom_gradient
    def objective(s, tch, m):
        log_p = jax.nn.log_softmax(tch / t, axis=-1)
        log_q = jax.nn.log_softmax(s / t, axis=-1)
        p = jnp.exp(log_p)
        count = jnp.maximum(jnp.sum(m), 1.0)
        kl = jnp.sum(p * (log_p - log_q), axis=-1)
        value = t * t * jnp.sum(kl * m) / count

        def grad(g):
            ds = (g * t * t / count) * m[..., None] * (jnp.exp(log_q) - p)
            return ds, jnp.zeros_like(tch), jnp.zeros_like(m)

        return value, grad

    return objective(student, teacher, mask)


# -- fused unembedding + cross entropy --------------------------------------


def _chunks(hidden, labels, chunk_size, ignore_index):
    n, d = hidden.shape
    pad = -n % chunk_size
    hidden = jnp.pad(hidden, ((0, pad), (0, 0)))
    labels = jnp.pad(labels, (0, pad), constant_values=ignore_index)
    return hidden.reshape(-1, chunk_size, d), labels.reshape(-1, chunk_size)


def _denominator(labels, ignore_index, reduction, dtype):
    if reduction == "sum":
        return jnp.ones((), dtype)
    if reduction == "mean":
        return jnp.maximum(jnp.sum(labels != ignore_index), 1).astype(dtype)
    raise ValueError(f"unknown reduction {reduction!r}")


def _chunk_logits(h, w, b):
    z = h @ w
    return z if b is None else z + b


@partial(jax.custom_vjp, nondiff_argnums=(4, 5, 6))
def chunked_linear_cross_entropy(
    hidden, unembed, bias, labels, chunk_size=1024, ignore_index=-100, reduction="mean"
):
    """Cross entropy of ``hidden @ unembed + bias`` without the full logits.

    Args:
      hidden: ``[tokens, d]``.
      unembed: ``[d, vocab]``.
      bias: ``[vocab]`` or None.
      labels: ``[tokens]`` integers; ``ignore_index`` marks tokens left out.
      chunk_size: tokens whose logits are alive at one time.
      ignore_index: see ``labels``.
      reduction: ``"mean"`` over the kept tokens or ``"sum"``.
    """
    hs, ls = _chunks(hidden, labels, chunk_size, ignore_index)

    def body(total, xs):
        h, lab = xs
        z = _chunk_logits(h, unembed, bias)
        keep = lab != ignore_index
        safe = jnp.where(keep, lab, 0)
        nll = jax.nn.logsumexp(z, axis=-1) - jnp.take_along_axis(z, safe[:, None], -1)[:, 0]
        return total + jnp.sum(jnp.where(keep, nll, 0.0)), None

    total, _ = lax.scan(body, jnp.zeros((), hidden.dtype), (hs, ls))
    return total / _denominator(labels, ignore_index, reduction, hidden.dtype)


def _clce_fwd(hidden, unembed, bias, labels, chunk_size, ignore_index, reduction):
    n = hidden.shape[0]
    hs, ls = _chunks(hidden, labels, chunk_size, ignore_index)
    denom = _denominator(labels, ignore_index, reduction, hidden.dtype)

    def body(carry, xs):
        total, dw, db = carry
        h, lab = xs
        z = _chunk_logits(h, unembed, bias)
        keep = lab != ignore_index
        safe = jnp.where(keep, lab, 0)
        lse = jax.nn.logsumexp(z, axis=-1)
        nll = lse - jnp.take_along_axis(z, safe[:, None], -1)[:, 0]
        dz = jnp.exp(z - lse[:, None]) - jax.nn.one_hot(safe, z.shape[-1], dtype=z.dtype)
        dz = jnp.where(keep[:, None], dz, 0.0) / denom
        total = total + jnp.sum(jnp.where(keep, nll, 0.0))
        return (total, dw + h.T @ dz, db + jnp.sum(dz, axis=0)), dz @ unembed.T

    init = (
        jnp.zeros((), hidden.dtype),
        jnp.zeros_like(unembed),
        jnp.zeros((unembed.shape[1],), unembed.dtype),
    )
    (total, dw, db), dh = lax.scan(body, init, (hs, ls))
    dh = dh.reshape(-1, hidden.shape[1])[:n]
    return total / denom, (dh, dw, None if bias is None else db)


def _clce_bwd(chunk_size, ignore_index, reduction, res, g):
    dh, dw, db = res
    return g * dh, g * dw, None if db is None else g * db, None


chunked_linear_cross_entropy.defvjp(_clce_fwd, _clce_bwd)
