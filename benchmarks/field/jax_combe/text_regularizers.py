"""Consistency loss and noise layers for the tagger."""
from functools import partial

import jax
import jax.numpy as jnp


def _log_probs(a, b, temperature):
    return jax.nn.log_softmax(a / temperature, -1), jax.nn.log_softmax(b / temperature, -1)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def r_drop_loss(a, b, mask, temperature=1.0):
    """Symmetric KL between the predictions of two dropout passes over the same batch.

    For each token the loss is ``0.5 * (KL(p || q) + KL(q || p))`` with ``p`` and ``q`` the softmax of
    the two sets of logits divided by the temperature. Tokens are averaged where ``mask`` is True
    (the average is 0 when there are none) and the result is multiplied by ``temperature ** 2``.

    Both passes are trained: gradients go to ``a`` and to ``b``.

    Args:
        a: Logits of the first pass, ``(batch, time, vocab)``.
        b: Logits of the second pass, same shape.
        mask: Boolean ``(batch, time)``.
        temperature: Positive Python float.

    Returns:
        Scalar loss.
    """
    return _r_drop_fwd(a, b, mask, temperature)[0]


def _r_drop_fwd(a, b, mask, temperature):
    lp, lq = _log_probs(a, b, temperature)
    tok = 0.5 * jnp.sum((jnp.exp(lp) - jnp.exp(lq)) * (lp - lq), -1)
    m = mask.astype(a.dtype)
    count = jnp.maximum(m.sum(), 1.0)
    return temperature**2 * (m * tok).sum() / count, (lp, lq, m / count)


def _r_drop_bwd(temperature, res, g):
    lp, lq, m = res
    p, q, d = jnp.exp(lp), jnp.exp(lq), lp - lq
    scale = 0.5 * temperature * g * m[..., None]
    ga = scale * (p * (d - jnp.sum(p * d, -1, keepdims=True)) + p - q)
    gb = scale * (q * (jnp.sum(q * d, -1, keepdims=True) - d) + q - p)
    return ga, gb, None


r_drop_loss.defvjp(_r_drop_fwd, _r_drop_bwd)


def _keep(seed, shape, rate, dtype):
    return jax.random.bernoulli(jax.random.PRNGKey(seed), 1.0 - rate, shape).astype(dtype) / (1.0 - rate)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def word_dropout(x, seed, rate=0.1):
    return x * _keep(seed, x.shape[:-1] + (1,), rate, x.dtype)


def _wd_fwd(x, seed, rate):
    return word_dropout(x, seed, rate), seed


def _wd_bwd(rate, seed, g):
    # redraw rather than store
    return g * _keep(seed, g.shape, rate, g.dtype), None


word_dropout.defvjp(_wd_fwd, _wd_bwd)


class Tagger:
    def __init__(self, rate=0.1, temperature=1.0):
        self.rate = rate
        self.temperature = temperature

    def logits(self, params, ids, seed):
        h = word_dropout(params["emb"][ids], seed, self.rate)
        return jnp.tanh(h @ params["w1"]) @ params["w2"]

    def consistency(self, params, ids, mask, seed):
        one = self.logits(params, ids, seed)
        two = self.logits(params, ids, seed + 1)
        return r_drop_loss(one, two, mask, self.temperature)
