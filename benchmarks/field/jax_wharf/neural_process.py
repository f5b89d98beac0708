"""Conditional / latent neural processes in plain jax: pools, readouts, loss."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class Task(NamedTuple):
    xc: Array  # [B, N, D]
    yc: Array  # [B, N, C]
    mask_c: Array  # [B, N] bool, padded context points are False
    xt: Array  # [B, M, D]
    yt: Array  # [B, M, C]
    mask_t: Array  # [B, M] bool


@jax.custom_vjp
def bayes_pool(mu, var, mask, prior_mu, prior_var):
    """Bayesian context aggregation (Volpp et al.).

    Args:
      mu: observation of the latent from each context point, [B, N, D].
      var: its variance, positive, [B, N, D].
      mask: [B, N] bool.
      prior_mu: mean of the prior over the latent, [D].
      prior_var: variance of that prior, [D].

    Returns:
      Posterior mean and variance, [B, D] each.
    """
    return _bayes_pool_fwd(mu, var, mask, prior_mu, prior_var)[0]


def _bayes_pool_fwd(mu, var, mask, prior_mu, prior_var):
    w = jnp.where(mask[..., None], 1.0 / var, 0.0)
    post_var = 1.0 / (1.0 / prior_var + w.sum(1))
    post_mu = post_var * (prior_mu / prior_var + (w * mu).sum(1))
    return (post_mu, post_var), (mu, w, post_mu, post_var, prior_mu, prior_var)


def _bayes_pool_bwd(res, cts):
    mu, w, post_mu, post_var, prior_mu, prior_var = res
    g_mu, g_var = cts
    gain = g_mu * post_var  # [B, D]
    leak = g_var * post_var**2
    d_mu = gain[:, None] * w
    d_w = gain[:, None] * (mu - post_mu[:, None]) - leak[:, None]
    d_var = -d_w * w**2
    d_prior_mu = gain.sum(0) / prior_var
    d_prior_var = (gain * post_mu + leak).sum(0) / prior_var**2
    return d_mu, d_var, None, d_prior_mu, d_prior_var


bayes_pool.defvjp(_bayes_pool_fwd, _bayes_pool_bwd)


@jax.custom_vjp
def laplace_attend(xq, xk, v, scale, mask):
    """Attention of an ANP with L1 distances in place of dot products.

    Args:
      xq: queries, [B, M, D].
      xk: keys, [B, N, D].
      v: values, [B, N, C].
      scale: a length for each input dimension, positive, [D].
      mask: [B, N] bool; a task without any context reads zeros.

    Returns:
      [B, M, C]
    """
    return _laplace_fwd(xq, xk, v, scale, mask)[0]


def _laplace_fwd(xq, xk, v, scale, mask):
    gap = xq[:, :, None] - xk[:, None]
    s = -(jnp.abs(gap) / scale).sum(-1)
    s = jnp.where(mask[:, None], s, -1e30)
    w = jax.nn.softmax(s, -1) * mask[:, None]
    out = jnp.einsum("bmn,bnc->bmc", w, v)
    return out, (xq, xk, v, scale, w, out)


def _laplace_bwd(res, g):
    xq, xk, v, scale, w, out = res
    # sum_n w * (g . v_n) is g . out: no second reduction over the keys
    ds = w * (jnp.einsum("bmc,bnc->bmn", g, v) - (g * out).sum(-1, keepdims=True))
    gap = xq[:, :, None] - xk[:, None]
    dgap = -ds[..., None] * jnp.sign(gap) / scale
    dscale = jnp.einsum("bmn,bmnd->d", ds, jnp.abs(gap)) / scale**2
    dv = jnp.einsum("bmn,bmc->bnc", w, g)
    return dgap.sum(2), -dgap.sum(1), dv, dscale, None


laplace_attend.defvjp(_laplace_fwd, _laplace_bwd)


def _kernel(gap, length, kind):
    r = gap / length
    if kind == "rbf":
        return jnp.exp(-0.5 * r * r)
    if kind == "laplace":
        return jnp.exp(-jnp.abs(r))
    if kind == "cauchy":
        return 1.0 / (1.0 + r * r)
    raise ValueError(f"unknown kernel {kind!r}")


def _kernel_slope(gap, length, kind):
    # d log k / d gap
    if kind == "rbf":
        return -gap / length**2
    if kind == "laplace":
        return -jnp.sign(gap) / length
    return -2.0 * gap / length**2


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def set_conv(xg, xc, y, length, kind="rbf"):
    """Off-the-grid set convolution of a ConvCNP with its density channel.

    Args:
      xg: one-dimensional positions of the grid, [M].
      xc: context positions, [B, N].
      y: context values, [B, N, C].
      length: length scale, positive scalar.
      kind: "rbf", "laplace" or "cauchy".

    Returns:
      [B, M, 1 + C]: density first, then the density-normalised signal.
    """
    return _set_conv_fwd(xg, xc, y, length, kind)[0]


def _set_conv_fwd(xg, xc, y, length, kind):
    k = _kernel(xg[None, :, None] - xc[:, None, :], length, kind)  # [B, M, N]
    density = k.sum(-1, keepdims=True) + 1e-6
    signal = jnp.einsum("bmn,bnc->bmc", k, y) / density
    return jnp.concatenate([density, signal], -1), (xg, xc, y, length, k, density, signal)


def _set_conv_bwd(kind, res, g):
    xg, xc, y, length, k, density, signal = res
    g_density, g_signal = g[..., :1], g[..., 1:] / density
    gk = jnp.einsum("bmc,bnc->bmn", g_signal, y)
    gk += g_density - (g_signal * signal).sum(-1, keepdims=True)
    gap = xg[None, :, None] - xc[:, None, :]
    ggap = gk * k * _kernel_slope(gap, length, kind)
    # every kernel is a function of gap / length
    dlength = -(ggap * gap).sum() / length
    dy = jnp.einsum("bmn,bmc->bnc", k, g_signal)
    return ggap.sum((0, 2)), -ggap.sum(1), dy, dlength


set_conv.defvjp(_set_conv_fwd, _set_conv_bwd)


@jax.custom_vjp
def target_loglik(mean, std, y, mask):
    """Log-likelihood a target point, averaged in each task, then over tasks.

    Args:
      mean, std, y: [B, M, C]; whatever stands in the padded rows is not read.
      mask: [B, M] bool.
    """
    return _target_fwd(mean, std, y, mask)[0]


def _target_fwd(mean, std, y, mask):
    keep = mask[..., None]
    std = jnp.where(keep, std, 1.0)
    z = jnp.where(keep, (y - mean) / std, 0.0)
    share = mask / (jnp.maximum(mask.sum(-1, keepdims=True), 1) * mask.shape[0])
    ll = -0.5 * z * z - jnp.log(std) - 0.5 * jnp.log(2 * jnp.pi)
    return (ll.sum(-1) * share).sum(), (z, std, share)


def _target_bwd(res, g):
    z, std, share = res
    per = g * share[..., None] / std
    return per * z, per * (z * z - 1.0), -per * z, None


target_loglik.defvjp(_target_fwd, _target_bwd)


def anp_loss(params, task: Task):
    r = jax.nn.tanh(task.yc @ params["w_in"])
    read = laplace_attend(task.xt, task.xc, r, jnp.exp(params["log_scale"]), task.mask_c)
    head = read @ params["w_out"]
    mean, raw = jnp.split(head, 2, -1)
    return -target_loglik(mean, 0.05 + jax.nn.softplus(raw), task.yt, task.mask_t)
