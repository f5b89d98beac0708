from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp


class BoundedDense(NamedTuple):
    kernel: jax.Array   # (out, in)
    bias: jax.Array     # (out,)
    bound: jax.Array    # (), raw; softplus gives the Lipschitz bound


def init_bounded_dense(key, n_in, n_out):
    k = jax.random.normal(key, (n_out, n_in)) / jnp.sqrt(n_in)
    c = jnp.max(jnp.sum(jnp.abs(k), axis=1))
    return BoundedDense(k, jnp.zeros(n_out), jnp.log(jnp.expm1(c)))


# ---------------------------------------------------------------- cross-stitch

def init_stitch(tasks, share=0.1):
    """Mostly keep, share a little of every other task."""
    eye = jnp.eye(tasks)
    return (1.0 - share) * eye + share / max(tasks - 1, 1) * (1.0 - eye)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def stitch_tasks(features, mix, gate, residual=True):
    """Cross-stitch unit between the trunks of a multi-task network.

        out_t = f_t * residual + tanh(gate_t) * sum_s mix[t, s] f_s

    Args:
      features: (T, ..., D), the activations of the T trunks at one depth.
      mix: (T, T), row t holds what task t takes from each trunk.
      gate: (T,), raw gates.
      residual: keep the trunk's own activations besides the mixture.

    Returns:
      (T, ..., D).
    """
    return _stitch_fwd(features, mix, gate, residual)[0]


def _per_task(v, like):
    return v.reshape((-1,) + (1,) * (like.ndim - 1))


def _stitch_fwd(features, mix, gate, residual):
    mixed = jnp.tensordot(mix, features, axes=1)
    opened = jnp.tanh(gate)
    out = _per_task(opened, mixed) * mixed
    if residual:
        out = out + features
    return out, (features, mix, mixed, opened)


def _stitch_bwd(residual, res, g):
    features, mix, mixed, opened = res
    rest = tuple(range(1, g.ndim))
    d_gate = jnp.sum(g * mixed, axis=rest) * (1.0 - opened ** 2)
    g_mixed = _per_task(opened, g) * g
    d_features = jnp.tensordot(mix, g_mixed, axes=1)
    if residual:
        d_features = d_features + g
    d_mix = jnp.tensordot(g_mixed, features, axes=(rest, rest))
    return d_features, d_mix, d_gate


stitch_tasks.defvjp(_stitch_fwd, _stitch_bwd)


# ---------------------------------------------------------------- product of experts

def _expert_weights(logvar, present, prior):
    log_t = jnp.where(present.T[:, :, None], -logvar, -jnp.inf)
    all_t = log_t
    if prior:
        all_t = jnp.concatenate([log_t, jnp.zeros_like(log_t[:1])], axis=0)
    log_p = jax.nn.logsumexp(all_t, axis=0)
    return jnp.exp(log_t - log_p), log_p


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def fuse_experts(mu, logvar, present, prior=True):
    """Product of Gaussian experts over modalities: mu, logvar (M, B, D), present (B, M) bool -> two (B, D).

    prior=True adds a standard normal expert; without it every row needs one modality at least.
    """
    return _fuse_fwd(mu, logvar, present, prior)[0]


def _fuse_fwd(mu, logvar, present, prior):
    w, log_p = _expert_weights(logvar, present, prior)
    mu = jnp.where(w > 0, mu, 0.0)   # a missing modality may hold anything
    joint = jnp.sum(w * mu, axis=0)
    return (joint, -log_p), (mu, w, joint)


def _fuse_bwd(prior, res, cts):
    mu, w, joint = res
    g_mu, g_logvar = cts
    d_logvar = -w * (g_mu * (mu - joint) - g_logvar)
    return w * g_mu, d_logvar, None


fuse_experts.defvjp(_fuse_fwd, _fuse_bwd)


# ---------------------------------------------------------------- lipschitz mlp

@jax.custom_vjp
def lipschitz_linear(x, layer):
    return _lip_fwd(x, layer)[0]


def _lip_fwd(x, layer):
    norm = jnp.sum(jnp.abs(layer.kernel), axis=1)
    limit = jax.nn.softplus(layer.bound)
    scale = jnp.minimum(1.0, limit / norm)
    return x @ (layer.kernel * scale[:, None]).T + layer.bias, (x, layer, norm, limit, scale)


def _lip_bwd(res, g):
    x, layer, norm, limit, scale = res
    g_rows = g.reshape(-1, g.shape[-1])
    gw = g_rows.T @ x.reshape(-1, x.shape[-1])
    d_x = g @ (layer.kernel * scale[:, None])
    d_scale = jnp.sum(gw * layer.kernel, axis=1)
    d_limit = jnp.sum(jnp.where(limit < norm, d_scale / norm, 0.0))
    return d_x, BoundedDense(gw * scale[:, None], g_rows.sum(axis=0),
                             d_limit * jax.nn.sigmoid(layer.bound))


lipschitz_linear.defvjp(_lip_fwd, _lip_bwd)


def lipschitz_penalty(layers):
    return jnp.prod(jnp.stack([jax.nn.softplus(l.bound) for l in layers]))
