"""Losses and layers for adapting a network to a shifted domain."""
from functools import partial

import jax
import jax.numpy as jnp

EPS = 1e-5


def _covariance(x):
    centred = x - x.mean(axis=0, keepdims=True)
    return centred.T @ centred / (x.shape[0] - 1), centred


@jax.custom_vjp
def coral_distance(source, target):
    """Correlation alignment (Deep CORAL).

    Parameters
    ----------
    source : ndarray, shape (n, d)
        Features of the labelled batch, n >= 2.
    target : ndarray, shape (m, d)
        Features of the unlabelled batch, m >= 2.

    Returns
    -------
    ndarray, shape ()
        ``||C_s - C_t||_F^2 / (4 d^2)``.
    """
    c_s, _ = _covariance(source)
    c_t, _ = _covariance(target)
    d = source.shape[1]
    return jnp.sum((c_s - c_t) ** 2) / (4.0 * d * d)


def _coral_fwd(source, target):
    c_s, xs = _covariance(source)
    c_t, xt = _covariance(target)
    d = source.shape[1]
    gap = c_s - c_t
    return jnp.sum(gap ** 2) / (4.0 * d * d), (gap, xs, xt)


def _coral_bwd(res, g):
    gap, xs, xt = res
    n, d = xs.shape
    scale = g / (d * d * (n - 1))
    return scale * xs @ gap, -scale * xt @ gap


coral_distance.defvjp(_coral_fwd, _coral_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def moment_gap(source, target, orders=(2, 3)):
    """Central moment discrepancy between two batches.

    Parameters
    ----------
    source, target : ndarray, shapes (n, d) and (m, d)
        Activations; the two batches may have different sizes.
    orders : tuple of int
        Orders (>= 2) of the central moments compared besides the mean.

    Returns
    -------
    ndarray, shape ()
        Sum of Euclidean distances between the moment vectors.
    """
    return _moment_gap_fwd(source, target, orders)[0]


def _central(x, order):
    return jnp.mean((x - x.mean(axis=0)) ** order, axis=0)


def _safe_unit(v):
    norm = jnp.sqrt(jnp.sum(v * v))
    return norm, jnp.where(norm > 0, v / jnp.where(norm > 0, norm, 1.0), 0.0)


def _moment_gap_fwd(source, target, orders):
    total, unit = _safe_unit(source.mean(axis=0) - target.mean(axis=0))
    units = [unit]
    for k in orders:
        norm, unit = _safe_unit(_central(source, k) - _central(target, k))
        total = total + norm
        units.append(unit)
    return total, (source, target, units)


def _moment_pullback(x, units, orders):
    n = x.shape[0]
    centred = x - x.mean(axis=0)
    grad = jnp.broadcast_to(units[0], x.shape) / n
    for k, u in zip(orders, units[1:]):
        grad = grad + k / n * u * (centred ** (k - 1) - _central(x, k - 1))
    return grad


def _moment_gap_bwd(orders, res, g):
    source, target, units = res
    return (g * _moment_pullback(source, units, orders),
            -g * _moment_pullback(target, units, orders))


moment_gap.defvjp(_moment_gap_fwd, _moment_gap_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def capped_ratio(scores, cap=10.0):
    """Self-normalised density ratios from the scores of a domain classifier.

    Parameters
    ----------
    scores : ndarray, shape (..., n)
        Log odds of "target" against "source" for the source samples.
    cap : float
        Upper bound of one sample's weight.

    Returns
    -------
    ndarray, shape (..., n)
        ``min(exp(s) / mean(exp(s)), cap)`` along the last axis.
    """
    n = scores.shape[-1]
    return jnp.minimum(n * jax.nn.softmax(scores, axis=-1), cap)


def _ratio_fwd(scores, cap):
    weights = capped_ratio(scores, cap)
    return weights, weights


def _ratio_bwd(cap, weights, g):
    g = jnp.where(weights < cap, g, 0.0)
    inner = jnp.mean(g * weights, axis=-1, keepdims=True)
    return (weights * (g - inner),)


capped_ratio.defvjp(_ratio_fwd, _ratio_bwd)


def _masked_stats(x, lengths):
    keep = (jnp.arange(x.shape[1])[None, :] < lengths[:, None])[..., None]
    count = jnp.maximum(lengths, 1).astype(x.dtype)[:, None, None]
    mean = jnp.sum(jnp.where(keep, x, 0.0), axis=1, keepdims=True) / count
    centred = jnp.where(keep, x - mean, 0.0)
    std = jnp.sqrt(jnp.sum(centred ** 2, axis=1, keepdims=True) / count + EPS)
    return keep, count, mean, centred, std


@jax.custom_vjp
def restyle(content, content_lengths, style, style_lengths):
    """Give padded sequences the channel statistics of other sequences (AdaIN).

    Parameters
    ----------
    content : ndarray, shape (b, t, c)
    content_lengths : ndarray of int, shape (b,)
    style : ndarray, shape (b, s, c)
    style_lengths : ndarray of int, shape (b,)

    Returns
    -------
    ndarray, shape (b, t, c)
        Restyled content; frames past the content's length are zero.
    """
    return _restyle_fwd(content, content_lengths, style, style_lengths)[0]


def _restyle_fwd(content, content_lengths, style, style_lengths):
    keep_c, n_c, _, cc, std_c = _masked_stats(content, content_lengths)
    _, n_s, mean_s, cs, std_s = _masked_stats(style, style_lengths)
    keep_s = jnp.arange(style.shape[1])[None, :, None] < style_lengths[:, None, None]
    normed = cc / std_c
    out = jnp.where(keep_c, std_s * normed + mean_s, 0.0)
    return out, (keep_c, n_c, normed, std_c, keep_s, n_s, cs, std_s)


def _restyle_bwd(res, g):
    keep_c, n_c, normed, std_c, keep_s, n_s, cs, std_s = res
    g = jnp.where(keep_c, g, 0.0)
    g_mean = jnp.sum(g, axis=1, keepdims=True)
    g_std = jnp.sum(g * normed, axis=1, keepdims=True)
    # the scale std_s is common to all frames of a channel
    d_content = std_s / std_c * (g - g_mean / n_c - normed * g_std / n_c)
    d_content = jnp.where(keep_c, d_content, 0.0)
    d_style = jnp.where(keep_s, (g_mean + g_std * cs / std_s) / n_s, 0.0)
    return d_content, None, d_style, None


restyle.defvjp(_restyle_fwd, _restyle_bwd)


def adaptation_objective(features_s, features_t, losses, scores, trade_off=0.5):
    weights = capped_ratio(scores, 5.0)
    align = coral_distance(features_s, features_t) + moment_gap(features_s, features_t, (2, 3, 4))
    return jnp.mean(weights * losses) + trade_off * align
