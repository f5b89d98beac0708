"""Musculotendon actuators for the gait bench (TensorFlow).

Conventions: ``B`` trials or frames, ``T`` samples, ``M`` muscles, ``J`` joint axes.
Lengths are normalised by the optimal fibre length and velocities by the maximal
shortening velocity; lengthening is positive.
"""

import dataclasses

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class HillCurves:
    width: float = 0.45  # spread of the active force-length bell
    curvature: float = 0.25  # Hill's a/F0
    eccentric_gain: float = 1.4  # plateau of the lengthening branch
    passive_shape: float = 4.0
    passive_strain: float = 0.6


DEFAULT_CURVES = HillCurves()


def _sum_like(grad, ref):
    """Sums ``grad`` down to the shape of ``ref`` (undoes numpy-style broadcasting)."""
    extra = len(grad.shape) - len(ref.shape)
    if extra > 0:
        grad = tf.reduce_sum(grad, axis=list(range(extra)))
    axes = [i for i, n in enumerate(ref.shape) if n == 1 and grad.shape[i] != 1]
    return tf.reduce_sum(grad, axis=axes, keepdims=True) if axes else grad


def _velocity_curve(v, c):
    """Force-velocity factor and its slope; C1 at v = 0."""
    k = c.curvature
    vs = tf.clip_by_value(v, -1.0, 0.0)
    vl = tf.maximum(v, 0.0)
    short_den = 1.0 - vs / k
    short = (1.0 + vs) / short_den
    d_short = (1.0 + 1.0 / k) / short_den**2
    # lengthening branch: slope at 0 matched to the shortening one
    rise = c.eccentric_gain - 1.0
    slope0 = 1.0 + 1.0 / k
    den = rise + slope0 * vl
    long = 1.0 + rise * slope0 * vl / den
    d_long = rise * rise * slope0 / den**2
    d_short = tf.where(v < -1.0, tf.zeros_like(d_short), d_short)
    return tf.where(v > 0.0, long, short), tf.where(v > 0.0, d_long, d_short)


def hill_force_with(curves=DEFAULT_CURVES):
    """Builds the actuator force for one set of curves.

    The returned op maps

      activation  [B, M] in [0, 1]
      length      [B, M] normalised fibre length, > 0
      velocity    [B, M] normalised; below -1 the fibre cannot pull
      fmax        [M] or [B, M] peak isometric force

    to the fibre force [B, M]. The passive element engages above length 1.
    """

    @tf.custom_gradient
    def hill_force(activation, length, velocity, fmax):
        c = curves
        z = (length - 1.0) / c.width
        bell = tf.exp(-z * z)
        fv, dfv = _velocity_curve(velocity, c)
        rate = c.passive_shape / c.passive_strain
        norm = tf.math.expm1(tf.cast(c.passive_shape, length.dtype))
        stretch = tf.maximum(length - 1.0, 0.0)
        passive = tf.math.expm1(rate * stretch) / norm
        unit = activation * bell * fv + passive

        def grad(upstream):
            scaled = upstream * fmax
            d_bell = -2.0 * z / c.width * bell
            d_passive = tf.where(
                length > 1.0, rate * tf.exp(rate * stretch) / norm, tf.zeros_like(length)
            )
            g_act = scaled * bell * fv
            g_len = scaled * (activation * fv * d_bell + d_passive)
            g_vel = scaled * activation * bell * dfv
            return g_act, g_len, g_vel, _sum_like(upstream * unit, fmax)

        return fmax * unit, grad

    return hill_force


class ActivationDynamics:
    """First-order excitation-to-activation dynamics, explicit Euler at a fixed step."""

    def __init__(self, dt=0.005, tau_rise=0.015, tau_fall=0.05):
        self.dt = dt
        self.tau_rise = tau_rise
        self.tau_fall = tau_fall

    def step_rate(self, u, a):
        warp = 0.5 + 1.5 * a
        return self.dt * tf.where(u > a, 1.0 / (self.tau_rise * warp), warp / self.tau_fall)

    def __call__(self, excitation, initial):
        """Excitation [T, B, M] and initial activation [B, M] to activations [T, B, M]."""
        dt, tau_rise = self.dt, self.tau_rise

        @tf.custom_gradient
        def activation_rollout(excitation, initial):
            steps = excitation.shape[0]
            before, after = [], []
            a = initial
            for t in range(steps):
                before.append(a)
                u = excitation[t]
                a = a + self.step_rate(u, a) * (u - a)
                after.append(a)

            def grad(upstream):
                adj = tf.zeros_like(initial)
                g_exc = []
                for t in reversed(range(steps)):
                    u, a_prev = excitation[t], before[t]
                    adj = adj + upstream[t]
                    rate = self.step_rate(u, a_prev)
                    warp = 0.5 + 1.5 * a_prev
                    d_rate = tf.where(
                        u > a_prev, -1.5 * dt / (tau_rise * warp**2), tf.zeros_like(warp)
                    )
                    g_exc.append(adj * rate)
                    adj = adj * (1.0 - rate + d_rate * (u - a_prev))
                return tf.stack(g_exc[::-1]), adj

            return tf.stack(after), grad

        return activation_rollout(excitation, initial)


def co_contraction(agonist, antagonist, valid=None, axis=-1, eps=1e-9):
    """Falconer-Winter co-contraction index 2 * common / total over ``axis``, in [0, 1].

    Both envelopes are non-negative and of one shape; ``valid`` is a boolean mask that broadcasts against the envelopes; samples outside it
    count neither in the common area nor in the total. Ties split evenly.
    """
    if valid is None:
        valid = tf.ones_like(agonist, dtype=tf.bool)

    @tf.custom_gradient
    def co_contraction_index(ago, ant):
        keep = tf.cast(tf.broadcast_to(valid, ago.shape), ago.dtype)
        common = tf.reduce_sum(keep * tf.minimum(ago, ant), axis=axis, keepdims=True)
        total = tf.reduce_sum(keep * (ago + ant), axis=axis, keepdims=True) + eps
        index = 2.0 * common / total

        def grad(upstream):
            up = tf.expand_dims(upstream, axis) * keep / total
            share = 0.5 * (1.0 + tf.sign(ant - ago))
            return up * (2.0 * share - index), up * (2.0 * (1.0 - share) - index)

        return tf.squeeze(index, axis), grad

    return co_contraction_index(agonist, antagonist)


@tf.custom_gradient
def arm_torque(angle, force, coeffs):
    # angle [B, J], force [B, M], coeffs [J, M, K]: moment arm r_jm(q) = sum_k c_jmk q_j^k
    order = coeffs.shape[-1]
    powers = tf.stack([angle**k for k in range(order)], axis=-1)
    arms = tf.einsum("bjk,jmk->bjm", powers, coeffs)
    torque = tf.einsum("bjm,bm->bj", arms, force)

    def grad(dtau):
        d_force = tf.einsum("bj,bjm->bm", dtau, arms)
        d_coeffs = tf.einsum("bj,bm,bjk->jmk", dtau, force, powers)
        slope = tf.einsum("bjk,jmk->bjm", powers[..., :-1], coeffs[..., 1:])
        d_angle = dtau * tf.einsum("bjm,bm->bj", slope, force)
        return d_angle, d_force, d_coeffs

    return torque, grad
