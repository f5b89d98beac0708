"""Training objectives with hand-written backward passes."""
import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import logsumexp


def _others(logits, ids):
    hit = jax.nn.one_hot(ids, logits.shape[-1], dtype=bool)
    return hit, jnp.where(hit, -jnp.inf, logits)


def _unlikelihood_terms(logits, negatives):
    _, rest = _others(logits, negatives)
    return logsumexp(logits, axis=-1) - logsumexp(rest, axis=-1)


def _reduce(terms, weights, reduction):
    if reduction == "none":
        return terms * weights
    total = jnp.sum(terms * weights)
    if reduction == "sum":
        return total
    if reduction == "mean":
        return total / jnp.sum(weights)
    raise ValueError(f"unknown reduction {reduction!r}")


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _unlikelihood(logits, negatives, weights, reduction):
    return _reduce(_unlikelihood_terms(logits, negatives), weights, reduction)


def _unlikelihood_fwd(logits, negatives, weights, reduction):
    terms = _unlikelihood_terms(logits, negatives)
    return _reduce(terms, weights, reduction), (logits, negatives, weights, terms)


def _unlikelihood_bwd(reduction, res, g):
    logits, negatives, weights, terms = res
    _, rest = _others(logits, negatives)
    if reduction == "mean":
        total = jnp.sum(weights)
        row = g * weights / total
        dweights = g * (terms - jnp.sum(terms * weights) / total) / total
    else:
        row = g * weights
        dweights = g * terms
    diff = jax.nn.softmax(logits, axis=-1) - jax.nn.softmax(rest, axis=-1)
    return row[..., None] * diff, None, dweights


_unlikelihood.defvjp(_unlikelihood_fwd, _unlikelihood_bwd)


def unlikelihood_loss(logits, negatives, weights=None, *, reduction="mean"):
    """Penalty ``-log(1 - p[negative])`` on tokens that must not be produced.

    Parameters
    ----------
    logits : array, shape (..., vocab)
        Unnormalised scores; ``vocab`` is at least two.
    negatives : int array, shape (...)
        The token to push away at every position.
    weights : array, shape (...), optional
        Weight of every position; ones when left out.
    reduction : {'mean', 'sum', 'none'}
        ``'mean'`` divides by the sum of the weights.

    Returns
    -------
    array
        Scalar, or one term per position for ``'none'``.
    """
    if weights is None:
        weights = jnp.ones(logits.shape[:-1], logits.dtype)
    return _unlikelihood(logits, negatives, weights, reduction)


def wing_loss(pred, target, *, width: float = 10.0, curvature: float = 2.0, reduction: str = "mean"):
    """Wing loss for landmark regression.

    Logarithmic for errors below ``width`` and linear above it::

        width * log(1 + |e| / curvature)   if |e| < width
        |e| - offset                       otherwise

    Args:
        pred: predicted coordinates, any shape.
        target: true coordinates, same shape.
        width: where the two pieces meet.
        curvature: how sharp the logarithmic piece is.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """
    offset = width - width * jnp.log1p(width / curvature)

    @jax.custom_gradient
    def pointwise(e):
        a = jnp.abs(e)
        value = jnp.where(a < width, width * jnp.log1p(a / curvature), a - offset)

        def grad(g):
            slope = jnp.where(a < width, width / (curvature + a), jnp.sign(e))
            return g * slope

        return value, grad

    losses = pointwise(pred - target)
    if reduction == "mean":
        return jnp.mean(losses)
    return jnp.sum(losses) if reduction == "sum" else losses


# -- sequence models -------------------------------------------------------------------


def _forward_table(log_init, log_trans, log_emit, lengths):
    """All forward messages, ``(time, batch, states)``; frozen past the end of a row."""
    first = log_init + log_emit[:, 0]

    def step(alpha, t):
        emit, pos = t
        new = logsumexp(alpha[:, :, None] + log_trans, axis=1) + emit
        alpha = jnp.where((pos < lengths)[:, None], new, alpha)
        return alpha, alpha

    emits = jnp.swapaxes(log_emit, 0, 1)[1:]
    _, rest = lax.scan(step, first, (emits, jnp.arange(1, log_emit.shape[1])))
    return jnp.concatenate([first[None], rest])


@jax.custom_vjp
def hmm_log_likelihood(log_init, log_trans, log_emit, lengths):
    """Log score of observation sequences under a hidden Markov model.

    Args:
      log_init: ``[states]`` log potentials of the first state.
      log_trans: ``[states, states]`` log potentials, from row to column.
      log_emit: ``[batch, time, states]`` log potentials of the observations.
      lengths: ``[batch]`` valid steps of every row (at least one); later steps are padding.

    Returns:
      ``[batch]`` log of the sum over all state paths.
    """
    return logsumexp(_forward_table(log_init, log_trans, log_emit, lengths)[-1], axis=-1)


