# A small language model that writes lullabies, syllable by syllable.
#
# Parts with derivatives of their own:
#   pendular_memory        damped rotating state (the "cradle")
#   rhyme_attention        causal attention with a learned bias for pairs of rhyme classes
#   make_syllable_budget   loss on the number of sung syllables of a line
#   contrast_decode        log-probabilities of expert against amateur, used when fine-tuning on our own samples

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

MASKED = -1e9


def _turn(re, im, cos, sin):
    return cos * re - sin * im, sin * re + cos * im


def _swing(x, rate, angle, h0, reverse):
    keep = jnp.exp(-rate)
    cos, sin = keep * jnp.cos(angle), keep * jnp.sin(angle)
    half = rate.shape[0]

    def step(h, x_t):
        re, im = _turn(h[..., :half], h[..., half:], cos, sin)
        new = jnp.concatenate([re, im], axis=-1) + x_t
        return new, (new, h)

    last, (ys, prev) = lax.scan(step, h0, jnp.swapaxes(x, 0, 1), reverse=reverse)
    return jnp.swapaxes(ys, 0, 1), last, prev


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def pendular_memory(x, rate, angle, h0, reverse=False):
    """Pairs of channels that swing: h_t = exp(-rate) R(angle) h_{t-1} + x_t.

    Parameters
    ----------
    x : (batch, time, 2 * pairs); the first half of the channels are the first coordinates, the second half the second ones
    rate, angle : (pairs,)
    h0 : (batch, 2 * pairs)
    reverse : run from the last syllable to the first

    Returns
    -------
    all states (batch, time, 2 * pairs) and the state with which the sweep ends (batch, 2 * pairs)
    """
    ys, last, _ = _swing(x, rate, angle, h0, reverse)
    return ys, last


def _pendular_fwd(x, rate, angle, h0, reverse):
    ys, last, prev = _swing(x, rate, angle, h0, reverse)
    return (ys, last), (rate, angle, prev)


def _pendular_bwd(reverse, res, cots):
    rate, angle, prev = res
    g_ys, g_last = cots
    half = rate.shape[0]
    keep = jnp.exp(-rate)
    cos, sin = keep * jnp.cos(angle), keep * jnp.sin(angle)

    def back(lam, g_t):
        total = lam + g_t
        re, im = _turn(total[..., :half], total[..., half:], cos, -sin)
        return jnp.concatenate([re, im], axis=-1), total

    d_h0, adj = lax.scan(back, g_last, jnp.swapaxes(g_ys, 0, 1), reverse=not reverse)
    pre, pim = _turn(prev[..., :half], prev[..., half:], cos, sin)
    are, aim = adj[..., :half], adj[..., half:]
    d_rate = -jnp.sum(are * pre + aim * pim, axis=(0, 1))
    d_angle = jnp.sum(aim * pre - are * pim, axis=(0, 1))
    return jnp.swapaxes(adj, 0, 1), d_rate, d_angle, d_h0


pendular_memory.defvjp(_pendular_fwd, _pendular_bwd)


def _rhyme_weights(q, k, table, classes):
    steps = q.shape[2]
    bias = table[:, classes[:, :, None], classes[:, None, :]]          # head, batch, query, key
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1]) + jnp.swapaxes(bias, 0, 1)
    scores = jnp.where(jnp.tril(jnp.ones((steps, steps), bool)), scores, MASKED)
    return jax.nn.softmax(scores, axis=-1)


@jax.custom_vjp
def rhyme_attention(q, k, v, table, classes):
    """Causal attention; head h adds table[h, class of the query, class of the key] to the scores.

    q, k, v (batch, heads, time, dim); table (heads, classes, classes); classes int (batch, time).
    """
    return jnp.einsum("bhqk,bhkd->bhqd", _rhyme_weights(q, k, table, classes), v)


def _rhyme_fwd(q, k, v, table, classes):
    w = _rhyme_weights(q, k, table, classes)
    return jnp.einsum("bhqk,bhkd->bhqd", w, v), (q, k, v, w, table, classes)


