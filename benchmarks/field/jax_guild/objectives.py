"""Training objectives whose backward passes are written by hand."""
from functools import partial
from typing import NamedTuple, Optional

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma, gammaln


class NBParams(NamedTuple):
    """Mean and inverse dispersion of a negative binomial."""

    mean: jax.Array
    theta: jax.Array


# ------------------------------------------------------------------ classification

@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def poly1_cross_entropy(logits, labels, epsilon=1.0, ignore_index=-100, reduction="mean"):
    """Cross entropy plus ``epsilon * (1 - p_label)``.

    Args:
        logits: ``(..., num_classes)``.
        labels: integer array ``(...)``; entries equal to ``ignore_index`` do not count.
        epsilon: weight of the first polynomial term.
        ignore_index: label of the positions to leave out.
        reduction: ``"mean"`` (over the counted positions), ``"sum"`` or ``"none"``.
    """
    return _poly1_fwd(logits, labels, epsilon, ignore_index, reduction)[0]


def _poly1_fwd(logits, labels, epsilon, ignore_index, reduction):
    valid = labels != ignore_index
    index = jnp.where(valid, labels, 0)
    logp = jax.nn.log_softmax(logits, axis=-1)
    lp = jnp.take_along_axis(logp, index[..., None], axis=-1)[..., 0]
    loss = jnp.where(valid, -lp - epsilon * jnp.expm1(lp), 0.0)
    if reduction == "mean":
        loss = loss.sum() / jnp.maximum(valid.sum(), 1)
    elif reduction == "sum":
        loss = loss.sum()
    return loss, (logp, index, valid)


def _poly1_bwd(epsilon, ignore_index, reduction, saved, g):
    logp, index, valid = saved
    p = jnp.exp(logp)
    pt = jnp.take_along_axis(p, index[..., None], axis=-1)
    grad = (p - jax.nn.one_hot(index, p.shape[-1], dtype=p.dtype)) * (1.0 + epsilon * pt)
    grad = grad * valid[..., None]
    if reduction == "none":
        g = g[..., None]
    elif reduction == "mean":
        g = g / index.size
    return grad * g, None


poly1_cross_entropy.defvjp(_poly1_fwd, _poly1_bwd)


# ---------------------------------------------------------------------- regression

@partial(jax.custom_vjp, nondiff_argnums=(3,))
def beta_nll(mean, variance, target, beta=0.5):
    """Gaussian negative log likelihood weighted by a detached ``variance ** beta``.

    The weight enters the value, yet no gradient flows through it: the backward pass treats
    ``variance ** beta`` as a constant. ``beta = 0`` is the plain likelihood.

    Returns the elementwise loss; all three arrays have one shape.
    """
    nll = 0.5 * (jnp.log(variance) + (target - mean) ** 2 / variance)
    return variance**beta * nll


def _beta_nll_fwd(mean, variance, target, beta):
    return beta_nll(mean, variance, target, beta), (mean, variance, target)


def _beta_nll_bwd(beta, res, g):
    mean, variance, target = res
    wg = variance**beta * g
    resid = target - mean
    d_target = wg * resid / variance
    d_var = 0.5 * wg * (1.0 / variance - (resid / variance) ** 2)
    return -d_target, d_var, d_target


