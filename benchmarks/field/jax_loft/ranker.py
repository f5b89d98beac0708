"""Objectives for the two-stage ranker and for its text encoder."""

import jax
import jax.numpy as jnp
import numpy as np


def _no_grad(ids):
    return np.zeros(np.shape(ids), jax.dtypes.float0)


# user tower: closed-form factors -------------------------------------------


def _normal_matrix(items, confidence, ridge):
    d = items.shape[1]
    return (items * confidence[:, None]).T @ items + ridge * jnp.eye(d, dtype=items.dtype)


@jax.custom_vjp
def user_factor(items, confidence, preference, ridge):
    r"""Closed-form user vector of implicit-feedback ALS.

    Minimises :math:`\sum_n c_n (p_n - y_n \cdot u)^2 + \lambda |u|^2`.

    Parameters
    ----------
    items : (n_items, dim)
        Item factors of the user's candidates.
    confidence : (n_items,)
        Positive weights.
    preference : (n_items,)
        Targets.
    ridge : ()
        Positive.

    Returns
    -------
    (dim,)
    """
    a = _normal_matrix(items, confidence, ridge)
    return jnp.linalg.solve(a, items.T @ (confidence * preference))


def _user_factor_fwd(items, confidence, preference, ridge):
    u = user_factor(items, confidence, preference, ridge)
    return u, (items, confidence, preference, ridge, u)


def _user_factor_bwd(res, g):
    items, confidence, preference, ridge, u = res
    v = jnp.linalg.solve(_normal_matrix(items, confidence, ridge), g)
    a_bar = -jnp.outer(v, u)
    yu, yv = items @ u, items @ v
    g_items = confidence[:, None] * (preference[:, None] * v + 2.0 * items @ a_bar)
    return g_items, yv * (preference - yu), confidence * yv, jnp.trace(a_bar)


user_factor.defvjp(_user_factor_fwd, _user_factor_bwd)


def predict_user(items, clicks, *, alpha=20.0, ridge=0.1):
    conf = 1.0 + alpha * clicks
    u = user_factor(items, conf, (clicks > 0).astype(items.dtype), jnp.asarray(ridge, items.dtype))
    return items @ u


# off-policy value ----------------------------------------------------------


def make_snips(max_weight=10.0):
    """Self-normalised importance estimate of a policy's value.

    Returns ``value(logits, action, reward, propensity)`` for logits (B, A),
    logged actions (B,) ints, rewards (B,) and logging propensities (B,) in
    (0, 1]. Weights above `max_weight` are cut, and take no gradient.
    """

    def parts(logits, action, propensity):
        prob = jax.nn.softmax(logits, axis=-1)
        taken = jnp.take_along_axis(prob, action[:, None], axis=-1)[:, 0]
        raw = taken / propensity
        return prob, raw, jnp.minimum(raw, max_weight)

    @jax.custom_vjp
    def value(logits, action, reward, propensity):
        w = parts(logits, action, propensity)[2]
        return jnp.sum(w * reward) / jnp.sum(w)

    def fwd(logits, action, reward, propensity):
        prob, raw, w = parts(logits, action, propensity)
        total = jnp.sum(w)
        v = jnp.sum(w * reward) / total
        return v, (prob, raw, w, total, v, action, reward, propensity)

    def bwd(res, g):
        prob, raw, w, total, v, action, reward, propensity = res
        g_log_w = jnp.where(raw < max_weight, g * w * (reward - v) / total, 0.0)
        one_hot = jax.nn.one_hot(action, prob.shape[-1], dtype=prob.dtype)
        g_logits = g_log_w[:, None] * (one_hot - prob)
        return g_logits, _no_grad(action), g * w / total, -g_log_w / propensity

    value.defvjp(fwd, bwd)
    return value


snips_value = make_snips(max_weight=5.0)


# text encoder --------------------------------------------------------------


def _shift_labels(labels, horizons, ignore):
    rows = []
    for h in range(1, horizons + 1):
        h = min(h, labels.shape[1])
        rows.append(jnp.pad(labels[:, h:], ((0, 0), (0, h)), constant_values=ignore))
    return jnp.stack(rows)


def _multi_fwd(logits, labels, head_weight, ignore):
    target = _shift_labels(labels, logits.shape[0], ignore)
    valid = target != ignore
    safe = jnp.where(valid, target, 0)
    lse = jax.nn.logsumexp(logits, axis=-1)
    nll = lse - jnp.take_along_axis(logits, safe[..., None], axis=-1)[..., 0]
    count = jnp.maximum(jnp.sum(valid, axis=(1, 2)), 1).astype(logits.dtype)
    per_head = jnp.sum(jnp.where(valid, nll, 0.0), axis=(1, 2)) / count
    loss = jnp.dot(head_weight, per_head)
    return loss, (logits, lse, safe, valid, count, per_head, head_weight, labels)


def _multi_bwd(ignore, res, g):
    logits, lse, safe, valid, count, per_head, head_weight, labels = res
    scale = (g * head_weight / count)[:, None, None] * valid
    d = jnp.exp(logits - lse[..., None])
    d = d - jax.nn.one_hot(safe, logits.shape[-1], dtype=logits.dtype)
    return scale[..., None] * d, _no_grad(labels), g * per_head


def _multi_horizon_loss(logits, labels, head_weight, ignore=-100):
    """Loss of H heads that predict 1, ..., H tokens ahead.

    logits (H, B, T, V); labels (B, T) ints in [0, V) or `ignore`; head_weight
    (H,). Each head's loss is a mean over its own valid positions; heads are
    then added up with their weights.
    """
    return _multi_fwd(logits, labels, head_weight, ignore)[0]


multi_horizon_loss = jax.custom_vjp(_multi_horizon_loss, nondiff_argnums=(3,))
multi_horizon_loss.defvjp(_multi_fwd, _multi_bwd)


class MultiHorizonHead:
    def __init__(self, dim, vocab, horizons, *, decay=0.7):
        self.shape = (horizons, dim, vocab)
        self.head_weight = decay ** np.arange(horizons, dtype=np.float32)

    def init(self, key):
        return {"kernel": jax.random.normal(key, self.shape) / np.sqrt(self.shape[1])}

    def apply(self, params, hidden, labels):
        logits = jnp.einsum("btd,hdv->hbtv", hidden, params["kernel"])
        return multi_horizon_loss(logits, labels, jnp.asarray(self.head_weight, logits.dtype), -100)