def _rhyme_bwd(res, g):
    q, k, v, w, table, classes = res
    dv = jnp.einsum("bhqk,bhqd->bhkd", w, g)
    dw = jnp.einsum("bhqd,bhkd->bhqk", g, v)
    ds = w * (dw - jnp.sum(dw * w, axis=-1, keepdims=True))
    scale = 1.0 / math.sqrt(q.shape[-1])
    dq = jnp.einsum("bhqk,bhkd->bhqd", ds, k) * scale
    dk = jnp.einsum("bhqk,bhqd->bhkd", ds, q) * scale
    one_hot = jax.nn.one_hot(classes, table.shape[1], dtype=ds.dtype)
    d_table = jnp.einsum("bhqk,bqm,bkn->hnm", ds, one_hot, one_hot)
    return dq, dk, dv, d_table, None


rhyme_attention.defvjp(_rhyme_fwd, _rhyme_bwd)


def make_syllable_budget(syllables, relative=False):
    """Loss on the expected number of syllables of a line.

    ``syllables`` lists how many syllables each token sings (integers, one a token; punctuation sings none).  With ``relative`` the
    miss is taken as a share of the budget, else in syllables.
    """
    sung = np.asarray(syllables)

    def miss(logits, budget, lengths):
        inside = jnp.arange(logits.shape[1]) < lengths[:, None]
        p = jax.nn.softmax(logits, axis=-1)
        expect_t = jnp.where(inside, p @ sung.astype(logits.dtype), 0.0)
        expected = jnp.sum(expect_t, axis=1)
        err = expected - budget
        return (err / budget if relative else err), expected, expect_t, p, inside

    @jax.custom_vjp
    def budget_loss(logits, budget, lengths):
        """Mean log cosh of the misses; logits (lines, time, vocab), budget (lines,) positive, lengths int (lines,)."""
        err = miss(logits, budget, lengths)[0]
        return jnp.mean(jnp.logaddexp(err, -err) - math.log(2.0))

    def fwd(logits, budget, lengths):
        return budget_loss(logits, budget, lengths), (logits, budget, lengths)

    def bwd(res, g):
        logits, budget, lengths = res
        err, expected, expect_t, p, inside = miss(logits, budget, lengths)
        g_err = g * jnp.tanh(err) / err.shape[0]
        if relative:
            g_expected, g_budget = g_err / budget, -g_err * expected / budget**2
        else:
            g_expected, g_budget = g_err, -g_err
        d = p * (sung.astype(p.dtype) - expect_t[..., None]) * inside[..., None]
        return g_expected[:, None, None] * d, g_budget, None

    budget_loss.defvjp(fwd, bwd)
    return budget_loss


@partial(jax.custom_jvp, nondiff_argnums=(2, 3, 4))
def contrast_decode(expert, amateur, beta=0.5, alpha=0.1, amateur_temp=1.0):
    """Contrastive log-probabilities over the last axis.

    score = (1 + beta) log p_expert - beta log p_amateur, the amateur being softened by ``amateur_temp``, among the tokens with
    p_expert >= alpha max p_expert; the rest gets MASKED.
    """
    le = jax.nn.log_softmax(expert, axis=-1)
    la = jax.nn.log_softmax(amateur / amateur_temp, axis=-1)
    plausible = le >= jnp.max(le, axis=-1, keepdims=True) + math.log(alpha)
    score = jnp.where(plausible, (1.0 + beta) * le - beta * la, MASKED)
    return jnp.where(plausible, jax.nn.log_softmax(score, axis=-1), MASKED)


@contrast_decode.defjvp
def _contrast_jvp(beta, alpha, amateur_temp, primals, tangents):
    out = contrast_decode(*primals, beta, alpha, amateur_temp)
    d_expert, d_amateur = tangents
    kept = out > 0.5 * MASKED
    probs = jnp.where(kept, jnp.exp(out), 0.0)
    d_score = (1.0 + beta) * d_expert - beta * d_amateur
    d_out = d_score - jnp.sum(probs * d_score, axis=-1, keepdims=True)
    return out, jnp.where(kept, d_out, 0.0)
