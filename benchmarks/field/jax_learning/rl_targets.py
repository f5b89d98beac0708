"""Return estimators and losses for on-policy and distributional agents.

All sequence quantities are time-major, ``[T, ...]``.
"""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class VTraceInputs(NamedTuple):
    log_rhos: jax.Array   # [T, B]
    discounts: jax.Array  # [T, B]
    rewards: jax.Array    # [T, B]
    values: jax.Array     # [T, B]


def _shift_up(x, last):
    """x[1:], then `last`."""
    return jnp.concatenate([x[1:], last[None]], axis=0)


# --------------------------------------------------------------------------
# advantages
# --------------------------------------------------------------------------
@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def truncated_gae(rewards, discounts, values, gae_lambda=0.95):
    """Truncated generalised advantage estimates.

    Args:
      rewards: [T, B] rewards r_{t+1}.
      discounts: [T, B] discounts (0 where an episode ended).
      values: [T + 1, B] value estimates, the last row is the bootstrap.
      gae_lambda: python float.

    Returns:
      [T, B] advantages.
    """
    return _gae(rewards, discounts, values, gae_lambda)


def _gae(rewards, discounts, values, lam):
    td = rewards + discounts * values[1:] - values[:-1]

    def step(acc, inp):
        delta, disc = inp
        acc = delta + lam * disc * acc
        return acc, acc

    _, adv = lax.scan(step, jnp.zeros_like(td[0]), (td, discounts), reverse=True)
    return adv


def _gae_fwd(rewards, discounts, values, gae_lambda):
    adv = _gae(rewards, discounts, values, gae_lambda)
    return adv, (discounts, values, adv)


def _gae_bwd(gae_lambda, res, g):
    discounts, values, adv = res
    adv_next = _shift_up(adv, jnp.zeros_like(adv[0]))

    def step(acc, inp):
        g_t, disc = inp
        total = g_t + acc
        return gae_lambda * disc * total, total

    _, d_td = lax.scan(step, jnp.zeros_like(g[0]), (g, discounts))
    d_disc = d_td * (values[1:] + gae_lambda * adv_next)
    d_values = jnp.zeros_like(values)
    d_values = d_values.at[1:].add(discounts * d_td)
    d_values = d_values.at[:-1].add(-d_td)
    return d_td, d_disc, d_values


truncated_gae.defvjp(_gae_fwd, _gae_bwd)


# --------------------------------------------------------------------------
# lambda returns
# --------------------------------------------------------------------------
@jax.custom_vjp
def lambda_returns(r_t, discount_t, v_t, lambda_):
    """Mixture of n-step returns, used for imagined rollouts.

    G_t = r_t + discount_t * ((1 - lambda_) * v_t + lambda_ * G_{t+1}), with
    G_T = v_t[-1].

    Args:
      r_t: [T, B] rewards.
      discount_t: [T, B] discounts.
      v_t: [T, B] values of the *next* state.
      lambda_: scalar mixing parameter in [0, 1]; may be learned.

    Returns:
      [T, B] returns.
    """
    return _lambda_scan(r_t, discount_t, v_t, lambda_)


def _lambda_scan(r_t, discount_t, v_t, lambda_):
    def body(g, inp):
        r, d, v = inp
        g = r + d * ((1.0 - lambda_) * v + lambda_ * g)
        return g, g

    _, returns = lax.scan(body, v_t[-1], (r_t, discount_t, v_t), reverse=True)
    return returns


def _lambda_fwd(r_t, discount_t, v_t, lambda_):
    returns = _lambda_scan(r_t, discount_t, v_t, lambda_)
    return returns, (discount_t, v_t, lambda_, returns)


def _lambda_bwd(res, ct):
    discount_t, v_t, lambda_, returns = res
    g_next = _shift_up(returns, v_t[-1])

    def body(carry, inp):
        c, d = inp
        c = c + carry
        return c * d * lambda_, c

    tail, d_r = lax.scan(body, jnp.zeros_like(ct[0]), (ct, discount_t))
    d_disc = d_r * ((1.0 - lambda_) * v_t + lambda_ * returns)
    d_v = d_r * discount_t * (1.0 - lambda_)
    d_v = d_v.at[-1].add(tail)
    d_lam = jnp.sum(d_r * discount_t * (g_next - v_t))
    return d_r, d_disc, d_v, d_lam


lambda_returns.defvjp(_lambda_fwd, _lambda_bwd)