def _hmm_fwd(log_init, log_trans, log_emit, lengths):
    alphas = _forward_table(log_init, log_trans, log_emit, lengths)
    ll = logsumexp(alphas[-1], axis=-1)
    return ll, (log_trans, log_emit, lengths, alphas, ll)


def _hmm_bwd(res, g):
    log_trans, log_emit, lengths, alphas, ll = res
    steps = log_emit.shape[1]
    emits = jnp.swapaxes(log_emit, 0, 1)

    def step(beta, t):
        alpha_prev, emit, pos = t
        msg = log_trans + (emit + beta)[:, None, :]
        pair = jnp.exp(alpha_prev[:, :, None] + msg - ll[:, None, None])
        post = pair.sum(axis=1)
        inside = (pos < lengths)[:, None]
        beta = jnp.where(inside, logsumexp(msg, axis=-1), beta)
        return beta, (jnp.where(inside, post, 0.0), jnp.einsum("b,bij->ij", g, pair))

    beta0, (post, pairs) = lax.scan(
        step, jnp.zeros_like(alphas[-1]), (alphas[:-1], emits[1:], jnp.arange(1, steps)), reverse=True
    )
    first = jnp.exp(alphas[0] + beta0 - ll[:, None])
    d_init = jnp.einsum("b,bs->s", g, first)
    d_trans = pairs.sum(axis=0)
    d_emit = jnp.concatenate([first[None], post]) * g[:, None]
    return d_init, d_trans, jnp.swapaxes(d_emit, 0, 1), None


hmm_log_likelihood.defvjp(_hmm_fwd, _hmm_bwd)


# -- metric learning -------------------------------------------------------------------


def _circle_logits(pos, neg, margin, gamma):
    ap = jnp.maximum(1.0 + margin - pos, 0.0)
    an = jnp.maximum(neg + margin, 0.0)
    return ap, an, -gamma * ap * (pos - (1.0 - margin)), gamma * an * (neg - margin)


class CircleLoss:
    """Pair-similarity loss that weights every similarity by its distance to an optimum."""

    def __init__(self, margin=0.25, gamma=16.0):
        self.margin = margin
        self.gamma = gamma

    def __call__(self, pos, neg):
        """Mean loss over the rows of ``pos`` (rows, n_pos) and ``neg`` (rows, n_neg)."""
        return jnp.mean(circle_loss(pos, neg, self.margin, self.gamma))


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def circle_loss(pos, neg, margin=0.25, gamma=16.0):
    return _circle_fwd(pos, neg, margin, gamma)[0]


def _circle_fwd(pos, neg, margin, gamma):
    _, _, lp, ln = _circle_logits(pos, neg, margin, gamma)
    z = logsumexp(lp, axis=-1) + logsumexp(ln, axis=-1)
    return jax.nn.softplus(z), (pos, neg, z)


def _circle_bwd(margin, gamma, res, g):
    pos, neg, z = res
    ap, an, lp, ln = _circle_logits(pos, neg, margin, gamma)
    outer = (g * jax.nn.sigmoid(z))[..., None]
    dlp = -gamma * (ap - jnp.where(ap > 0, pos - (1.0 - margin), 0.0))
    dln = gamma * (an + jnp.where(an > 0, neg - margin, 0.0))
    return outer * jax.nn.softmax(lp, axis=-1) * dlp, outer * jax.nn.softmax(ln, axis=-1) * dln


circle_loss.defvjp(_circle_fwd, _circle_bwd)


# -- proper scores ---------------------------------------------------------------------


def _lengths_and_units(d):
    n = jnp.sqrt(jnp.sum(d * d, axis=-1))
    return n, jnp.where(n[..., None] > 0, d / jnp.where(n > 0, n, 1.0)[..., None], 0.0)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def energy_score(samples, target, fair: bool = False):
    """Energy score of an ensemble.

    Args:
      samples: ``[members, batch, dim]`` ensemble forecast.
      target: ``[batch, dim]`` observation.
      fair: divide the spread by ``members * (members - 1)`` in place of ``members ** 2``.

    Returns:
      ``[batch]``: mean distance to the observation less half the mean distance between members.
    """
    return _energy_fwd(samples, target, fair)[0]


def _energy_fwd(samples, target, fair):
    m = samples.shape[0]
    pairs = m * (m - 1) if fair else m * m
    err, u_err = _lengths_and_units(samples - target)
    gap, u_gap = _lengths_and_units(samples[:, None] - samples[None, :])
    score = err.mean(axis=0) - 0.5 * gap.sum(axis=(0, 1)) / pairs
    return score, (u_err, u_gap, pairs)


def _energy_bwd(fair, res, g):
    u_err, u_gap, pairs = res
    m = u_err.shape[0]
    d_err = g[:, None] * u_err / m
    d_gap = -0.5 * g[:, None] * u_gap / pairs
    return d_err + d_gap.sum(axis=1), -d_err.sum(axis=0)


energy_score.defvjp(_energy_fwd, _energy_bwd)
