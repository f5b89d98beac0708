"""Rate models for history matching of mature fields.

Two building blocks are kept here: the modified hyperbolic decline of a single
well and the capacitance-resistance model (CRM-P) of a water flood.  Both are
used inside least squares fits with several thousand wells, so that the
backward passes are written out instead of being recorded step by step.
"""

from __future__ import annotations

from typing import Optional, Sequence

import numpy as np
import tensorflow as tf


def _as_column(x: tf.Tensor) -> tf.Tensor:
    return tf.expand_dims(x, -1)


def arps_rate(qi, di, b, times, d_terminal: Optional[float] = None):
    r"""Modified hyperbolic (Arps) decline.

    The well follows :math:`q = q_i (1 + b D_i t)^{-1/b}`.  Its instantaneous
    decline :math:`D_i / (1 + b D_i t)` falls with time; once it reaches
    ``d_terminal`` the well continues with exponential decline at that rate,
    so that rate and slope are continuous at the switch.

    Parameters
    ----------
    qi : tf.Tensor, shape (wells,)
        Initial rate, positive.
    di : tf.Tensor, shape (wells,)
        Initial nominal decline, per unit time, positive and larger than
        `d_terminal`.
    b : tf.Tensor, shape (wells,)
        Decline exponent, 0.05 <= b <= 2.
    times : array_like, shape (steps,)
        Times since first production, not negative.  Treated as data; no
        gradient flows to it.
    d_terminal : float, optional
        Terminal decline.  ``None`` (default) keeps the hyperbola for ever.

    Returns
    -------
    tf.Tensor, shape (wells, steps)
        Rate of each well at each time, differentiable in `qi`, `di` and `b`.
    """
    qi = tf.convert_to_tensor(qi)
    di = tf.convert_to_tensor(di, dtype=qi.dtype)
    b = tf.convert_to_tensor(b, dtype=qi.dtype)
    t = tf.cast(tf.convert_to_tensor(times), qi.dtype)[tf.newaxis, :]

    @tf.custom_gradient
    def rate(qi, di, b):
        q0, d0, bb = _as_column(qi), _as_column(di), _as_column(b)
        growth = tf.math.log1p(bb * d0 * t)
        q = q0 * tf.exp(-growth / bb)
        late = tf.zeros_like(q, dtype=tf.bool)
        if d_terminal is not None:
            d_end = tf.cast(d_terminal, q.dtype)
            t_switch = (1.0 / d_end - 1.0 / d0) / bb
            q_switch = q0 * tf.pow(d_end / d0, 1.0 / bb)
            late = t > t_switch
            tail = q_switch * tf.exp(-d_end * tf.nn.relu(t - t_switch))
            q = tf.where(late, tail, q)

        def grad(upstream):
            weight = upstream * q
            dlog_d = -t / (1.0 + bb * d0 * t)
            dlog_b = growth / bb**2 - d0 * t / (bb * (1.0 + bb * d0 * t))
            if d_terminal is not None:
                # exponential leg: hangs on the rate at the switch
                dlog_d = tf.where(late, -1.0 / (bb * d0), dlog_d)
                dlog_b = tf.where(late, tf.math.log(d0 / d_end) / bb**2, dlog_b)
            return (
                tf.reduce_sum(weight, axis=-1) / qi,
                tf.reduce_sum(weight * dlog_d, axis=-1),
                tf.reduce_sum(weight * dlog_b, axis=-1),
            )

        return q, grad

    return rate(qi, di, b)


class CapacitanceResistance:
    """Capacitance-resistance model with one time constant per producer.

    Between two reports the total rate of producer ``p`` relaxes towards the
    support that it gets from the injectors::

        a_k     = exp(-dt_k / tau_p)
        q_k     = a_k * q_{k-1} + (1 - a_k) * sum_i injection[k, i] * conn[i, p]
        rate_k  = uptime[k, p] * q_k

    Parameters
    ----------
    dt : sequence of float, length ``steps``
        Days between reports; they need not be equal.
    uptime : array_like, shape (steps, producers), optional
        Fraction of each interval that the producer was open, in [0, 1].  It
        scales what is reported only, the drainage volume keeps relaxing.
    """

    def __init__(self, dt: Sequence[float], uptime: Optional[np.ndarray] = None):
        self.dt = np.asarray(dt, dtype=np.float64)
        self.uptime = None if uptime is None else np.asarray(uptime, dtype=np.float64)

    def _open(self, q: tf.Tensor) -> tf.Tensor:
        if self.uptime is None:
            return tf.ones_like(q)
        return tf.constant(self.uptime, dtype=q.dtype)

    @tf.custom_gradient
    def producers(self, injection, tau, conn, q0):
        """Liquid rates of all producers.

        Parameters
        ----------
        injection : tf.Tensor, shape (steps, injectors)
            Injection rates, one row for each entry of `dt`.
        tau : tf.Tensor, shape (producers,)
            Time constants in days, positive.
        conn : tf.Tensor, shape (injectors, producers)
            Connectivity (fraction of injector ``i`` that supports ``p``).
        q0 : tf.Tensor, shape (producers,)
            Rates before the first report.

        Returns
        -------
        tf.Tensor, shape (steps, producers)
        """
        dt = tf.constant(self.dt, dtype=tau.dtype)[:, tf.newaxis]
        keep = tf.exp(-dt / tau)
        support = tf.matmul(injection, conn)
        steps = self.dt.shape[0]
        before, after = [], []
        q = q0
        for k in range(steps):
            before.append(q)
            q = keep[k] * q + (1.0 - keep[k]) * support[k]
            after.append(q)
        state = tf.stack(after)
        previous = tf.stack(before)
        is_open = self._open(state)

        def grad(upstream):
            seed = upstream * is_open
            carried = tf.zeros_like(q0)
            adjoint = [None] * steps
            for k in reversed(range(steps)):
                lam = seed[k] + carried
                adjoint[k] = lam
                carried = keep[k] * lam
            lam = tf.stack(adjoint)
            d_support = lam * (1.0 - keep)
            d_keep = lam * (previous - support)
            d_tau = tf.reduce_sum(d_keep * keep * dt, axis=0) / tau**2
            return (
                tf.matmul(d_support, conn, transpose_b=True),
                d_tau,
                tf.matmul(injection, d_support, transpose_a=True),
                carried,
            )

        return state * is_open, grad


def mismatch(model: CapacitanceResistance, injection, tau, conn, q0, observed):
    """Mean squared rate error over the reports that are not NaN."""
    simulated = model.producers(injection, tau, conn, q0)
    known = tf.math.is_finite(observed)
    error = tf.where(known, simulated - observed, tf.zeros_like(simulated))
    count = tf.reduce_sum(tf.cast(known, simulated.dtype))
    return tf.reduce_sum(error**2) / tf.maximum(count, 1.0)
