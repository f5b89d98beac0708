"""Losses of the item recommender (implicit feedback) and its long-tail category head."""
from __future__ import annotations

import functools
from typing import Dict, Optional, Tuple

import jax
import jax.numpy as jnp
import numpy as np


@jax.custom_vjp
def implicit_als_objective(user, item, events, alpha, reg):
    r"""Weighted matrix factorisation loss of Hu, Koren & Volinsky over *all* pairs.

    .. math::
        \sum_{u,i} s_{ui}^2 + \sum_{e} \left[(1 + \alpha r_e) (1 - s_e)^2 - s_e^2\right]
        + \lambda (\|X\|^2 + \|Y\|^2), \qquad s_{ui} = x_u \cdot y_i

    The first sum is evaluated through the Gram matrices, so that no ``U x I`` array is formed.

    Args:
        user: ``[U, k]`` factors.
        item: ``[I, k]`` factors.
        events: triple ``(user_id, item_id, strength)``, each ``[E]``, strengths are floats; ids may repeat, also as pairs (every
            event has a term of its own).
        alpha: confidence slope, scalar.
        reg: ridge weight, scalar.
    """
    uid, iid, strength = events
    s = jnp.sum(user[uid] * item[iid], axis=-1)
    background = jnp.sum((user.T @ user) * (item.T @ item))
    observed = jnp.sum((1.0 + alpha * strength) * (1.0 - s) ** 2 - s**2)
    return background + observed + reg * (jnp.sum(user**2) + jnp.sum(item**2))


def _als_fwd(user, item, events, alpha, reg):
    return implicit_als_objective(user, item, events, alpha, reg), (user, item, events, alpha, reg)


def _als_bwd(res, g):
    user, item, (uid, iid, strength), alpha, reg = res
    xu, yi = user[uid], item[iid]
    s = jnp.sum(xu * yi, axis=-1)
    miss = (1.0 - s) ** 2
    slope = -2.0 * (1.0 + alpha * strength) * (1.0 - s) - 2.0 * s
    d_user = 2.0 * user @ (item.T @ item) + 2.0 * reg * user
    d_item = 2.0 * item @ (user.T @ user) + 2.0 * reg * item
    d_user = d_user.at[uid].add(slope[:, None] * yi)
    d_item = d_item.at[iid].add(slope[:, None] * xu)
    d_alpha = jnp.sum(strength * miss)
    d_reg = jnp.sum(user**2) + jnp.sum(item**2)
    return g * d_user, g * d_item, (None, None, g * alpha * miss), g * d_alpha, g * d_reg


implicit_als_objective.defvjp(_als_fwd, _als_bwd)


def _weights(labels, class_weight, ignore_index, dtype):
    keep = labels != ignore_index
    safe = jnp.where(keep, labels, 0)
    w = keep.astype(dtype)
    if class_weight is not None:
        w = w * jnp.asarray(class_weight, dtype)[safe]
    return keep, safe, w


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5, 6))
def logit_adjusted_xent(
    logits,
    labels,
    log_prior,
    tau: float = 1.0,
    class_weight: Optional[Tuple[float, ...]] = None,
    reduction: str = "mean",
    ignore_index: int = -1,
):
    """Cross entropy on ``logits + tau * log_prior`` (Menon et al., 2021).

    Args:
        logits: ``[N, C]``.
        labels: ``[N]`` integers, ``ignore_index`` for rows without a label.
        log_prior: ``[C]`` log class frequencies; may be learned.
        tau: strength of the adjustment.
        class_weight: weight per class as a tuple, all ones if left out.
        reduction: ``"mean"`` (weighted mean, as in torch: the sum of the weighted losses over the sum of the
            weights of the labelled rows) or ``"sum"``.
        ignore_index: label that is skipped.
    """
    return _xent_fwd(logits, labels, log_prior, tau, class_weight, reduction, ignore_index)[0]


def _xent_fwd(logits, labels, log_prior, tau, class_weight, reduction, ignore_index):
    keep, safe, w = _weights(labels, class_weight, ignore_index, logits.dtype)
    logp = jax.nn.log_softmax(logits + tau * log_prior, axis=-1)
    nll = -jnp.take_along_axis(logp, safe[:, None], axis=-1)[:, 0]
    loss = jnp.sum(w * nll)
    if reduction == "mean":
        total = jnp.sum(w)
        loss = loss / jnp.where(total > 0, total, 1.0)
    return loss, (logp, labels)


def _xent_bwd(tau, class_weight, reduction, ignore_index, res, g):
    logp, labels = res
    keep, safe, w = _weights(labels, class_weight, ignore_index, logp.dtype)
    if reduction == "mean":
        g = g / jnp.maximum(jnp.sum(keep), 1)
    onehot = jax.nn.one_hot(safe, logp.shape[-1], dtype=logp.dtype)
    d = g * w[:, None] * (jnp.exp(logp) - onehot)
    return d, None, tau * d.sum(axis=0)


logit_adjusted_xent.defvjp(_xent_fwd, _xent_bwd)


class CategoryHead:
    """Linear head over item factors; parameters are a plain dict."""

    def __init__(self, dim: int, classes: int, counts=None, tau: float = 1.0):
        self.dim, self.classes, self.tau = dim, classes, tau
        freq = np.ones(classes) if counts is None else np.asarray(counts, float) + 1.0
        self.log_prior = np.log(freq / freq.sum())

    def init(self, key) -> Dict[str, jax.Array]:
        kernel = jax.random.normal(key, (self.dim, self.classes)) / np.sqrt(self.dim)
        return {"kernel": kernel, "bias": jnp.zeros(self.classes)}

    def loss(self, params, factors, labels, class_weight=None):
        logits = factors @ params["kernel"] + params["bias"]
        return logit_adjusted_xent(logits, labels, jnp.asarray(self.log_prior, logits.dtype), self.tau, class_weight)


@jax.jit
def train_step(factors, events, alpha, reg, lr):
    """One joint gradient step on both factor tables."""
    loss, grads = jax.value_and_grad(lambda f: implicit_als_objective(f["user"], f["item"], events, alpha, reg))(factors)
    return loss, jax.tree_util.tree_map(lambda p, g: p - lr * g, factors, grads)