# --------------------------------------------------------------------------
# V-trace
# --------------------------------------------------------------------------
@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def vtrace_targets(inputs, bootstrap_value, clip_rho=1.0, clip_c=1.0):
    """V-trace value targets (Espeholt et al., 2018), differentiable throughout.

    Args:
      inputs: a `VTraceInputs`.
      bootstrap_value: [B] value after the last step.
      clip_rho: truncation level of the weights in the TD errors.
      clip_c: truncation level of the trace coefficients.

    Returns:
      [T, B] targets vs.
    """
    return _vtrace(inputs, bootstrap_value, clip_rho, clip_c)[0]


def _vtrace(inputs, bootstrap_value, clip_rho, clip_c):
    rhos = jnp.exp(inputs.log_rhos)
    clipped = jnp.minimum(rhos, clip_rho)
    cs = jnp.minimum(rhos, clip_c)
    v_next = _shift_up(inputs.values, bootstrap_value)
    delta = inputs.rewards + inputs.discounts * v_next - inputs.values

    def step(acc, inp):
        td, disc, c = inp
        acc = td + disc * c * acc
        return acc, acc

    _, errors = lax.scan(step, jnp.zeros_like(bootstrap_value),
                         (clipped * delta, inputs.discounts, cs), reverse=True)
    return errors + inputs.values, (rhos, clipped, cs, v_next, delta, errors)


def _vtrace_fwd(inputs, bootstrap_value, clip_rho, clip_c):
    vs, saved = _vtrace(inputs, bootstrap_value, clip_rho, clip_c)
    return vs, (inputs.discounts,) + saved


def _vtrace_bwd(clip_rho, clip_c, res, g):
    discounts, rhos, clipped, cs, v_next, delta, errors = res
    err_next = _shift_up(errors, jnp.zeros_like(errors[0]))

    def step(acc, inp):
        g_t, disc, c = inp
        tot = g_t + acc
        return disc * c * tot, tot

    _, d_td = lax.scan(step, jnp.zeros_like(g[0]), (g, discounts, cs))
    d_delta = d_td * clipped
    d_rho = d_td * delta
    d_c = d_td * discounts * err_next
    live = (rhos < clip_rho).astype(rhos.dtype)
    d_log_rhos = rhos * live * (d_rho + d_c)
    d_disc = d_delta * v_next + d_td * cs * err_next
    d_next = d_delta * discounts
    d_values = (g - d_delta).at[1:].add(d_next[:-1])
    return VTraceInputs(d_log_rhos, d_disc, d_delta, d_values), d_next[-1]


vtrace_targets.defvjp(_vtrace_fwd, _vtrace_bwd)


# --------------------------------------------------------------------------
# policy loss
# --------------------------------------------------------------------------
def make_ppo_loss(epsilon=0.2):
    """Builds the clipped surrogate.

    Args:
      epsilon: clip range of the probability ratio.

    Returns:
      fn(log_prob, old_log_prob, advantage, mask) -> scalar, averaged over the
      steps where the boolean `mask` is set (0 if there are none).
    """

    @jax.custom_vjp
    def surrogate(log_prob, old_log_prob, advantage, mask):
        ratio = jnp.exp(log_prob - old_log_prob)
        obj = jnp.minimum(ratio * advantage,
                          jnp.clip(ratio, 1 - epsilon, 1 + epsilon) * advantage)
        m = mask.astype(obj.dtype)
        return -jnp.sum(obj * m) / jnp.maximum(jnp.sum(m), 1)

    def fwd(log_prob, old_log_prob, advantage, mask):
        return surrogate(log_prob, old_log_prob, advantage, mask), (
            log_prob - old_log_prob, advantage, mask)

    def bwd(res, g):
        log_ratio, advantage, mask = res
        ratio = jnp.exp(log_ratio)
        clipped = jnp.clip(ratio, 1 - epsilon, 1 + epsilon)
        m = mask.astype(ratio.dtype)
        scale = -g * m / jnp.maximum(jnp.sum(m), 1)
        use_raw = ratio * advantage <= clipped * advantage
        d_lp = scale * jnp.where(use_raw, ratio * advantage, 0.0)
        d_adv = scale * jnp.where(use_raw, ratio, clipped)
        return d_lp, -d_lp, d_adv, None

    surrogate.defvjp(fwd, bwd)
    return surrogate


