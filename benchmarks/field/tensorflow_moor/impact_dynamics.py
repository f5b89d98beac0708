"""Seismic pounding between neighbouring buildings, as differentiable TensorFlow operations.

Two pieces are needed to calibrate a pounding model against shake-table records: the response of an
elastic oscillator to a ground record, and the force between two floors that touch.  Both come with
hand-written gradients, because unrolling the time loop on the tape keeps roughly twenty tensors per
time step alive.
"""

from __future__ import annotations

from typing import Sequence

import tensorflow as tf


def _reduce_to(grad: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Sum `grad` over the axes along which `like` was broadcast."""
    shape = tf.shape(like)
    axes = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(grad), s1=shape)[1]
    return tf.reshape(tf.reduce_sum(grad, axis=axes), shape)


def _make_newmark(dt: float):
    """Average-acceleration Newmark integrator with time step `dt` (seconds)."""

    c1, c2 = 2.0 / dt, 4.0 / dt**2

    @tf.custom_gradient
    def response(ground, omega, zeta):
        k = tf.square(omega) + tf.zeros_like(ground[..., 0])
        c = 2.0 * zeta * omega + tf.zeros_like(k)
        stiffness = k + c1 * c + c2
        load = tf.unstack(-ground, axis=-1)

        u = tf.zeros_like(k)
        v = tf.zeros_like(k)
        a = load[0]
        us, vs = [u], [v]
        for p in load[1:]:
            effective = p + c2 * u + 2.0 * c1 * v + a + c * (c1 * u + v)
            u_next = effective / stiffness
            v_next = c1 * (u_next - u) - v
            a = c2 * (u_next - u) - 2.0 * c1 * v - a
            u, v = u_next, v_next
            us.append(u)
            vs.append(v)
        out = tf.stack(us, axis=-1)

        def grad(upstream):
            g = tf.unstack(upstream, axis=-1)
            steps = len(g)
            lu = g[-1]
            lv = tf.zeros_like(lu)
            la = tf.zeros_like(lu)
            dk = tf.zeros_like(lu)
            dc = tf.zeros_like(lu)
            dload = []
            for n in range(steps - 1, 0, -1):
                lam = (lu + c1 * lv + c2 * la) / stiffness
                dload.append(lam)
                dk -= lam * us[n]
                dc -= lam * vs[n]
                lu = g[n - 1] - c1 * lv - c2 * la + lam * (c2 + c1 * c)
                lv = -lv - 2.0 * c1 * la + lam * (2.0 * c1 + c)
                la = lam - la
            dload.append(la)
            dground = -tf.stack(dload[::-1], axis=-1)
            domega = 2.0 * omega * dk + 2.0 * zeta * dc
            dzeta = 2.0 * omega * dc
            return dground, _reduce_to(domega, omega), _reduce_to(dzeta, zeta)

        return out, grad

    return response


newmark_response = _make_newmark(dt=0.02)
newmark_response.__doc__ = """Relative displacement of damped oscillators under a ground record, dt = 0.02 s.

Parameters
----------
ground : tf.Tensor, shape (batch, steps)
    Ground acceleration; ``steps`` is static and at least 1. The oscillators start at rest.
omega : tf.Tensor, shape (batch,) or ()
    Circular natural frequency, positive.
zeta : tf.Tensor, shape (batch,) or ()
    Damping ratio, non-negative.

Returns
-------
tf.Tensor, shape (batch, steps)
"""


class HuntCrossleyContact(tf.Module):
    """Normal force of a nonlinear viscoelastic contact (Hunt and Crossley, 1975).

        F = k d^n (1 + b d')        while d > 0,    0 otherwise

    Parameters
    ----------
    allow_tension : bool
        The raw law pulls the bodies together when they separate faster than 1/b.  By default the force
        is floored at zero there, as most rigid body engines do; `True` keeps the raw law.
    """

    def __init__(self, allow_tension: bool = False, name: str | None = None):
        super().__init__(name=name)
        self.allow_tension = allow_tension

    @tf.custom_gradient
    def normal_force(self, depth, rate, params: Sequence[tf.Tensor]):
        """Contact force.

        Parameters
        ----------
        depth : tf.Tensor
            Interpenetration, any sign (negative means a gap).
        rate : tf.Tensor
            Time derivative of `depth`, same shape, any sign.
        params : (stiffness, exponent, damping)
            Scalars, or tensors that broadcast against `depth`; all positive and ``exponent > 1``.
        """
        stiffness, exponent, damping = params
        touching = depth > 0
        safe = tf.where(touching, depth, tf.ones_like(depth))
        spring = tf.where(touching, stiffness * tf.pow(safe, exponent), tf.zeros_like(depth))
        factor = 1.0 + damping * rate
        force = spring * factor
        if not self.allow_tension:
            force = tf.nn.relu(force)

        def grad(upstream):
            g = upstream * spring
            ddepth = g * exponent * factor / safe
            drate = g * damping
            dstiffness = g * factor / stiffness
            dexponent = g * factor * tf.math.log(safe)
            ddamping = g * rate
            dparams = (
                _reduce_to(dstiffness, stiffness),
                _reduce_to(dexponent, exponent),
                _reduce_to(ddamping, damping),
            )
            return ddepth, drate, dparams

        return force, grad

    def __call__(self, gap, gap_rate, params):
        return self.normal_force(-gap, -gap_rate, params)


def pounding_force(left, right, gap, left_rate, right_rate, params, contact=None):
    """Force on the right building, given floor displacements of both and the initial gap."""
    contact = contact or HuntCrossleyContact()
    return contact(gap + right - left, right_rate - left_rate, params)


def fit_oscillator(ground, recorded, omega, zeta, steps=200, rate=1e-2):
    """Fit natural frequency and damping ratio to recorded relative displacements."""
    log_omega, log_zeta = tf.Variable(tf.math.log(omega)), tf.Variable(tf.math.log(zeta))
    for _ in range(steps):
        with tf.GradientTape() as tape:
            model = newmark_response(ground, tf.exp(log_omega), tf.exp(log_zeta))
            loss = tf.reduce_mean(tf.square(model - recorded))
        for var, g in zip((log_omega, log_zeta), tape.gradient(loss, (log_omega, log_zeta))):
            var.assign_sub(rate * g)
    return tf.exp(log_omega), tf.exp(log_zeta)
