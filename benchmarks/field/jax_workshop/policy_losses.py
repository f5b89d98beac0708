"""Returns, advantages and losses for on-policy and distributional agents.

Time-major throughout: T steps, B environments.
"""
import math
from typing import Callable, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class Rollout(NamedTuple):
    rewards: jnp.ndarray   # (T, B)
    dones: jnp.ndarray     # (T, B), 1. if the episode ended with this step
    values: jnp.ndarray    # (T + 1, B), last row bootstraps


class AdvantageOut(NamedTuple):
    advantages: jnp.ndarray
    targets: jnp.ndarray


def make_return_fn(gamma: float) -> Callable:
    """Builds `returns(rewards, dones, bootstrap)` for a fixed discount."""

    def backup(rewards, live, bootstrap):
        def body(acc, x):
            r, m = x
            acc = r + gamma * m * acc
            return acc, acc

        _, out = lax.scan(body, bootstrap, (rewards, live), reverse=True)
        return out

    @jax.custom_vjp
    def returns(rewards, dones, bootstrap):
        return backup(rewards, jnp.logical_not(dones), bootstrap)

    def returns_fwd(rewards, dones, bootstrap):
        return returns(rewards, dones, bootstrap), dones

    def returns_bwd(dones, g):
        live = jnp.logical_not(dones)

        def body(acc, x):
            g_t, m = x
            acc = g_t + gamma * m * acc
            return acc, acc

        last, g_rewards = lax.scan(body, jnp.zeros_like(g[0]), (g, live))
        return g_rewards, None, gamma * live[-1] * last

    returns.defvjp(returns_fwd, returns_bwd)
    return returns


discounted_returns = make_return_fn(0.99)


# Generalised advantage estimation. Gradients run through the critic; callers that do
# not want this stop them outside.
def make_gae(gamma: float, lam: float) -> Callable[[Rollout], AdvantageOut]:
    def forward(ro):
        live = 1.0 - ro.dones
        deltas = ro.rewards + gamma * live * ro.values[1:] - ro.values[:-1]

        def body(acc, x):
            acc = x[0] + gamma * lam * x[1] * acc
            return acc, acc

        _, adv = lax.scan(body, jnp.zeros_like(deltas[0]), (deltas, live), reverse=True)
        return AdvantageOut(adv, adv + ro.values[:-1]), deltas

    @jax.custom_vjp
    def gae(ro: Rollout) -> AdvantageOut:
        return forward(ro)[0]

    def fwd(ro):
        out, _ = forward(ro)
        return out, (ro, out.advantages)

    def bwd(res, ct):
        ro, adv = res
        live = 1.0 - ro.dones
        g = ct.advantages + ct.targets

        def body(acc, x):
            g_t, carry_live = x
            acc = g_t + gamma * lam * carry_live * acc
            return acc, acc

        before = jnp.concatenate([jnp.zeros_like(live[:1]), live[:-1]])
        _, c = lax.scan(body, jnp.zeros_like(g[0]), (g, before))
        g_values = jnp.zeros_like(ro.values).at[:-1].add(ct.targets - c).at[1:].add(gamma * live * c)
        next_adv = jnp.concatenate([adv[1:], jnp.zeros_like(adv[:1])])
        g_dones = -gamma * c * (ro.values[1:] + lam * next_adv)
        return (Rollout(c, g_dones, g_values),)

    gae.defvjp(fwd, bwd)
    return gae


def make_ppo_surrogate(clip_eps: float = 0.2):
    """Clipped surrogate, averaged over the valid steps."""
    lo, hi = 1.0 - clip_eps, 1.0 + clip_eps

    def parts(logp, logp_old, adv):
        ratio = jnp.exp(logp - logp_old)
        plain, clipped = ratio * adv, jnp.clip(ratio, lo, hi) * adv
        return ratio, plain, clipped

    @jax.custom_gradient
    def surrogate(logp, logp_old, adv, valid):
        ratio, plain, clipped = parts(logp, logp_old, adv)
        count = jnp.maximum(valid.sum(), 1)
        loss = -jnp.sum(jnp.where(valid, jnp.minimum(plain, clipped), 0.0)) / count

        def grad(g):
            w = -g / count
            free = plain <= clipped
            g_logp = jnp.where(valid & free, w * plain, 0.0)
            g_adv = jnp.where(valid, w * jnp.where(free, ratio, jnp.clip(ratio, lo, hi)), 0.0)
            return g_logp, -g_logp, g_adv, None

        return loss, grad

    return surrogate


ppo_surrogate = make_ppo_surrogate()


def _huber(u, kappa):
    a = jnp.abs(u)
    return jnp.where(a <= kappa, 0.5 * u * u, kappa * (a - 0.5 * kappa))


def make_quantile_loss(kappa: float = 1.0):
    """QR-DQN loss.

    quantile_huber(pred (B, N), target (B, M), taus (N,)): sum over predicted quantiles,
    mean over target samples, mean over the batch.
    """

    def tilt(u, taus):
        return jnp.abs(taus[None, :, None] - (u < 0))

    @jax.custom_vjp
    def quantile_huber(pred, target, taus):
        u = target[:, None, :] - pred[:, :, None]
        rho = tilt(u, taus) * _huber(u, kappa) / kappa
        return rho.mean(axis=2).sum(axis=1).mean()

    def fwd(pred, target, taus):
        return quantile_huber(pred, target, taus), (pred, target, taus)

    def bwd(res, g):
        pred, target, taus = res
        u = target[:, None, :] - pred[:, :, None]
        scale = g / (kappa * pred.shape[0] * pred.shape[1])
        slope = scale * tilt(u, taus) * jnp.clip(u, -kappa, kappa)
        g_taus = scale * jnp.sum(jnp.sign(taus[None, :, None] - (u < 0)) * _huber(u, kappa), axis=(0, 2))
        return -slope.sum(axis=2), slope.sum(axis=1), g_taus

    quantile_huber.defvjp(fwd, bwd)
    return quantile_huber


quantile_huber = make_quantile_loss()


@jax.custom_jvp
def squashed_log_prob(mean, log_std, pre_tanh):
    """log pi(tanh(pre_tanh)) of a tanh-squashed diagonal Gaussian, elementwise."""
    z = (pre_tanh - mean) * jnp.exp(-log_std)
    log_det = 2.0 * (math.log(2.0) - pre_tanh - jax.nn.softplus(-2.0 * pre_tanh))
    return -0.5 * z * z - log_std - 0.5 * math.log(2.0 * math.pi) - log_det


squashed_log_prob.defjvps(
    lambda t, ans, m, s, a: t * (a - m) * jnp.exp(-2.0 * s),
    lambda t, ans, m, s, a: t * (((a - m) * jnp.exp(-s)) ** 2 - 1.0),
    lambda t, ans, m, s, a: t * (2.0 * jnp.tanh(a) - (a - m) * jnp.exp(-2.0 * s)),
)


def actor_critic_loss(apply_fn, params, batch, rollout: Rollout, gamma=0.99, lam=0.95):
    logp, values = apply_fn(params, batch["obs"])
    out = make_gae(gamma, lam)(rollout._replace(values=values))
    adv = lax.stop_gradient(out.advantages)
    pi = ppo_surrogate(logp, batch["logp_old"], adv, batch["valid"])
    ret = discounted_returns(rollout.rewards, rollout.dones > 0, values[-1])
    return pi + 0.5 * jnp.mean((values[:-1] - lax.stop_gradient(ret)) ** 2)