beta_nll.defvjp(_beta_nll_fwd, _beta_nll_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def concordance_loss(pred: jax.Array, target: jax.Array, axis: int = -1) -> jax.Array:
    return _ccc_fwd(pred, target, axis)[0]


def _ccc_fwd(pred, target, axis):
    n = pred.shape[axis]
    mp = pred.mean(axis, keepdims=True)
    mt = target.mean(axis, keepdims=True)
    cp, ct = pred - mp, target - mt
    num = 2.0 * (cp * ct).mean(axis, keepdims=True)
    den = (cp**2).mean(axis, keepdims=True) + (ct**2).mean(axis, keepdims=True) + (mp - mt) ** 2
    out = 1.0 - jnp.squeeze(num / den, axis)
    return out, (cp, ct, num, den, n)


def _ccc_bwd(axis, res, g):
    cp, ct, num, den, n = res
    g = jnp.expand_dims(g, axis)
    rho = num / den
    scale = -2.0 * g / (n * den)
    return scale * (ct - rho * cp), scale * (cp - rho * ct)


concordance_loss.defvjp(_ccc_fwd, _ccc_bwd)


@jax.custom_vjp
def _nb_nll(params: NBParams, counts):
    mu, theta = params
    log_total = jnp.log(theta + mu)
    ll = (gammaln(counts + theta) - gammaln(theta) - gammaln(counts + 1.0)
          + theta * (jnp.log(theta) - log_total) + counts * (jnp.log(mu) - log_total))
    return -ll.sum(-1)


def _nb_fwd(params, counts):
    return _nb_nll(params, counts), (params, counts)


def _fold(g, like):
    lead = g.ndim - like.ndim
    g = g.sum(tuple(range(lead)))
    for ax in range(like.ndim):
        if like.shape[ax] == 1:
            g = g.sum(ax, keepdims=True)
    return g


def _nb_bwd(res, g):
    (mu, theta), counts = res
    g = g[..., None]
    total = theta + mu
    shared = (counts + theta) / total
    d_mu = shared - counts / mu
    d_theta = (digamma(theta) - digamma(counts + theta) - jnp.log(theta) + jnp.log(total)
               - 1.0 + shared)
    d_counts = digamma(counts + 1.0) - digamma(counts + theta) - jnp.log(mu) + jnp.log(total)
    return NBParams(_fold(g * d_mu, mu), _fold(g * d_theta, theta)), _fold(g * d_counts, counts)


_nb_nll.defvjp(_nb_fwd, _nb_bwd)


def negative_binomial_nll(params: NBParams, counts, *, size_factor: Optional[jax.Array] = None):
    """Per-cell negative log likelihood of a count matrix.

    Parameters
    ----------
    params : NBParams
        ``mean`` of shape ``(cells, genes)``; ``theta`` of shape ``(genes,)``, ``(cells, genes)``,
        ``(cells, 1)`` or a scalar array.
    counts : array
        ``(cells, genes)``, floating.
    size_factor : array, optional
        ``(cells,)``; multiplies the means.
    """
    if size_factor is not None:
        params = params._replace(mean=params.mean * size_factor[:, None])
    return _nb_nll(jax.tree.map(jnp.asarray, params), counts)


# ----------------------------------------------------------------------- embeddings

def _distance(a, b):
    return jnp.sqrt(jnp.sum((a - b) ** 2, axis=-1) + 1e-12)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def triplet_loss(anchor, positive, negative, margin=1.0, swap=False):
    """Mean hinge of ``d(a, p) - d(a, n) + margin``; with ``swap``, the nearer of
    ``d(a, n)`` and ``d(p, n)`` is the negative distance."""
    return _triplet_fwd(anchor, positive, negative, margin, swap)[0]


def _triplet_fwd(anchor, positive, negative, margin, swap):
    d_pos = _distance(anchor, positive)
    d_neg = _distance(anchor, negative)
    if swap:
        d_neg = jnp.minimum(d_neg, _distance(positive, negative))
    hinge = jax.nn.relu(d_pos - d_neg + margin)
    return hinge.mean(), (anchor, positive, negative, d_pos, d_neg, hinge > 0)


def _triplet_bwd(margin, swap, res, g):
    anchor, positive, negative, d_pos, d_neg, active = res
    w = (g * active / active.size)[..., None]
    u_pos = w * (anchor - positive) / d_pos[..., None]
    u_neg = w * (anchor - negative) / d_neg[..., None]
    return u_pos - u_neg, -u_pos, u_neg


triplet_loss.defvjp(_triplet_fwd, _triplet_bwd)
