"""Building blocks of the federated policy trainer.

Clients roll out a shared policy on device, compute soft-Q / GAE targets locally and send a
clipped update to the server.  The server averages the updates and picks the noise level by
gradient descent on the analytic Gaussian privacy curve.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Sequence

import tensorflow as tf


class PrivacyBudget(NamedTuple):
    epsilon: float = 4.0
    delta: float = 1e-6
    sensitivity: float = 1.0


class RolloutSpec(NamedTuple):
    gamma: float = 0.99
    lam: float = 0.95
    temperature: float = 0.2


def _sum_to(x, like):
    """Sums ``x`` over the axes along which ``like`` was broadcast to give it."""
    shape = tf.shape(like)
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=shape, s1=tf.shape(x))
    return tf.reshape(tf.reduce_sum(x, axis=axes), shape)


# ------------------------------------------------------------------------------ privacy


def _ndtr(x):
    return 0.5 * tf.math.erfc(-x / math.sqrt(2.0))


def _npdf(x):
    return tf.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


@tf.custom_gradient
def gaussian_delta(epsilon, sigma):
    """Exact ``delta(epsilon)`` of the Gaussian mechanism (Balle & Wang, 2018).

    ``delta = Phi(1 / (2 s) - eps s) - exp(eps) Phi(-1 / (2 s) - eps s)`` for noise of
    standard deviation ``s`` on a query of sensitivity one.

    Args:
      epsilon: float tensor, ``0 <= epsilon <= 20``.
      sigma: positive float tensor; broadcasts against ``epsilon`` (for instance a column
        of noise levels against a row of epsilons).

    Returns:
      Float tensor of the broadcast shape.
    """
    half = 0.5 / sigma
    upper = half - epsilon * sigma
    lower = -half - epsilon * sigma
    tail = tf.exp(epsilon) * _ndtr(lower)
    delta = _ndtr(upper) - tail

    def grad(upstream):
        # pdf(upper) == exp(eps) * pdf(lower), which removes most of the chain rule
        d_epsilon = -tail
        d_sigma = -_npdf(upper) / tf.square(sigma)
        return _sum_to(upstream * d_epsilon, epsilon), _sum_to(upstream * d_sigma, sigma)

    return delta, grad


def calibrate_noise(budget: PrivacyBudget, steps: int = 200, rate: float = 0.1):
    """Finds the noise multiplier for ``budget`` by gradient descent in log space."""
    log_sigma = tf.Variable(0.0, dtype=tf.float64)
    epsilon = tf.constant(budget.epsilon, tf.float64)
    target = math.log(budget.delta)
    for _ in range(steps):
        with tf.GradientTape() as tape:
            delta = gaussian_delta(epsilon, tf.exp(log_sigma))
            miss = tf.square(tf.math.log(delta + 1e-300) - target)
        slope = tape.gradient(miss, log_sigma)
        log_sigma.assign_sub(rate * tf.clip_by_value(slope, -1.0, 1.0))
    return budget.sensitivity * tf.exp(log_sigma)


def make_auto_clip(radius: float = 1.0, gamma: float = 0.01):
    """Automatic (always-on) clipping, ``u -> radius * u / (||u|| + gamma)``.

    The norm is that of a whole client update.  The returned function takes a float tensor
    ``[clients, ...]`` with any number of trailing parameter axes and keeps its shape.
    """

    @tf.custom_gradient
    def auto_clip(updates):
        axes = list(range(1, updates.shape.rank))
        norm = tf.sqrt(tf.reduce_sum(tf.square(updates), axis=axes, keepdims=True))
        scale = radius / (norm + gamma)

        def grad(upstream):
            dot = tf.reduce_sum(updates * upstream, axis=-1, keepdims=True)
            shrink = tf.math.divide_no_nan(dot * scale, norm * (norm + gamma))
            return scale * upstream - shrink * updates

        return updates * scale, grad

    return auto_clip


# ---------------------------------------------------------------------------- federated


def federated_mean(client_weights, client_params: Sequence[tf.Tensor]):
    """Weighted mean of stacked client parameters; differentiable in the weights too.

    Used by the meta-learner that tunes how much to trust each client.
    """

    @tf.custom_gradient
    def mean_of(weights, *stacks):
        total = tf.reduce_sum(weights)
        share = weights / total
        means = tuple(tf.tensordot(share, s, axes=[[0], [0]]) for s in stacks)

        def grad(*upstream):
            d_share = tf.zeros_like(weights)
            d_stacks = []
            for stack, mean, up in zip(stacks, means, upstream):
                off = stack - mean[tf.newaxis]
                d_share += tf.reduce_sum(
                    tf.reshape(off * up[tf.newaxis], [tf.shape(weights)[0], -1]), axis=1
                )
                lead = tf.reshape(share, [-1] + [1] * (stack.shape.rank - 1))
                d_stacks.append(lead * up[tf.newaxis])
            return (d_share / total, *d_stacks)

        return means, grad

    return list(mean_of(client_weights, *client_params))


# ------------------------------------------------------------------------ reinforcement


@tf.custom_gradient
def soft_backup(q_values, legal, temperature):
    scaled = q_values / temperature
    blocked = tf.where(legal, scaled, tf.cast(-1e12, scaled.dtype))
    top = tf.reduce_max(blocked, axis=-1, keepdims=True)
    weights = tf.where(legal, tf.exp(blocked - top), tf.zeros_like(blocked))
    mass = tf.reduce_sum(weights, axis=-1, keepdims=True)
    alive = mass > 0
    safe_mass = tf.where(alive, mass, tf.ones_like(mass))
    log_mass = tf.where(alive, tf.math.log(safe_mass) + top, tf.zeros_like(top))
    value = tf.squeeze(temperature * log_mass, axis=-1)

    def grad(upstream):
        up = upstream[..., tf.newaxis]
        policy = weights / safe_mass
        d_q = up * policy
        entropy = log_mass - tf.reduce_sum(policy * scaled, axis=-1, keepdims=True)
        return d_q, None, _sum_to(up * entropy, temperature)

    return value, grad


def soft_state_value(q_values, legal_actions=None, temperature=None, spec=RolloutSpec()):
    """Entropy-regularised state value ``t * log sum_a exp(q / t)`` over the legal actions.

    ``q_values`` is ``[B, A]``.  ``temperature`` is a scalar, or ``[B]`` for one per state.
    A state without legal actions is terminal and is worth zero.
    """
    if legal_actions is None:
        legal_actions = tf.ones_like(q_values, dtype=tf.bool)
    if temperature is None:
        temperature = tf.constant(spec.temperature, q_values.dtype)
    temperature = tf.convert_to_tensor(temperature, q_values.dtype)
    if temperature.shape.rank == 1:
        temperature = temperature[:, tf.newaxis]
    return soft_backup(q_values, legal_actions, temperature)


def _suffix_sums(x, decay):
    """y[t] = x[t] + decay[t] * y[t + 1], time first."""
    start = tf.zeros_like(x[0])
    y = tf.scan(lambda acc, e: e[0] + e[1] * acc, (x, decay), initializer=start, reverse=True)
    following = tf.concat([y[1:], start[tf.newaxis]], axis=0)

    def grad(upstream):
        d_x = tf.scan(lambda acc, e: e[0] + e[1] * acc, (upstream, decay), initializer=start)
        return d_x, d_x * following

    return y, grad


suffix_sums = tf.custom_gradient(_suffix_sums)


def gae(rewards, values, bootstrap, done, spec: RolloutSpec = RolloutSpec()):
    """Generalised advantage estimates.

    rewards, values, done: ``[T, B]``; bootstrap: ``[B]``, the value after the last step.
    ``done[t]`` marks that step ``t`` ended its episode.
    """
    alive = 1.0 - tf.cast(done, values.dtype)
    nxt = tf.concat([values[1:], bootstrap[tf.newaxis]], axis=0)
    td = rewards + spec.gamma * alive * nxt - values
    return suffix_sums(td, spec.gamma * spec.lam * alive)