# --------------------------------------------------------------------------
# distributional heads
# --------------------------------------------------------------------------
@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def quantile_huber(pred, target, taus, kappa=1.0):
    """Quantile regression loss of QR-DQN.

    Args:
      pred: [B, N] predicted quantiles.
      target: [B, M] target samples.
      taus: [N] quantile midpoints.
      kappa: Huber threshold, > 0.

    Returns:
      Scalar: mean over B and M, sum over N.
    """
    u = target[:, None, :] - pred[:, :, None]
    w = jnp.abs(taus[None, :, None] - (u < 0))
    return jnp.sum(jnp.mean(w * _huber(u, kappa) / kappa, axis=(0, 2)))


def _huber(u, kappa):
    a = jnp.abs(u)
    return jnp.where(a <= kappa, 0.5 * u * u, kappa * (a - 0.5 * kappa))


def _qh_fwd(pred, target, taus, kappa):
    return quantile_huber(pred, target, taus, kappa), (pred, target, taus)


def _qh_bwd(kappa, res, g):
    pred, target, taus = res
    u = target[:, None, :] - pred[:, :, None]
    below = (u < 0).astype(u.dtype)
    diff = taus[None, :, None] - below
    scale = g / (u.shape[0] * u.shape[2] * kappa)
    d_u = scale * jnp.abs(diff) * jnp.clip(u, -kappa, kappa)
    d_taus = scale * jnp.sum(jnp.sign(diff) * _huber(u, kappa), axis=(0, 2))
    return -jnp.sum(d_u, axis=2), jnp.sum(d_u, axis=1), d_taus


quantile_huber.defvjp(_qh_fwd, _qh_bwd)


class CategoricalHead:
    """Fixed support distribution head, atoms evenly spaced in [v_min, v_max]."""

    def __init__(self, num_atoms=51, v_min=-10.0, v_max=10.0):
        self.num_atoms, self.v_min, self.v_max = num_atoms, v_min, v_max

    def target(self, next_probs, rewards, discounts):
        return project_categorical(next_probs, rewards, discounts,
                                   self.num_atoms, self.v_min, self.v_max)

    def loss(self, logits, next_probs, rewards, discounts):
        t = self.target(next_probs, rewards, discounts)
        return -jnp.mean(jnp.sum(t * jax.nn.log_softmax(logits), axis=-1))


def _locate(rewards, discounts, n, v_min, v_max):
    atoms = jnp.linspace(v_min, v_max, n, dtype=rewards.dtype)
    moved = rewards[:, None] + discounts[:, None] * atoms
    pos = (jnp.clip(moved, v_min, v_max) - v_min) / ((v_max - v_min) / (n - 1))
    low = jnp.clip(jnp.floor(pos), 0, n - 2).astype(jnp.int32)
    return atoms, low, pos - low


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def project_categorical(next_probs, rewards, discounts, num_atoms, v_min, v_max):
    """Projects the shifted distribution r + gamma * Z back on the support.

    Args:
      next_probs: [B, num_atoms] probabilities of the bootstrap distribution.
      rewards: [B] rewards (or learned intrinsic rewards).
      discounts: [B].
      num_atoms: size of the support.
      v_min: lowest atom; shifted atoms below are moved onto it.
      v_max: highest atom; shifted atoms above are moved onto it.

    Returns:
      [B, num_atoms] probabilities.
    """
    _, low, frac = _locate(rewards, discounts, num_atoms, v_min, v_max)
    rows = jnp.arange(next_probs.shape[0])[:, None]
    out = jnp.zeros_like(next_probs)
    out = out.at[rows, low].add(next_probs * (1 - frac))
    return out.at[rows, low + 1].add(next_probs * frac)


def _project_fwd(next_probs, rewards, discounts, num_atoms, v_min, v_max):
    out = project_categorical(next_probs, rewards, discounts, num_atoms, v_min, v_max)
    return out, (next_probs, rewards, discounts)


def _project_bwd(num_atoms, v_min, v_max, res, g):
    next_probs, rewards, discounts = res
    atoms, low, frac = _locate(rewards, discounts, num_atoms, v_min, v_max)
    g_low = jnp.take_along_axis(g, low, axis=1)
    g_high = jnp.take_along_axis(g, low + 1, axis=1)
    d_probs = g_low * (1 - frac) + g_high * frac
    d_moved = next_probs * (g_high - g_low) * (num_atoms - 1) / (v_max - v_min)
    return d_probs, jnp.sum(d_moved, axis=1), jnp.sum(d_moved * atoms, axis=1)


project_categorical.defvjp(_project_fwd, _project_bwd)
